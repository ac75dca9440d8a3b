//! What users of locks in MySQL and MariaDB see when the server, the network or a replica breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod failover;
mod locked;
mod restart;
// What a network can do is the same for all servers.
#[path = "../redis/route.rs"]
mod route;
mod sessions;
