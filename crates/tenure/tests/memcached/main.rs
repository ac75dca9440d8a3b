//! What users of locks in memcached see when the server or the network breaks, or the server forgets.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod forgets;
#[path = "../redis/frozen.rs"]
mod frozen;
mod gone;
mod processes;
#[path = "../redis/route.rs"]
mod route;
mod waiting;
