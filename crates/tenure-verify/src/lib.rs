//! Prove or refute a lock where it runs.
//!
//! Workers are processes that go for the same locks, faults are aimed at the moments that matter, everything that happens is
//! written down in a [`history`], and the checks conclude from that alone: each promise was *held* within so many
//! operations and faults that hit, *refuted* with the shortest story, or the run was *inconclusive*.
//!
//! - [`run`] takes an engine through its faults, [`mutants::run`] the wrong ways of the field through theirs.
//! - [`sim`] runs the real locks over simulated servers, clocks and networks, millions of times.
//! - [`checks`] judge a history, wherever it is from.
//! - [`screen`] and [`page`] are what people see.

mod cell;
pub mod checks;
mod clock;
mod crew;
mod evidence;
mod faults;
pub mod history;
mod lab;
mod locks;
pub mod mutants;
mod nemesis;
pub mod page;
mod plan;
mod resource;
mod run;
pub mod screen;
pub mod sim;
mod trouble;
mod wire;
mod worker;

use tokio::signal::unix::{SignalKind, signal};

pub use self::{
    cell::{CellResult, Counts, Outcome, Tick},
    faults::FaultKind,
    lab::LabName,
    plan::Options,
    run::{RunResult, Subject, Watch, run},
    trouble::Trouble,
    wire::WORKER_WORD,
    worker::main as worker_main,
};

/// Resolves to the signal by which somebody wants this process to end.
async fn interrupted() -> i32 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let [Ok(mut int), Ok(mut term)] = kinds.map(signal) else { return std::future::pending().await };
    tokio::select! {
        _ = int.recv() => kinds[0].as_raw_value(),
        _ = term.recv() => kinds[1].as_raw_value(),
    }
}
