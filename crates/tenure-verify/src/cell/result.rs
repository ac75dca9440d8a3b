//! What a cell came to, in words and in figures.

use std::time::Duration;

use crate::{
    checks::{Promise, Report, Verdict},
    crew::STALL,
    faults::FaultKind,
    history::{Done, Event, History, Register, What},
};

/// What a cell came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CellResult {
    /// What was done.
    pub fault: FaultKind,
    /// Why it was not, if it was not.
    pub skipped: Option<String>,
    /// What the checks say.
    pub report: Option<Report>,
    /// Promises that this engine does not make under this fault, and were broken: which, and why that is so.
    pub excused: Vec<(Promise, &'static str)>,
    /// Why the last strike at the engine that did not hit did not.
    pub missed: Option<String>,
    /// Everything that happened.
    pub history: History,
    /// How long it took.
    pub seconds: f64,
    /// In figures.
    pub counts: Counts,
}

/// A cell in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Locks that were granted.
    pub grants: usize,
    /// Updates that the fenced register acknowledged.
    pub updates: usize,
    /// Requests that it refused.
    pub refused: usize,
    /// Updates that it lost: none, if it is worth its name.
    pub lost: usize,
    /// Updates that the plain register acknowledged.
    pub plain: usize,
    /// Updates that it lost: some, if the faults are worth theirs.
    pub plain_lost: usize,
    /// Faults that hit.
    pub hits: usize,
    /// Faults.
    pub faults: usize,
    /// How often the machine did not run a worker for a while, which excuses what came late for it, and that it lost its
    /// lock meanwhile.
    pub stalls: usize,
}

impl Counts {
    pub(crate) fn of(history: &History) -> Self {
        let granted = |event: &&Event| matches!(event.what, What::Granted { .. });
        let mut counts = Self { grants: history.events.iter().filter(granted).count(), ..Self::default() };
        for effect in &history.effects {
            let lost = match &effect.what {
                Done::Write { lost } if effect.accepted => Some(lost.len()),
                _ => None,
            };
            match effect.register {
                Register::Fenced => {
                    counts.refused += usize::from(!effect.accepted);
                    counts.updates += usize::from(lost.is_some());
                    counts.lost += lost.unwrap_or_default();
                }
                Register::Plain => {
                    counts.plain += usize::from(lost.is_some());
                    counts.plain_lost += lost.unwrap_or_default();
                }
            }
        }
        let stalls = history.faults.iter().filter(|fault| fault.kind == STALL).count();
        (counts.stalls, counts.faults) = (stalls, history.faults.len() - stalls);
        counts.hits = history.faults.iter().filter(|fault| fault.hit.is_some()).count();
        counts
    }
}

/// How a cell came out, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Not done.
    Skipped,
    /// Everything that is promised held.
    Held,
    /// Broken, and never promised.
    Excused,
    /// Too little happened to say.
    Inconclusive,
    /// A promise was broken.
    Refuted,
}

impl CellResult {
    pub(crate) fn skipped(fault: FaultKind, why: String) -> Self {
        Self {
            fault,
            skipped: Some(why),
            report: None,
            excused: Vec::new(),
            missed: None,
            history: History::default(),
            seconds: 0.0,
            counts: Counts::default(),
        }
    }

    /// How it came out.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let Some(report) = &self.report else { return Outcome::Skipped };
        let mut outcome = if self.excused.is_empty() { Outcome::Held } else { Outcome::Excused };
        for (promise, verdict) in &report.verdicts {
            let excused = self.excused.iter().any(|(excused, _)| excused == promise);
            outcome = outcome.max(match verdict {
                Verdict::Held { .. } => Outcome::Held,
                Verdict::Refuted { .. } if excused => Outcome::Excused,
                Verdict::Refuted { .. } => Outcome::Refuted,
                Verdict::Inconclusive { .. } => Outcome::Inconclusive,
            });
        }
        outcome
    }

    /// The promises that were made and broken.
    #[must_use]
    pub fn broken(&self) -> Vec<Promise> {
        let verdicts = self.report.iter().flat_map(|report| &report.verdicts);
        let broken = verdicts.filter(|(_, verdict)| matches!(verdict, Verdict::Refuted { .. }));
        broken
            .map(|(promise, _)| *promise)
            .filter(|promise| !self.excused.iter().any(|(e, _)| e == promise))
            .collect()
    }
}

/// How a cell stands while it runs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tick {
    /// What is done.
    pub fault: FaultKind,
    /// For how long so far.
    pub elapsed: Duration,
    /// And in all.
    pub time: Duration,
    /// Locks granted so far.
    pub grants: usize,
    /// Faults so far.
    pub faults: usize,
}
