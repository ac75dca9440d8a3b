//! I5 and I7: what ends without a word blocks others for a bounded time.

use super::{
    Bounds,
    stays::{Answer, Stay, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::{Freed, Nanos, Wanted};

/// I5: after the death of a holder the next one holds in time.
pub(super) fn after_a_death(stays: &Stays<'_>, bounds: &Bounds) -> Finding {
    let holds = |stay: &Stay| {
        let granted = matches!(stay.answer, Some(Answer::Granted { .. }));
        (stay.died && granted && stay.released.is_none()).then_some(stay.last)
    };
    each(stays, holds, bounds.succession, bounds, "died")
}

/// I7: an acquisition that nobody knows the end of leaves nothing behind.
pub(super) fn after_an_unknown_end(stays: &Stays<'_>, bounds: &Bounds) -> Finding {
    let unknown = |stay: &Stay| match (&stay.answer, stay.released) {
        (Some(Answer::Failed { at, maybe: true }), _) => Some(*at),
        (None, _) if stay.died => Some(stay.last),
        (Some(Answer::Granted { .. }), Some((at, Freed::Unknown))) => Some(at),
        _ => None,
    };
    each(stays, unknown, bounds.ttl.max(bounds.succession), bounds, "ended in doubt")
}

fn each(
    stays: &Stays<'_>,
    ended: impl Fn(&Stay) -> Option<Nanos>,
    within: Nanos,
    bounds: &Bounds,
    what: &str,
) -> Finding {
    let mut ops = 0;
    for stay in &stays.stays {
        let Some(at) = ended(stay) else { continue };
        let limit = limit(stays, stay, at, within, bounds);
        let Some(waiter) = waits(stays, stay, at, limit) else {
            // Nobody waited for that long: because the next one came in time, or because nobody wanted to.
            ops += usize::from(came(stays, stay, at, limit));
            continue;
        };
        ops += 1;
        if !somebody_else(stays, stay, at, limit, bounds) {
            let why = format!(
                "worker {} {what}, and worker {} still waited {:.1} s later with nobody before it",
                stay.worker,
                waiter.worker,
                limit.saturating_sub(at) as f64 / 1e9
            );
            return Finding::Broken(Story::tell(stays, limit, &[stay.op, waiter.op], why));
        }
    }
    Finding::Held(ops)
}

/// By when somebody must hold: counted anew from whatever else went wrong before that.
fn limit(stays: &Stays<'_>, stay: &Stay, at: Nanos, within: Nanos, bounds: &Bounds) -> Nanos {
    let within = within + bounds.epsilon;
    let mut limit = at + within;
    let mut faults: Vec<_> = stays.history.faults.iter().filter(|fault| fault.to >= at).collect();
    faults.sort_by_key(|fault| fault.from);
    for fault in faults {
        // The waiters' own troubles count too: a waiter that is stopped keeps its place for a while.
        if fault.from <= limit {
            limit = limit.max(fault.to + within);
        }
    }
    let others = stays.stays.iter().filter(|other| other.key == stay.key && other.op != stay.op);
    let mut ends: Vec<_> = others.filter_map(doubtful).filter(|&end| end >= at).collect();
    ends.sort_unstable();
    for end in ends {
        if end <= limit {
            limit = limit.max(end + within);
        }
    }
    limit
}

/// When another one ended so that something of it may have stayed behind.
fn doubtful(stay: &Stay) -> Option<Nanos> {
    match (&stay.answer, stay.released) {
        (Some(Answer::Granted { .. }), Some((_, Freed::Yes | Freed::NotHeld))) => None,
        (Some(Answer::Granted { .. }), released) => {
            released.map(|(at, _)| at).or(stay.over()).or(stay.died.then_some(stay.last))
        }
        (Some(answer), _) => Some(answer.at()),
        (None, _) => stay.died.then_some(stay.last),
    }
}

/// Whether somebody who waited when it ended was granted the lock in time.
fn came(stays: &Stays<'_>, stay: &Stay, at: Nanos, limit: Nanos) -> bool {
    stays.stays.iter().any(|next| {
        next.key == stay.key
            && next.op != stay.op
            && next.asked <= at
            && matches!(next.answer, Some(Answer::Granted { at: told, .. }) if at < told && told <= limit)
    })
}

/// Somebody who waited all the time, free to act.
fn waits<'a>(stays: &'a Stays<'_>, stay: &Stay, at: Nanos, limit: Nanos) -> Option<&'a Stay> {
    stays.stays.iter().find(|waiter| {
        waiter.key == stay.key
            && waiter.op != stay.op
            && waiter.mode == Wanted::Exclusive
            && waiter.asked <= at
            && waiter.asked.saturating_add(waiter.patience) > limit
            && waiter.last > limit
            && waiter.answer.as_ref().is_none_or(|answer| answer.at() > limit)
    })
}

/// Whether anybody else held, or may have, since then: the one that died is not what the waiter waits for.
fn somebody_else(stays: &Stays<'_>, stay: &Stay, at: Nanos, limit: Nanos, bounds: &Bounds) -> bool {
    stays.stays.iter().any(|other| {
        other.key == stay.key
            && other.op != stay.op
            && matches!(other.answer, Some(Answer::Granted { at: told, .. }) if told <= limit)
            && other.may_stand(at, limit, bounds.ttl)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{
        Promise::{Succession, Unknown},
        testing::Tale,
    };
    use crate::history::What;

    #[test]
    fn after_a_death_the_next_one_holds_in_time() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).kill(1, 5).ask(2, 2, 1, 100);
        tale.breaks(Succession, "worker 1 died, and worker 2 still waited 12.5 s later");
        tale.clone().told(2, 2, 30, Some(2)).breaks(Succession, "worker 1 died");
        assert_eq!(tale.clone().told(2, 2, 17, Some(2)).keeps(Succession), 1);
        assert_eq!(tale.ends(17).keeps(Succession), 0, "it was over before it was due");
    }

    #[test]
    fn somebody_else_before_it_is_no_fault() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).kill(1, 5).ask(2, 2, 1, 100);
        let other = tale.ask(3, 3, 1, 100).told(3, 3, 15, Some(2));
        assert_eq!(other.believe(3, 3, 40).keeps(Succession), 1);
    }

    #[test]
    fn what_goes_wrong_meanwhile_counts_anew() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).kill(1, 5).ask(2, 2, 1, 100);
        let cut = tale.clone().fault("cut", 10, 20, None, None);
        cut.clone().told(2, 2, 30, Some(2)).keeps(Succession);
        cut.told(2, 2, 40, Some(2)).breaks(Succession, "died");
        let dead_waiter = tale.ask(3, 3, 2, 100).kill(3, 14);
        dead_waiter.told(2, 2, 26, Some(3)).keeps(Succession);
    }

    #[test]
    fn an_impatient_waiter_proves_nothing() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).kill(1, 5).ask(2, 2, 1, 10);
        assert_eq!(tale.event(2, 2, 11, What::NotGranted).keeps(Succession), 0);
    }

    #[test]
    fn an_end_in_doubt_leaves_nothing_behind() {
        let failed = |maybe| What::Failed { maybe, why: "no answer".into() };
        let tale = Tale::new().ask(1, 1, 0, 5).ask(2, 2, 1, 100);
        let doubt = tale.clone().event(1, 1, 5, failed(true));
        doubt.breaks(Unknown, "worker 1 ended in doubt, and worker 2 still waited");
        doubt.told(2, 2, 16, Some(2)).keeps(Unknown);
        assert_eq!(tale.event(1, 1, 5, failed(false)).keeps(Unknown), 0);
    }
}
