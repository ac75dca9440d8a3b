//! The promises of crate `tenure`, on the memory engine with virtual time unless a test says otherwise.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acquire;
mod bed;
mod blocking;
mod cancel;
mod connect;
mod election;
mod lane;
mod multi;
mod mutex;
mod observe;
mod owner;
mod processes;
mod quorum;
mod quorum_bed;
mod quorum_fences;
mod quorum_members;
mod rwlock;
mod semaphore;
mod watchdog;
