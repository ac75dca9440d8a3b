//! I4: what one holds only it can give back; re-entry keeps the fence; readers, writers and permits are kept apart.

use super::{
    exclusion::{beside, clashes, tell},
    stays::{Belief, Stay, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::{Freed, Nanos, Wanted, What};

pub(super) fn check(stays: &Stays<'_>) -> Finding {
    let mut ops = 0;
    for event in &stays.events {
        if let (What::Reentered { fence }, Some(stay)) = (&event.what, stays.get(event.op)) {
            ops += 1;
            if *fence != stay.fence() {
                let why = format!("worker {} entered again and its fence became another", event.worker);
                return Finding::Broken(Story::tell(stays, event.at, &[event.op], why));
            }
        }
    }
    for beliefs in stays.beliefs() {
        ops += beliefs.len();
        let mixed = |a, b| a != Wanted::Exclusive || b != Wanted::Exclusive;
        if let Some(clash) = clashes(&beliefs, mixed) {
            return Finding::Broken(tell(stays, &clash));
        }
        if let Some(story) = stale_releases(stays, &beliefs) {
            return Finding::Broken(story);
        }
    }
    Finding::Held(ops)
}

/// Whoever gave back what somebody else held by then must have been told so, and must have changed nothing.
fn stale_releases(stays: &Stays<'_>, beliefs: &[Belief<'_>]) -> Option<Story> {
    let released = beliefs.iter().map(|belief| belief.stay).filter(|stay| stay.release_asked.is_some());
    for stale in released {
        let asked = stale.release_asked?;
        // Of those who had begun by then, the newest: the holder, if anybody is.
        let at = beliefs.partition_point(|belief| belief.from < asked);
        let Some(next) = beliefs[..at].last().filter(|next| overtook(next, stale, asked)) else { continue };
        if let Some((at, Freed::Yes)) = stale.released {
            let why = format!(
                "worker {} was told that it held until it gave the lock back, but worker {} held it by then",
                stale.worker, next.stay.worker
            );
            return Some(Story::tell(stays, at, &[stale.op, next.stay.op], why));
        }
        let lost =
            next.stay.lost.filter(|&lost| lost > asked && next.stay.safe.is_none_or(|safe| lost < safe));
        let Some(lost) = lost else { continue };
        // Also what struck its hold before it was told of it.
        if stays.faults(next.stay.worker, next.stay.asked, lost).next().is_none() {
            let why = format!(
                "worker {} lost the lock when worker {} gave back what it no longer held",
                next.stay.worker, stale.worker
            );
            return Some(Story::tell(stays, lost, &[stale.op, next.stay.op], why));
        }
    }
    None
}

/// Whether this one held, with a newer fence, when the other gave its hold back.
fn overtook(next: &Belief<'_>, stale: &Stay, asked: Nanos) -> bool {
    next.stay.op != stale.op
        && !beside(next.stay.mode, stale.mode)
        && asked < next.to
        && next.fence.zip(stale.fence()).is_none_or(|(newer, older)| newer > older)
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Ownership, testing::Tale};
    use crate::history::{Freed, Wanted, What};

    #[test]
    fn re_entry_keeps_the_fence() {
        let tale = Tale::new().grant(1, 1, 0, Some(4));
        tale.clone().event(1, 1, 2, What::Reentered { fence: Some(4) }).keeps(Ownership);
        tale.event(1, 1, 2, What::Reentered { fence: Some(5) }).breaks(Ownership, "became another");
    }

    #[test]
    fn readers_and_writers_are_kept_apart() {
        let tale = Tale::new().grant_as(1, 1, 0, Some(1), Wanted::Shared).grant(2, 2, 1, Some(2));
        tale.breaks(Ownership, "both believed");
    }

    #[test]
    fn a_release_after_the_loss_says_so() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).grant(2, 2, 10, Some(2)).leave(2, 2, 15);
        tale.clone().release(1, 1, 12, Freed::NotHeld).keeps(Ownership);
        tale.clone().release(1, 1, 20, Freed::Yes).keeps(Ownership);
        tale.release(1, 1, 12, Freed::Yes).breaks(Ownership, "worker 2 held it by then");
    }

    #[test]
    fn a_release_after_the_loss_frees_nobody() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).grant(2, 2, 10, Some(2));
        let tale = tale.release(1, 1, 12, Freed::NotHeld);
        let lost = tale.clone().event(2, 2, 13, What::Lost);
        lost.breaks(Ownership, "worker 2 lost the lock when worker 1 gave back what it no longer held");
        lost.clone().fault("cut", 11, 12, Some(2), None).keeps(Ownership);
        let asked = Tale::new().grant(1, 1, 0, Some(1)).ask(2, 2, 8, 5).told(2, 2, 10, Some(2));
        let lost_soon = asked.release(1, 1, 12, Freed::NotHeld).event(2, 2, 13, What::Lost);
        lost_soon.breaks(Ownership, "gave back what it no longer held");
        lost_soon.fault("break", 9, 9, Some(2), None).keeps(Ownership);
        lost.fault("restart", 11, 12, None, None).keeps(Ownership);
        tale.event(2, 2, 19, What::Lost).keeps(Ownership);
    }
}
