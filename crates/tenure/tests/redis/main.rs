//! What users of locks on Redis see when the server, the network or a replica breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod cluster;
mod connections;
mod frozen;
mod killed;
mod leaving;
mod memory;
mod processes;
mod replicas;
mod route;
mod sentinel;
mod silent;
