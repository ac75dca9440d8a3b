//! I2: fences differ, and rise in the order of grants.

use super::{
    stays::{Answer, Belief, Stay, Stays},
    story::Story,
    verdict::Finding,
};
use crate::history::{Nanos, Wanted};

struct Numbered<'a> {
    fence: u64,
    told: Nanos,
    stay: &'a Stay,
}

impl Numbered<'_> {
    /// Readers that were let in together have no order, and in a quorum not even different numbers.
    fn reads(&self) -> bool {
        self.stay.mode == Wanted::Shared
    }
}

pub(super) fn check(stays: &Stays<'_>) -> Finding {
    let number = |stay| match stay {
        &Stay { answer: Some(Answer::Granted { at: told, fence: Some(fence) }), .. } => {
            Some(Numbered { fence, told, stay })
        }
        _ => None,
    };
    let mut grants: Vec<_> = stays.stays.iter().filter_map(number).collect();
    if grants.is_empty() {
        let granted = |stay: &&Stay| matches!(stay.answer, Some(Answer::Granted { .. }));
        return match stays.stays.iter().find(granted) {
            Some(_) => Finding::TooLittle("no grant has a fence".into()),
            None => Finding::Held(0),
        };
    }
    grants.sort_by_key(|grant| (grant.stay.key, grant.fence, grant.told));
    for key in grants.chunk_by(|a, b| a.stay.key == b.stay.key) {
        if let Some(story) = repeats(stays, key).or_else(|| goes_back(stays, key)) {
            return Finding::Broken(story);
        }
    }
    for beliefs in stays.beliefs() {
        if let Some(story) = overtaken(stays, &beliefs) {
            return Finding::Broken(story);
        }
    }
    Finding::Held(grants.len())
}

fn repeats(stays: &Stays<'_>, grants: &[Numbered<'_>]) -> Option<Story> {
    let same =
        |pair: &&[Numbered<'_>]| pair[0].fence == pair[1].fence && !(pair[0].reads() && pair[1].reads());
    let pair = grants.windows(2).find(same)?;
    let why = format!(
        "workers {} and {} were both given the fence {}",
        pair[0].stay.worker, pair[1].stay.worker, pair[0].fence
    );
    Some(Story::tell(stays, pair[0].told.max(pair[1].told), &[pair[0].stay.op, pair[1].stay.op], why))
}

/// Walks by fence: nobody may have been told a larger one before a smaller one was even asked for.
fn goes_back(stays: &Stays<'_>, grants: &[Numbered<'_>]) -> Option<Story> {
    let (mut any, mut writer): (Option<&Numbered<'_>>, Option<&Numbered<'_>>) = (None, None);
    for grant in grants {
        let newest = if grant.reads() { writer } else { any };
        if let Some(below) = newest.filter(|below| grant.told < below.stay.asked) {
            let why = format!(
                "worker {} asked after worker {} had been told the fence {}, and was given {}",
                below.stay.worker, grant.stay.worker, grant.fence, below.fence
            );
            return Some(Story::tell(stays, below.told, &[grant.stay.op, below.stay.op], why));
        }
        let later = |newest: Option<&Numbered<'_>>| newest.is_none_or(|n| n.stay.asked < grant.stay.asked);
        if later(any) {
            any = Some(grant);
        }
        if !grant.reads() && later(writer) {
            writer = Some(grant);
        }
    }
    None
}

/// Walks by time: whoever begins to believe has a larger fence than all that it could not have held beside.
fn overtaken(stays: &Stays<'_>, beliefs: &[Belief<'_>]) -> Option<Story> {
    let (mut any, mut writer) = (None::<(u64, Belief<'_>)>, None::<(u64, Belief<'_>)>);
    for &belief in beliefs {
        let Some(fence) = belief.fence else { continue };
        let before = match belief.stay.mode {
            Wanted::Exclusive => any,
            Wanted::Shared | Wanted::Permits { .. } => writer,
        };
        if let Some((above, other)) = before.filter(|&(above, _)| above > fence) {
            let why = format!(
                "worker {} began to hold with the fence {fence} after worker {} had held with {above}",
                belief.stay.worker, other.stay.worker
            );
            return Some(Story::tell(stays, belief.from, &[other.stay.op, belief.stay.op], why));
        }
        if any.is_none_or(|(above, _)| above < fence) {
            any = Some((fence, belief));
        }
        if belief.stay.mode == Wanted::Exclusive && writer.is_none_or(|(above, _)| above < fence) {
            writer = Some((fence, belief));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Fences, Verdict, testing::Tale};
    use crate::history::Wanted;

    #[test]
    fn a_number_is_given_once() {
        let tale = Tale::new().grant(1, 1, 0, Some(6)).leave(1, 1, 1).grant(2, 2, 20, Some(6));
        tale.breaks(Fences, "both given the fence 6");
        let readers = Tale::new().grant_as(1, 1, 0, Some(6), Wanted::Shared);
        readers.clone().grant_as(2, 2, 1, Some(6), Wanted::Shared).keeps(Fences);
        readers.leave(1, 1, 1).grant(2, 2, 2, Some(6)).breaks(Fences, "both");
    }

    #[test]
    fn whoever_asks_later_gets_more() {
        let tale = Tale::new().grant(1, 1, 0, Some(6)).leave(1, 1, 1).grant(2, 2, 20, Some(5));
        tale.breaks(Fences, "worker 2 asked after worker 1 had been told the fence 6, and was given 5");
        let tale = Tale::new().grant(1, 1, 0, Some(6)).leave(1, 1, 1).grant(2, 2, 20, Some(7));
        assert_eq!(tale.keeps(Fences), 2);
    }

    #[test]
    fn whoever_is_told_later_but_asked_earlier_must_not_hold_with_less() {
        // Told late and with no time left: its number is old, and it believes nothing.
        let late = Tale::new().ask(1, 1, 0, 30).ask(2, 2, 1, 30).told(2, 2, 12, Some(6)).leave(2, 2, 13);
        let dead = crate::history::What::Granted { fence: Some(5), until: Some(9_000_000_000) };
        late.clone().event(1, 1, 14, dead).keeps(Fences);
        late.told(1, 1, 14, Some(5)).breaks(Fences, "began to hold with the fence 5 after worker 2");
    }

    #[test]
    fn readers_let_in_together_have_no_order_and_a_writer_has() {
        let reader = |tale: Tale, who, at, fence| {
            tale.grant_as(who, u64::from(who), at, Some(fence), Wanted::Shared).leave(who, who.into(), at + 1)
        };
        let two = reader(reader(Tale::new(), 1, 0, 9), 2, 3, 8);
        two.keeps(Fences);
        two.grant(3, 3, 8, Some(7)).breaks(Fences, "and was given 7");
        let writer = Tale::new().grant(3, 3, 0, Some(9)).leave(3, 3, 1);
        reader(writer, 1, 5, 8).breaks(Fences, "was given 8");
    }

    #[test]
    fn without_fences_there_is_nothing_to_say() {
        let verdict = Tale::new().grant(1, 1, 0, None).verdict(Fences);
        assert!(matches!(verdict, Verdict::Inconclusive { .. }));
    }
}
