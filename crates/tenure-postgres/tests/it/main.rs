//! What only this engine can get wrong, on private servers.
#![cfg(target_os = "linux")]

mod cancel;
mod creation;
mod differential;
mod guarded;
mod idle;
mod isolation;
mod life;
mod links;
mod modes;
mod order;
mod push;
mod quiet;
mod refused;
mod support;
#[cfg(feature = "tls")]
mod tls;
