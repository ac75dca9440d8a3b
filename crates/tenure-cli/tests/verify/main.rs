//! The promises of `tenure verify`, asked of the real binary. A program of its own: a run takes all of the machine, and other
//! tests measure time.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod engine;
mod labs;
mod mutants;
mod on;
mod page;
mod refused;
