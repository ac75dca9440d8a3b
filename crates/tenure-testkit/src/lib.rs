//! The conformance suite that every engine of `tenure` must pass, and the tools it is made of.
//!
//! A new engine adds one file `servers/<engine>.rs` that gives a [`Site`]: how to open independent clients of one
//! store. The [rules](conformance::rules) are then chosen by what the engine declares, both ways: what is declared
//! must hold, and what is not declared must be refused with nothing written.
//!
//! - [`conformance`]: the rules, one file per area, each with the promise it asks for.
//! - [`faults`]: decorators that lose, delay, double and hold back the verbs of any engine.
//! - [`liars`]: engines that each break one clause. The suite is tested by them: the rule named for the clause
//!   must fail.
//! - [`model`]: the contract as a pure function, which every engine is compared with step by step.
//! - [`walks`]: random walks on an engine and on memory, compared verb by verb.
//! - [`own`]: what the own tests of an engine are made of.
//! - [`cancel`]: dropping a future at every point where it waits.
//! - `process`, `redis`, `mariadb`, `memcached`, `postgres`, `pgbouncer`, `etcd`, `zookeeper`, `proxy` (on Linux): private
//!   servers to kill, pause and restart, and the network between them and a client, to break.

pub mod cancel;
mod clock;
pub mod conformance;
mod cx;
#[cfg(target_os = "linux")]
pub mod etcd;
mod failure;
pub mod faults;
pub mod helper;
mod lab;
pub mod liars;
#[cfg(target_os = "linux")]
pub mod mariadb;
#[cfg(target_os = "linux")]
pub mod memcached;
pub mod model;
pub mod own;
#[cfg(target_os = "linux")]
pub mod pgbouncer;
#[cfg(target_os = "linux")]
pub mod postgres;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
pub mod proxy;
#[cfg(target_os = "linux")]
pub mod redis;
mod run;
pub mod servers;
#[cfg(target_os = "linux")]
pub mod sql;
pub mod steps;
#[cfg(target_os = "linux")]
pub mod tls;
pub mod walks;
#[cfg(target_os = "linux")]
pub mod zookeeper;

pub use clock::TokioClock;
pub use cx::Cx;
pub use failure::{Failure, Result};
pub use lab::{Abilities, Build, Lab, Site, Time};
pub use run::{run, trials};
