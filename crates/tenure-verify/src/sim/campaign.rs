//! Many schedules, on all cores.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::{Mutant, Outcome, simulate};
use crate::{
    checks::{Promise, Story},
    history::Nanos,
};

/// The sum of many schedules.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many.
    pub schedules: u64,
    /// How many times somebody asked for a lock.
    pub asked: u64,
    /// Simulated time, all schedules together.
    pub lived: u128,
    /// For how long locks were held.
    pub held: u128,
    /// How many faults of each kind hit.
    pub hits: BTreeMap<String, u64>,
    /// How many updates the resource that checks nothing acknowledged, and lost.
    pub plain: (u64, u64),
    /// What went wrong, the first few.
    pub failures: Vec<Failure>,
}

/// A schedule that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What repeats it.
    pub seed: u64,
    /// What was broken.
    pub promise: Promise,
    /// How.
    pub story: Story,
}

/// So much was done so far.
pub type Progress<'a> = &'a (dyn Fn(&Tally) + Sync);

/// The most failures that are kept; one is enough to fail.
const KEPT: usize = 10;
/// How many schedules a thread takes at a time.
const BATCH: u64 = 256;

impl Tally {
    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.schedules += 1;
        self.asked += outcome.asked as u64;
        self.lived += u128::from(outcome.history.ended);
        self.held += u128::from(outcome.held);
        for (kind, times) in &outcome.report.hits {
            *self.hits.entry(kind.clone()).or_default() += *times as u64;
        }
        self.plain.0 += outcome.report.plain.written as u64;
        self.plain.1 += outcome.report.plain.lost as u64;
        if let Some((promise, story)) = outcome.report.refuted() {
            self.failures.push(Failure { seed, promise, story: story.clone() });
        }
    }

    fn join(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.asked += other.asked;
        self.lived += other.lived;
        self.held += other.held;
        for (kind, times) in other.hits {
            *self.hits.entry(kind).or_default() += times;
        }
        self.plain.0 += other.plain.0;
        self.plain.1 += other.plain.1;
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|failure| failure.seed);
        self.failures.truncate(KEPT);
    }
}

/// Runs so many schedules from this seed on, and stops early once a few have failed.
#[must_use]
pub fn run(first: u64, schedules: u64, threads: usize, progress: Progress<'_>) -> Tally {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(BATCH, Ordering::Relaxed);
                    if from >= schedules {
                        break;
                    }
                    let mut tally = Tally::default();
                    for at in from..schedules.min(from + BATCH) {
                        let seed = first.wrapping_add(at);
                        tally.add(seed, &simulate(seed, None));
                    }
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.join(tally);
                    progress(&total);
                    if total.failures.len() >= KEPT {
                        break;
                    }
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How a mutant was refuted.
#[derive(Clone, Debug)]
pub struct Caught {
    /// Which.
    pub mutant: Mutant,
    /// By which schedule.
    pub seed: u64,
    /// After how many.
    pub schedules: u64,
    /// By which promise.
    pub promise: Promise,
    /// How.
    pub story: Story,
    /// How much simulated time that schedule took.
    pub lived: Nanos,
}

/// Looks for a schedule that refutes a mutant; none if it got away. The first in order of seeds, whatever the threads do.
#[must_use]
pub fn catch(mutant: Mutant, first: u64, schedules: u64, threads: usize) -> Option<Caught> {
    let next = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let found: Mutex<Option<Caught>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= schedules {
                        break;
                    }
                    let seed = first.wrapping_add(at);
                    let outcome = simulate(seed, Some(mutant));
                    let Some((promise, story)) = outcome.report.refuted() else { continue };
                    if !mutant.breaks().contains(&promise) {
                        continue;
                    }
                    let lived = outcome.history.ended;
                    let caught =
                        Caught { mutant, seed, schedules: at + 1, promise, story: story.clone(), lived };
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if found.as_ref().is_none_or(|other| at + 1 < other.schedules) {
                        *found = Some(caught);
                    }
                    done.store(true, Ordering::Relaxed);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
