//! What a history proves: pure functions, one file for each promise.
//!
//! Every check is sound by itself: what it refutes is wrong whatever else happened. None of them guesses; where a
//! history says too little, the verdict is [`Verdict::Inconclusive`].

mod bit;
mod exclusion;
mod fences;
mod ownership;
mod registers;
mod search;
mod stays;
mod story;
mod succession;
#[cfg(test)]
mod testing;
mod told;
mod verdict;
mod waiters;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::{
    registers::Plain,
    story::Story,
    verdict::{Promise, Verdict},
};
use self::{stays::Stays, verdict::Finding};
use crate::history::{History, Nanos};

/// The kind of a fault that keeps news from waiters and touches nothing else. It excuses nobody: whoever waits must be
/// served within [`Bounds::poll`] all the same.
pub const WAKE_UP: &str = "wake-up";

/// What an engine and its settings allow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounds {
    /// How long a place lives without being renewed.
    pub ttl: Nanos,
    /// How long after the death of a holder the next one holds, at the latest: the ttl, and what a failover takes.
    pub succession: Nanos,
    /// How long a waiter stays silent at most while no news comes.
    pub poll: Nanos,
    /// What scheduling and the network may add to any of these.
    pub epsilon: Nanos,
    /// How often each kind of fault must have hit, or the run proves nothing.
    pub min_hits: BTreeMap<String, usize>,
    /// How many steps the search may take where there are no fences.
    pub search_steps: usize,
}

/// What became of each promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// In the order of [`Promise::ALL`].
    pub verdicts: Vec<(Promise, Verdict)>,
    /// What happened to the resource that checks nothing. Not a promise: it shows how hard the run was.
    pub plain: Plain,
    /// How often each kind of fault hit.
    pub hits: BTreeMap<String, usize>,
}

impl Report {
    /// The first promise that was broken, if any was.
    #[must_use]
    pub fn refuted(&self) -> Option<(Promise, &Story)> {
        self.verdicts.iter().find_map(|(promise, verdict)| match verdict {
            Verdict::Refuted { story, .. } => Some((*promise, story)),
            Verdict::Held { .. } | Verdict::Inconclusive { .. } => None,
        })
    }

    /// Whether every promise held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Held { .. }))
    }
}

/// Judges a history.
#[must_use]
pub fn check(history: &History, bounds: &Bounds) -> Report {
    let stays = Stays::of(history);
    let hits = bit::hits(history);
    let lacking = bit::lacking(&hits, bounds);
    let verdict = |promise: Promise| {
        let finding = match promise {
            Promise::Exclusion => exclusion::check(&stays, bounds),
            Promise::Fences => fences::check(&stays),
            Promise::Register => registers::check(&stays),
            Promise::Ownership => ownership::check(&stays),
            Promise::Succession => succession::after_a_death(&stays, bounds),
            Promise::Waiters => waiters::check(&stays, bounds),
            Promise::Unknown => succession::after_an_unknown_end(&stays, bounds),
            Promise::Told => told::check(&stays, bounds),
            Promise::Bit => match &lacking {
                Some(why) => Finding::TooLittle(why.clone()),
                None => Finding::Held(hits.values().sum()),
            },
        };
        let total = hits.values().sum();
        match (finding, &lacking) {
            (Finding::Broken(story), _) => Verdict::Refuted { promise, story },
            (Finding::TooLittle(why), _) => Verdict::Inconclusive { why },
            (Finding::Held(_), Some(why)) => Verdict::Inconclusive { why: why.clone() },
            (Finding::Held(ops), None) => Verdict::Held { ops, hits: total },
        }
    };
    let verdicts = Promise::ALL.map(|promise| (promise, verdict(promise))).into();
    Report { verdicts, plain: registers::plain(history), hits }
}
