//! I6: nobody who waits is forgotten.

use super::{
    Bounds, WAKE_UP,
    stays::{Answer, Stay, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::{Freed, KeyId, Nanos, Wanted};

pub(super) fn check(stays: &Stays<'_>, bounds: &Bounds) -> Finding {
    for stay in &stays.stays {
        if let Some(limit) = unanswered(stays, stay, bounds) {
            let why = format!(
                "worker {} asked, was prepared to wait for {:.1} s, and heard nothing after that",
                stay.worker,
                stay.patience as f64 / 1e9
            );
            return Finding::Broken(Story::tell(stays, limit, &[stay.op], why));
        }
    }
    let grants = grants(stays);
    for stay in &stays.stays {
        if let Some((at, waiter)) = idle_beside(stays, stay, &grants, bounds) {
            let why = format!(
                "worker {} gave the lock back to nobody, and worker {} still waited {:.1} s later",
                stay.worker,
                waiter.worker,
                (bounds.poll + bounds.epsilon) as f64 / 1e9
            );
            return Finding::Broken(Story::tell(stays, at, &[stay.op, waiter.op], why));
        }
    }
    Finding::Held(stays.stays.len())
}

/// By when this one must have been answered, if it was not.
fn unanswered(stays: &Stays<'_>, stay: &Stay, bounds: &Bounds) -> Option<Nanos> {
    let mut limit = stay.asked.saturating_add(stay.patience).saturating_add(bounds.epsilon);
    let answered = |limit| stay.answer.as_ref().is_some_and(|answer| answer.at() <= limit);
    if answered(limit) || stay.last <= limit {
        return None;
    }
    // Whoever was stopped goes on where it was: give it the time.
    let mut own: Vec<_> = stays.faults(stay.worker, stay.asked, Nanos::MAX).collect();
    own.sort_by_key(|fault| fault.from);
    for fault in own.into_iter().filter(|fault| fault.worker.is_some()) {
        if fault.from <= limit {
            limit =
                limit.saturating_add(fault.to - fault.from.max(stay.asked)).max(fault.to + bounds.epsilon);
        }
    }
    (!answered(limit) && limit < stay.last).then_some(limit)
}

/// When somebody was told that it holds, by key and time.
fn grants(stays: &Stays<'_>) -> Vec<(KeyId, Nanos)> {
    let told = |stay: &Stay| match stay.answer {
        Some(Answer::Granted { at, .. }) => Some((stay.key, at)),
        _ => None,
    };
    let mut grants: Vec<_> = stays.stays.iter().filter_map(told).collect();
    grants.sort_unstable();
    grants
}

/// Whether the lock stayed free after this one gave it back while somebody waited, undisturbed.
fn idle_beside<'a>(
    stays: &'a Stays<'_>,
    stay: &Stay,
    grants: &[(KeyId, Nanos)],
    bounds: &Bounds,
) -> Option<(Nanos, &'a Stay)> {
    let Some((freed, Freed::Yes)) = stay.released else { return None };
    let limit = freed + bounds.poll + bounds.epsilon;
    // Nearly always somebody holds again soon, which one look tells.
    let next = grants.partition_point(|&grant| grant < (stay.key, freed));
    if grants.get(next).is_some_and(|&grant| grant <= (stay.key, limit)) {
        return None;
    }
    let waiter = stays.stays.iter().find(|waiter| {
        waiter.key == stay.key
            && waiter.op != stay.op
            && waiter.mode == Wanted::Exclusive
            && waiter.asked < freed
            && waiter.asked.saturating_add(waiter.patience) > limit
            && waiter.last > limit
            && waiter.answer.as_ref().is_none_or(|answer| answer.at() > limit)
    })?;
    // Disturbed by anything that may have left a place behind, or kept the waiter from asking. That no news came is no
    // excuse.
    let since = freed.saturating_sub(bounds.ttl);
    let disturbed = stays
        .history
        .faults
        .iter()
        .any(|fault| fault.kind != WAKE_UP && fault.from <= limit && since <= fault.to);
    let taken = stays.stays.iter().any(|other| {
        // Those who wait too have to be served first, by the same bound: only those who could hold count.
        let silent = other.answer.is_none() && !other.died;
        other.key == stay.key
            && other.op != stay.op
            && other.op != waiter.op
            && !silent
            && other.may_stand(freed, limit, bounds.ttl)
    });
    (!disturbed && !taken).then_some((limit, waiter))
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Waiters, WAKE_UP, testing::Tale};
    use crate::history::{Freed, What};

    #[test]
    fn every_ask_is_answered_in_its_own_time() {
        let tale = Tale::new().ask(1, 1, 0, 5);
        tale.breaks(Waiters, "was prepared to wait for 5.0 s, and heard nothing");
        tale.clone().event(1, 1, 7, What::NotGranted).breaks(Waiters, "heard nothing");
        tale.clone().event(1, 1, 5, What::NotGranted).keeps(Waiters);
        tale.clone().event(1, 1, 5, What::Failed { maybe: true, why: "x".into() }).keeps(Waiters);
        tale.clone().kill(1, 3).keeps(Waiters);
        tale.ends(5).keeps(Waiters);
    }

    #[test]
    fn whoever_was_stopped_is_given_the_time() {
        let tale = Tale::new().ask(1, 1, 0, 5).fault("pause", 2, 12, Some(1), None);
        tale.clone().event(1, 1, 15, What::NotGranted).keeps(Waiters);
        tale.event(1, 1, 17, What::NotGranted).breaks(Waiters, "heard nothing");
    }

    #[test]
    fn a_free_lock_does_not_stay_free_beside_a_waiter() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).ask(2, 2, 1, 100).release(1, 1, 3, Freed::Yes);
        let late = tale.clone().told(2, 2, 9, Some(2));
        late.breaks(Waiters, "gave the lock back to nobody, and worker 2 still waited 4.5 s later");
        tale.clone().told(2, 2, 7, Some(2)).keeps(Waiters);
        late.clone().fault("cut", 4, 5, None, None).keeps(Waiters);
        late.fault(WAKE_UP, 4, 5, None, None).breaks(Waiters, "still waited");
        let other = tale.ask(3, 3, 2, 50).told(3, 3, 4, Some(2)).release(3, 3, 8, Freed::Yes);
        other.told(2, 2, 9, Some(3)).keeps(Waiters);
    }
}
