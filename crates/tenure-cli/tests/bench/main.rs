//! `tenure bench` as people run it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod engines;
mod page;
mod refused;
