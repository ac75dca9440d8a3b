//! Where there are no fences: is there any order of events that explains all that was answered?
//!
//! The search of Wing and Gong with Lowe's memory: put next whatever may come next, remember every (set of what was put,
//! holder) that led nowhere, and split the history where nothing is under way. It gives up after a number of steps.

use std::collections::HashSet;

use super::{
    Bounds,
    stays::{Answer, Stay, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::{Freed, Nanos, OpId, Wanted};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// It got the lock.
    Take,
    /// It did not hold it any more.
    Free,
    /// It was turned away at once, so somebody held it.
    Refused,
}

/// Something that happened at one moment between these two.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Nanos,
    /// What may never have happened has no end.
    to: Nanos,
    op: OpId,
    step: Step,
}

/// Judges the exclusive locks whose grants have no fence; `ops` were judged otherwise.
pub(super) fn check(stays: &Stays<'_>, bounds: &Bounds, ops: usize) -> Finding {
    let mut left = bounds.search_steps;
    for key in 0..stays.history.keys.len() {
        let of_key = || stays.stays.iter().filter(|stay| stay.key as usize == key);
        let fenced = of_key().any(|stay| stay.fence().is_some());
        if fenced || of_key().any(|stay| stay.mode != Wanted::Exclusive) {
            continue;
        }
        let mut spans: Vec<_> = of_key().flat_map(spans).collect();
        spans.sort_by_key(|span| span.from);
        for window in windows(&spans) {
            match search(window, &mut left) {
                Searched::Explained => {}
                Searched::GaveUp => {
                    let why = format!("no fences, and no order was found in {} steps", bounds.search_steps);
                    return Finding::TooLittle(why);
                }
                Searched::Impossible(stuck) => {
                    let worker = stays.get(stuck.op).map_or(0, |stay| stay.worker);
                    let why = match stuck.step {
                        Step::Refused => {
                            format!("worker {worker} was turned away though nobody held the lock")
                        }
                        Step::Take | Step::Free => {
                            format!("no order of events explains what worker {worker} was told")
                        }
                    };
                    return Finding::Broken(Story::tell(stays, stuck.to, &[stuck.op], why));
                }
            }
        }
    }
    Finding::Held(ops)
}

fn spans(stay: &Stay) -> Vec<Span> {
    let span = |from, to, step| Span { from, to, op: stay.op, step };
    match stay.answer {
        Some(Answer::Granted { at, .. }) => {
            let end = stay.belief().map_or(at, |belief| belief.to);
            let known = match stay.released {
                Some((at, Freed::Yes | Freed::NotHeld)) => at.max(end),
                Some((_, Freed::Unknown)) | None => Nanos::MAX,
            };
            vec![span(stay.asked, at, Step::Take), span(end, known, Step::Free)]
        }
        // Whoever waits in the line may be turned away for its own reasons.
        Some(Answer::Not { at }) if stay.patience == 0 => vec![span(stay.asked, at, Step::Refused)],
        Some(Answer::Not { .. } | Answer::Failed { maybe: false, .. }) => Vec::new(),
        Some(Answer::Failed { maybe: true, .. }) | None => {
            vec![span(stay.asked, Nanos::MAX, Step::Take), span(stay.asked, Nanos::MAX, Step::Free)]
        }
    }
}

/// Cuts where nothing is under way. What may never have happened is under way for ever.
fn windows(spans: &[Span]) -> Vec<&[Span]> {
    let mut windows = Vec::new();
    let (mut start, mut busy_until) = (0, 0);
    for (at, span) in spans.iter().enumerate() {
        let balance = || {
            let window = &spans[start..at];
            let takes = window.iter().filter(|span| span.step == Step::Take).count();
            takes == window.iter().filter(|span| span.step == Step::Free).count()
        };
        if at > start && span.from > busy_until && balance() {
            windows.push(&spans[start..at]);
            start = at;
        }
        busy_until = span.to.max(busy_until);
    }
    windows.push(&spans[start..]);
    windows
}

enum Searched {
    Explained,
    GaveUp,
    Impossible(Span),
}

/// What was put so far, and who holds.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Known {
    done: Vec<u64>,
    holder: Option<OpId>,
}

impl Known {
    fn has(&self, at: usize) -> bool {
        self.done[at / 64] & (1 << (at % 64)) != 0
    }

    /// What comes of putting this one next, if it can come next.
    fn with(&self, at: usize, span: Span) -> Option<Self> {
        let holder = match (span.step, self.holder) {
            (Step::Take, None) => Some(span.op),
            (Step::Free, Some(holder)) if holder == span.op => None,
            (Step::Refused, Some(holder)) => Some(holder),
            _ => return None,
        };
        let mut done = self.done.clone();
        done[at / 64] |= 1 << (at % 64);
        Some(Self { done, holder })
    }
}

fn search(spans: &[Span], left: &mut usize) -> Searched {
    let mut seen = HashSet::new();
    let mut stack = vec![Known { done: vec![0; spans.len() / 64 + 1], holder: None }];
    // The one that could not be put in the attempt that came furthest.
    let mut furthest: Option<Span> = None;
    while let Some(known) = stack.pop() {
        let Some(steps) = left.checked_sub(1) else { return Searched::GaveUp };
        *left = steps;
        let open = || spans.iter().enumerate().filter(|&(at, _)| !known.has(at));
        let Some((_, first)) = open().filter(|(_, span)| span.to < Nanos::MAX).min_by_key(|(_, s)| s.to)
        else {
            return Searched::Explained;
        };
        if furthest.is_none_or(|span| span.to < first.to) {
            furthest = Some(*first);
        }
        for (at, span) in open().take_while(|(_, span)| span.from <= first.to) {
            if let Some(next) = known.with(at, *span)
                && seen.insert(next.clone())
            {
                stack.push(next);
            }
        }
    }
    furthest.map_or(Searched::Explained, Searched::Impossible)
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Exclusion, Verdict, check, testing::Tale};
    use crate::history::{Freed, What};

    fn held() -> Tale {
        Tale::new().grant(1, 1, 1, None).leave(1, 1, 5).release(1, 1, 6, Freed::Yes)
    }

    #[test]
    fn whoever_was_turned_away_met_somebody() {
        let turned = |tale: Tale, at| tale.ask(2, 2, at, 0).event(2, 2, at, What::NotGranted);
        turned(held(), 3).keeps(Exclusion);
        turned(held(), 8).breaks(Exclusion, "worker 2 was turned away though nobody held the lock");
        turned(Tale::new(), 0).breaks(Exclusion, "turned away");
    }

    #[test]
    fn an_end_in_doubt_may_explain_it() {
        let doubt = held().ask(3, 3, 7, 1).event(3, 3, 8, What::Failed { maybe: true, why: "x".into() });
        doubt.ask(2, 2, 9, 0).event(2, 2, 9, What::NotGranted).keeps(Exclusion);
    }

    #[test]
    fn it_gives_up_rather_than_guess() {
        let tale = held();
        let mut bounds = tale.bounds();
        bounds.search_steps = 1;
        let report = check(&tale.history, &bounds);
        assert!(matches!(report.verdicts[0].1, Verdict::Inconclusive { .. }));
    }

    #[test]
    fn thousands_are_no_trouble_where_the_lock_rests_in_between() {
        let mut tale = Tale::new();
        for op in 0..2000 {
            tale = tale.grant(1, op, 3 * op, None).release(1, op, 3 * op + 1, Freed::Yes);
        }
        assert_eq!(tale.ends(10_000).keeps(Exclusion), 2000);
    }
}
