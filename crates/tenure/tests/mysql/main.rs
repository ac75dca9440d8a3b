//! What users of locks in MySQL and MariaDB see when the server, the network or a replica breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
#[path = "../postgres/cancel.rs"]
mod cancel;
mod failover;
#[path = "../redis/killed.rs"]
mod killed;
mod locked;
#[path = "../postgres/restart.rs"]
mod restart;
#[path = "../redis/route.rs"]
mod route;
mod sessions;
