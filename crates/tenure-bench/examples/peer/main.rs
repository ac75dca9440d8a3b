//! The driver by which `tenure` takes part in a harness that measures lock libraries side by side: `cargo xtask peers`.
//!
//! Called `peer ENGINE NAME w1|w2|step [key=value ...]`, with the engine's address and `TTL_MS` in the environment. It obeys
//! the harness's contract: `w1` and `w2` print one JSON line, `step` answers each line of stdin with one.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a driver talks to its harness and stops when it cannot go on"
)]

mod hot;
mod noop;
mod place;
mod step;
mod uncontended;

use std::{collections::HashMap, process::exit, str::FromStr};

use rustix::time::{ClockId, clock_gettime};

pub(crate) type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// What stands as `key=value` on the command line.
#[derive(Clone)]
pub(crate) struct Args(HashMap<String, String>);

impl Args {
    pub(crate) fn get<T: FromStr>(&self, key: &str, otherwise: T) -> T {
        self.0.get(key).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    }
}

/// Nanoseconds of the clock that the harness reads too.
pub(crate) fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Processor time of this process, in seconds.
pub(crate) fn cpu() -> f64 {
    nanos(ClockId::ProcessCPUTime) as f64 / 1e9
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// In microseconds; -1 where nothing was measured.
pub(crate) fn quantile(times: &mut [u64], share: f64) -> f64 {
    times.sort_unstable();
    match times.len() {
        0 => -1.0,
        count => times[((count - 1) as f64 * share) as usize] as f64 / 1_000.0,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, engine, name, workload, rest @ ..] = words.as_slice() else {
        eprintln!("usage: peer ENGINE NAME w1|w2|step [key=value ...]");
        exit(64);
    };
    let pairs = rest.iter().filter_map(|word| word.split_once('='));
    let args = Args(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (engine, name, workload) = (engine.clone(), name.clone(), workload.clone());
    // On a worker, as the other drivers do, not on the thread that parks here.
    let done = runtime.block_on(async move {
        tokio::spawn(async move {
            match workload.as_str() {
                "w1" => uncontended::run(&engine, &name, &args).await,
                "w2" => hot::run(&engine, &name, &args).await,
                "step" => step::run(&engine).await,
                other => Err(format!("unknown workload {other}").into()),
            }
        })
        .await
    });
    match done {
        Ok(Ok(())) => exit(0),
        Ok(Err(err)) => eprintln!("{err}"),
        Err(err) => eprintln!("{err}"),
    }
    exit(1);
}
