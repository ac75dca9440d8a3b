//! The promises of `tenure sale`, asked of the real binary. A program of its own: a sale takes all of the machine, and other
//! tests measure time.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod embedded;
mod page;
mod refused;
mod servers;
