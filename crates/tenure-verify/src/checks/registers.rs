//! I3: a resource that checks fences loses no update. What becomes of one that does not is counted beside it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{stays::Stays, story::Story, verdict::Finding};
use crate::history::{Done, Effect, History, Register, Wanted};

/// What happened to the resource that takes what it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plain {
    /// How many updates it acknowledged.
    pub written: usize,
    /// How many of them are gone.
    pub lost: usize,
}

pub(super) fn plain(history: &History) -> Plain {
    let mut plain = Plain::default();
    for effect in history.effects.iter().filter(|effect| effect.register == Register::Plain) {
        if let (Done::Write { lost }, true) = (&effect.what, effect.accepted) {
            plain.written += 1;
            plain.lost += lost.len();
        }
    }
    plain
}

pub(super) fn check(stays: &Stays<'_>) -> Finding {
    let mut written = 0;
    // The largest fence that was accepted on each key, of anybody and of those who may write.
    let mut marks: HashMap<u32, (u64, u64)> = HashMap::new();
    let fenced = |effect: &&Effect| effect.register == Register::Fenced && effect.accepted;
    for effect in stays.history.effects.iter().filter(fenced) {
        if let Done::Write { lost } = &effect.what {
            written += 1;
            if let Some(&gone) = lost.first() {
                let why = format!(
                    "the fenced resource took the write of worker {} and lost an update that it had acknowledged",
                    effect.worker
                );
                return Finding::Broken(Story::tell(stays, effect.at, &[gone, effect.op], why));
            }
        }
        let Some(fence) = effect.fence else {
            return Finding::TooLittle("the fenced resource was used without a fence".into());
        };
        let writes = stays.get(effect.op).is_none_or(|stay| stay.mode == Wanted::Exclusive);
        let (any, writer) = marks.entry(effect.key).or_default();
        let mark = if writes { *any } else { *writer };
        if fence < mark {
            let why = format!(
                "the fenced resource served worker {} with the fence {fence} after it had served {mark}",
                effect.worker
            );
            return Finding::Broken(Story::tell(stays, effect.at, &[effect.op], why));
        }
        *any = fence.max(*any);
        if writes {
            *writer = fence.max(*writer);
        }
    }
    Finding::Held(written)
}

#[cfg(test)]
mod tests {
    use super::super::{Promise::Register as Kept, check, testing::Tale};
    use crate::history::{
        Done::{Claim, Read, Write},
        Register::{Fenced, Plain},
        Wanted,
    };

    fn two() -> Tale {
        Tale::new().grant(1, 1, 0, Some(1)).leave(1, 1, 1).grant(2, 2, 20, Some(2))
    }

    #[test]
    fn an_update_behind_a_fence_is_never_lost() {
        let one = two().effect(1, 0, Fenced, Some(1), Claim, true).effect(1, 1, Fenced, Some(1), Read, true);
        let wrote = one.effect(1, 1, Fenced, Some(1), Write { lost: vec![] }, true);
        let other = wrote.effect(2, 20, Fenced, Some(2), Claim, true);
        assert_eq!(other.clone().effect(2, 21, Fenced, Some(2), Write { lost: vec![] }, true).keeps(Kept), 2);
        let refused = other.clone().effect(2, 21, Fenced, Some(2), Write { lost: vec![1] }, false);
        refused.keeps(Kept);
        other.effect(2, 21, Fenced, Some(2), Write { lost: vec![1] }, true).breaks(Kept, "lost an update");
    }

    #[test]
    fn a_fence_never_goes_down_at_the_resource() {
        let other = two().effect(2, 20, Fenced, Some(2), Claim, true);
        other.clone().effect(1, 21, Fenced, Some(1), Write { lost: vec![] }, false).keeps(Kept);
        let late = other.effect(1, 21, Fenced, Some(1), Write { lost: vec![] }, true);
        late.breaks(Kept, "served worker 1 with the fence 1 after it had served 2");
    }

    #[test]
    fn readers_do_not_shut_each_other_out_but_a_writer_does() {
        let reader = |tale: Tale, who: u32, fence| {
            tale.grant_as(who, who.into(), 0, Some(fence), Wanted::Shared).effect(
                who.into(),
                1,
                Fenced,
                Some(fence),
                Read,
                true,
            )
        };
        let both = reader(reader(Tale::new(), 2, 2), 1, 1);
        both.keeps(Kept);
        let wrote = Tale::new().grant(3, 3, 0, Some(3)).effect(3, 1, Fenced, Some(3), Claim, true);
        reader(wrote, 1, 1).breaks(Kept, "after it had served 3");
    }

    #[test]
    fn the_plain_resource_is_counted_and_promises_nothing() {
        let wrote = two().effect(1, 1, Plain, None, Write { lost: vec![] }, true).effect(
            2,
            21,
            Plain,
            None,
            Write { lost: vec![1] },
            true,
        );
        wrote.keeps(Kept);
        let plain = check(&wrote.history, &wrote.bounds()).plain;
        assert_eq!((plain.written, plain.lost), (2, 1));
    }
}
