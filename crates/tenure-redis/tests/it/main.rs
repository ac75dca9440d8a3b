//! The engine against real servers, below the library.

#![cfg(target_os = "linux")]

mod clock;
mod cluster;
mod differential;
mod hostile;
mod life;
mod links;
mod memory;
mod numbers;
mod one;
mod push;
mod refused;
mod rights;
mod sizes;
mod support;
mod tell;
#[cfg(feature = "tls")]
mod tls;
