//! What users of locks in PostgreSQL see when the server, the network or a pooler breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod cancel;
mod failover;
#[path = "../redis/killed.rs"]
mod killed;
mod pooler;
mod restart;
#[path = "../redis/route.rs"]
mod route;
mod sessions;
mod taken_back;
