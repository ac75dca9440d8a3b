//! What users of locks in ZooKeeper see when a server, the network or a session breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod ensemble;
#[path = "../postgres/restart.rs"]
mod restart;
#[path = "../redis/route.rs"]
mod route;
mod sessions;
