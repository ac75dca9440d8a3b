//! What each operation asks of its engine, counted instead of timed: verbs of the contract, round trips on the wire, what
//! the server itself counted, and allocations. Times move with the machine; these do not, so they are asserted.
//!
//! A number that grew is a regression. One that shrank is good news: lower it here.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod heap;
mod local;
mod servers;
mod watchdog;
mod wire;
