use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence},
    time::Duration,
};

use tenure_core::{Answered, Claim, Mode, Moment, Seq};
use tokio::sync::Notify;

use crate::Loss;

/// A place that holds: shared by the guard, the lane and the watchdog.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) claim: Claim,
    pub(crate) seq: Seq,
    /// When the grant was known here.
    pub(crate) granted: Moment,
    /// How long the place lived when it was granted, at most what was asked for: an engine may give less.
    pub(crate) lease: Duration,
    /// Whether an attempt of its claim may still be on its way.
    pub(crate) answered: Answered,
    /// Nanoseconds on the client's clock; `NO_DEADLINE` if the place lives with its process.
    deadline: AtomicU64,
    /// Once set never cleared: a late reply cannot revive a hold.
    loss: AtomicU8,
    /// An exclusive hold that became a shared one.
    downgraded: AtomicBool,
    /// Where the watchdog keeps it.
    pub(crate) watched_at: AtomicUsize,
    told: Notify,
}

const NO_DEADLINE: u64 = u64::MAX;
const HELD: u8 = 0;

impl Hold {
    pub(crate) fn new(
        claim: Claim,
        seq: Seq,
        granted: Moment,
        deadline: Option<Moment>,
        lease: Option<Duration>,
        answered: Answered,
    ) -> Self {
        let asked = claim.ttl.get();
        Self {
            lease: lease.map_or(asked, |lease| lease.min(asked)),
            answered,
            claim,
            seq,
            granted,
            deadline: AtomicU64::new(deadline.map_or(NO_DEADLINE, nanos)),
            loss: AtomicU8::new(HELD),
            downgraded: AtomicBool::new(false),
            watched_at: AtomicUsize::new(usize::MAX),
            told: Notify::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Moment> {
        match self.deadline.load(Ordering::Acquire) {
            NO_DEADLINE => None,
            nanos => Some(Moment::new(Duration::from_nanos(nanos))),
        }
    }

    /// Whether the hold is lost at this moment. The first to see the deadline pass makes it final.
    pub(crate) fn loss(&self, now: Moment) -> Option<Loss> {
        match self.loss.load(Ordering::Acquire) {
            HELD if self.deadline().is_some_and(|deadline| now >= deadline) => {
                self.lose(Loss::Expired);
                self.loss(now)
            }
            HELD => None,
            code => Some(Loss::from_code(code)),
        }
    }

    /// Makes the hold lost for good; the first reason stays. True if this call did it.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        let first =
            self.loss.compare_exchange(HELD, loss.code(), Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            self.told.notify_waiters();
        }
        first
    }

    /// How it holds now. A mode only ever weakens.
    pub(crate) fn mode(&self) -> Mode {
        fence(Ordering::SeqCst);
        if self.downgraded.load(Ordering::Relaxed) { Mode::Shared } else { self.claim.mode }
    }

    /// Becomes a reader if nobody shares the hold, and counts as one from here on.
    ///
    /// Marks first and asks then, while whoever comes to share it counts itself first and looks at the mark then:
    /// one of the two sees the other.
    pub(crate) fn downgrade(&self, alone: impl FnOnce() -> bool) -> bool {
        self.downgraded.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let alone = alone();
        if !alone {
            self.downgraded.store(false, Ordering::Relaxed);
        }
        alone
    }

    /// Moves the deadline forward, never back, unless the hold was lost meanwhile.
    pub(crate) fn prolong(&self, deadline: Option<Moment>, now: Moment) {
        if self.loss(now).is_none() {
            let deadline = deadline.map_or(NO_DEADLINE, nanos);
            self.deadline.fetch_max(deadline, Ordering::AcqRel);
        }
    }

    /// Resolves at the next loss; whether one came before is for the caller to ask after this was made.
    pub(crate) fn told(&self) -> tokio::sync::futures::Notified<'_> {
        self.told.notified()
    }
}

fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.get().as_nanos()).unwrap_or(NO_DEADLINE - 1)
}

#[cfg(test)]
mod tests {
    use tenure_core::{ClaimId, Key, Note, Patience, Ttl};

    use super::*;

    fn hold(deadline: Option<u64>) -> Hold {
        let claim = Claim {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            mode: Mode::Exclusive,
            patience: Patience::Queue,
            ttl: Ttl::default(),
            floor: Seq::ZERO,
            note: Note::new("me", ""),
        };
        Hold::new(claim, Seq::ZERO, at(0), deadline.map(at), None, Answered::All)
    }

    fn at(secs: u64) -> Moment {
        Moment::new(Duration::from_secs(secs))
    }

    #[test]
    fn safe_strictly_before_the_deadline() {
        let hold = hold(Some(10));
        assert_eq!(hold.loss(at(10) - Duration::from_nanos(1)), None);
        assert_eq!(hold.loss(at(10)), Some(Loss::Expired));
    }

    #[test]
    fn a_late_reply_never_revives_a_hold() {
        let hold = hold(Some(10));
        assert_eq!(hold.loss(at(11)), Some(Loss::Expired));
        hold.prolong(Some(at(20)), at(9));
        assert_eq!(hold.loss(at(9)), Some(Loss::Expired), "lost is final, even for a clock read earlier");

        let hold = self::hold(Some(10));
        hold.prolong(Some(at(20)), at(10));
        assert_eq!(hold.loss(at(10)), Some(Loss::Expired), "the reply itself came too late");
    }

    #[test]
    fn replies_in_any_order_never_shorten_a_hold() {
        let hold = hold(Some(10));
        hold.prolong(Some(at(20)), at(1));
        hold.prolong(Some(at(15)), at(2));
        assert_eq!(hold.deadline(), Some(at(20)));
    }

    #[test]
    fn the_first_reason_stays() {
        let hold = hold(None);
        assert_eq!(hold.loss(at(1_000_000)), None);
        assert!(hold.lose(Loss::Gone));
        assert!(!hold.lose(Loss::Expired));
        assert_eq!(hold.loss(at(0)), Some(Loss::Gone));
    }
}
