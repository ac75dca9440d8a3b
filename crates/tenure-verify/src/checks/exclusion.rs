//! I1: no two believe to hold at once what only one can hold.

use super::{
    Bounds, search,
    stays::{Belief, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::Wanted;

pub(super) fn check(stays: &Stays<'_>, bounds: &Bounds) -> Finding {
    let mut ops = 0;
    for beliefs in stays.beliefs() {
        ops += beliefs.len();
        if let Some(clash) = clashes(&beliefs, |_, _| true) {
            return Finding::Broken(tell(stays, &clash));
        }
    }
    // Beliefs apart are not all: where nobody has a fence, whoever was turned away must have met somebody.
    search::check(stays, bounds, ops)
}

/// Two that believed at once, and with whom the second did not fit.
pub(super) struct Clash<'a> {
    pub(super) first: Belief<'a>,
    pub(super) second: Belief<'a>,
}

pub(super) fn tell(stays: &Stays<'_>, clash: &Clash<'_>) -> Story {
    let Clash { first, second } = clash;
    let both = first.to.min(second.to).saturating_sub(second.from);
    let why = format!(
        "workers {} and {} both believed to hold `{}` for {:.1} ms",
        first.stay.worker,
        second.stay.worker,
        stays.history.keys.get(second.stay.key as usize).map_or("?", |key| key.as_str()),
        both as f64 / 1e6,
    );
    Story::tell(stays, second.from, &[first.stay.op, second.stay.op], why)
}

/// The first two of one key's beliefs that overlap and do not fit, of those that matter. Sorted by their beginning.
pub(super) fn clashes<'a>(
    beliefs: &[Belief<'a>],
    matters: impl Fn(Wanted, Wanted) -> bool,
) -> Option<Clash<'a>> {
    let mut now: Vec<Belief<'a>> = Vec::new();
    for &second in beliefs {
        now.retain(|first| second.from < first.to);
        let fits = |first: &&Belief<'a>| {
            let (a, b) = (first.stay.mode, second.stay.mode);
            !beside(a, b) && matters(a, b)
        };
        let crowded = || match second.stay.mode {
            Wanted::Permits { take, of } => {
                let taken: u32 = now.iter().map(|first| permits(first.stay.mode)).sum();
                (taken.saturating_add(take) > of).then(|| now.last()).flatten()
            }
            Wanted::Exclusive | Wanted::Shared => None,
        };
        if let Some(&first) = now.iter().find(fits).or_else(crowded) {
            return Some(Clash { first, second });
        }
        // All that remain fit beside each other, so the list is no longer than there are permits or readers.
        now.push(second);
    }
    None
}

/// Whether two can hold beside each other, permits that are too many aside.
pub(super) fn beside(a: Wanted, b: Wanted) -> bool {
    match (a, b) {
        (Wanted::Shared, Wanted::Shared) => true,
        (Wanted::Permits { of, .. }, Wanted::Permits { of: other, .. }) => of == other,
        _ => false,
    }
}

fn permits(mode: Wanted) -> u32 {
    match mode {
        Wanted::Permits { take, .. } => take,
        Wanted::Exclusive | Wanted::Shared => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Exclusion, testing::Tale};
    use crate::history::{Freed, Wanted, What};

    #[test]
    fn two_at_once_are_one_too_many() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).grant(2, 2, 8, Some(2));
        tale.breaks(Exclusion, "workers 1 and 2 both believed to hold `k` for 1000.0 ms");
    }

    #[test]
    fn a_deadline_a_loss_a_release_and_a_death_each_end_a_belief() {
        assert_eq!(Tale::new().grant(1, 1, 0, Some(1)).grant(2, 2, 9, Some(2)).keeps(Exclusion), 2);
        let one = || Tale::new().grant(1, 1, 0, Some(1)).believe(1, 1, 1);
        let two = |tale: Tale| tale.grant(2, 2, 4, Some(2)).leave(2, 2, 20);
        two(one()).breaks(Exclusion, "both");
        two(one().event(1, 1, 4, What::Lost)).keeps(Exclusion);
        two(one().leave(1, 1, 3)).keeps(Exclusion);
        two(one().release(1, 1, 4, Freed::Yes)).keeps(Exclusion);
        two(one().kill(1, 4)).keeps(Exclusion);
        two(one().event(1, 1, 5, What::Lost)).breaks(Exclusion, "both");
    }

    #[test]
    fn whoever_looks_and_goes_on_believes_for_longer() {
        let tale = Tale::new().grant(1, 1, 0, Some(1)).believe(1, 1, 6).grant(2, 2, 14, Some(2));
        tale.breaks(Exclusion, "both");
    }

    #[test]
    fn one_without_a_lease_believes_until_it_says_otherwise() {
        let forever = What::Granted { fence: Some(1), until: None };
        let tale = Tale::new().ask(1, 1, 0, 0).event(1, 1, 0, forever);
        tale.clone().grant(2, 2, 500, Some(2)).breaks(Exclusion, "both");
        tale.leave(1, 1, 400).grant(2, 2, 500, Some(2)).keeps(Exclusion);
    }

    #[test]
    fn readers_share_and_permits_fit_or_not() {
        let readers =
            Tale::new().grant_as(1, 1, 0, Some(1), Wanted::Shared).grant_as(2, 2, 1, Some(2), Wanted::Shared);
        readers.keeps(Exclusion);
        readers.grant(3, 3, 2, Some(3)).breaks(Exclusion, "both");
        let take = |n| Wanted::Permits { take: n, of: 3 };
        let two = Tale::new().grant_as(1, 1, 0, Some(1), take(1)).grant_as(2, 2, 1, Some(2), take(2));
        two.keeps(Exclusion);
        two.grant_as(3, 3, 2, Some(3), take(1)).breaks(Exclusion, "both");
    }

    #[test]
    fn other_locks_are_other_locks() {
        let mut tale = Tale::new().grant(1, 1, 0, Some(1)).grant(2, 2, 1, Some(2));
        tale.history.keys.push("other".into());
        for event in tale.history.events.iter_mut().filter(|event| event.op == 2) {
            event.key = 1;
        }
        tale.keeps(Exclusion);
    }
}
