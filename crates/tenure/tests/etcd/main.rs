//! What users of locks in etcd see when a server, most of them or the network breaks.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod cluster;
mod minority;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod mixed;
#[path = "../redis/route.rs"]
mod route;
mod session;
