//! Makes a schedule that breaks a promise smaller, for as long as it breaks the same one.

use std::fmt;

use super::{Mutant, Outcome, plan::Plan, simulate_plan};
use crate::checks::{Promise, Verdict};

/// How many ways to go on are tried for each smaller plan: what happens in it follows from its dice too, and those fall
/// otherwise when anything is left out.
const DICE: u64 = 24;

/// The smallest schedule that was found to break a promise.
#[derive(Debug)]
pub struct Shrunk {
    plan: Plan,
    /// What it breaks.
    pub promise: Promise,
    /// What happens in it.
    pub outcome: Outcome,
    /// How many schedules it took to find it.
    pub tried: u64,
}

/// Makes the schedule of a seed smaller: fewer clients, tasks, rounds, keys and faults, shorter ones, clocks that agree. The
/// same seed always gives the same. None if it breaks nothing.
#[must_use]
pub fn shrink(seed: u64, mutant: Option<Mutant>) -> Option<Shrunk> {
    let plan = Plan::draw(seed, mutant);
    let outcome = simulate_plan(plan.clone(), seed, mutant);
    let (promise, _) = outcome.report.refuted()?;
    let mut best = Shrunk { plan, promise, outcome, tried: 1 };
    while let Some(smaller) = best.smaller(seed, mutant) {
        best = smaller;
    }
    Some(best)
}

impl Shrunk {
    /// The first plan that is a step smaller and breaks the same promise.
    fn smaller(&self, seed: u64, mutant: Option<Mutant>) -> Option<Self> {
        let mut tried = self.tried;
        for plan in self.plan.smaller() {
            for dice in 0..DICE {
                tried += 1;
                let outcome = simulate_plan(plan.clone(), seed.wrapping_add(dice), mutant);
                if breaks(&outcome, self.promise) {
                    return Some(Self { plan, promise: self.promise, outcome, tried });
                }
            }
        }
        None
    }

    /// How much is in it: clients, tasks, rounds, keys and faults.
    #[must_use]
    pub fn size(&self) -> usize {
        self.plan.size()
    }
}

impl fmt::Display for Shrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.plan)
    }
}

fn breaks(outcome: &Outcome, promise: Promise) -> bool {
    let broken =
        |(of, verdict): &(Promise, Verdict)| *of == promise && matches!(verdict, Verdict::Refuted { .. });
    outcome.report.verdicts.iter().any(broken)
}
