//! The flash sale: a hundred consoles, two thousand buyers, several hosts, everybody at once.
//!
//! It shows what each way of guarding the stock does when it matters: the wrong ways of the field beside the right ones, as
//! real processes on a real store, under the fault that each is known for. What was sold is counted from the receipts, not
//! from the stock number.
//!
//! [`run`] is the sale; the program that calls it must call [`host_main`] when its first word is [`HOST_WORD`], since the
//! hosts are processes of their own.

mod audit;
mod cache;
mod crowd;
mod cut;
mod host;
mod hosts;
mod http;
mod organiser;
mod page;
mod plan;
mod redis_link;
mod screen;
mod shop;
mod store;
mod strategy;
mod trouble;
mod ways;
mod wire;

use tokio::signal::unix::{SignalKind, signal};

pub use self::{
    audit::{LaneResult, Verdict},
    host::main as host_main,
    organiser::Tick,
    page::page,
    plan::Options,
    screen::{Json, Live, Plain, sentences, table},
    strategy::{Expected, Fault, Point, Strategy},
    trouble::Trouble,
    wire::HOST_WORD,
};

/// Who watches a sale.
pub trait Watch {
    /// A lane starts.
    fn lane_starts(&mut self, strategy: Strategy);
    /// So it stands, several times a second.
    fn tick(&mut self, tick: &Tick<'_>);
    /// A lane has ended.
    fn lane_ends(&mut self, result: &LaneResult);
}

/// What came of a sale.
#[derive(Debug, serde::Serialize)]
pub struct Outcome {
    /// The engine of the locks, without its password.
    pub engine: String,
    /// The store, without its password.
    pub store: String,
    /// How many processes sold.
    pub hosts: u32,
    /// How many people wanted one.
    pub buyers: u32,
    /// The seed that repeats it.
    pub seed: u64,
    /// The lanes, in order.
    pub lanes: Vec<LaneResult>,
}

impl Outcome {
    /// Whether every right way was safe, and every wrong one was seen to be wrong.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        !self.lanes.iter().any(|lane| matches!(lane.verdict, Verdict::Failed(_)))
    }
}

/// Runs a sale to its end.
///
/// # Errors
/// `Usage` for options that make no sale, `Unavailable` if the engine or the store cannot be reached, `Interrupted` if
/// somebody had enough. Nothing is left behind in any case, unless the store is out of reach.
/// # Cancel safety
/// Dropping the future kills the hosts.
pub async fn run(options: &Options, watch: &mut dyn Watch) -> Result<Outcome, Trouble> {
    let sale = organiser::Sale::open(options).await?;
    let (engine, store) = sale.places();
    let lanes = sale.run(watch).await?;
    let Options { hosts, buyers, seed, .. } = *options;
    Ok(Outcome { engine, store, hosts, buyers, seed, lanes })
}

/// Resolves to the signal by which somebody wants this process to end.
async fn interrupted() -> i32 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let [Ok(mut int), Ok(mut term)] = kinds.map(signal) else { return std::future::pending().await };
    tokio::select! {
        _ = int.recv() => kinds[0].as_raw_value(),
        _ = term.recv() => kinds[1].as_raw_value(),
    }
}
