//! The engine against real servers, below the library.

#![cfg(target_os = "linux")]

mod differential;
mod guarded;
mod life;
mod links;
mod push;
mod rights;
mod rows;
mod sessions;
mod storm;
mod support;
#[cfg(feature = "tls")]
mod tls;
