//! What only this engine can get wrong, on private servers.
#![cfg(target_os = "linux")]

mod access;
mod beats;
mod evictions;
mod links;
mod nodes;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod watches;
