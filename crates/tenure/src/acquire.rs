//! The acquire loop: from a claim to a hold, for every engine and every kind of lock.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, Error, ErrorKind, Mode, Moment, Op, Patience, Result, Seat, Ttl, Turn,
    Wake,
};

use crate::{
    client::{Shared, limited, no_answer},
    hold::Hold,
    watchdog::Upkeep,
};

/// The shortest and the longest pause between attempts on an engine that cannot tell a waiter of its turn.
const POLL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(250)];
/// Such a pause is this share of how long it has waited: a wait is longer than it must be by no more than that, and a
/// long one costs few attempts.
const POLL_SHARE: u32 = 8;

/// A claim that is being asked for. Dropped before it holds, it releases whatever place it may have.
pub(crate) struct Asking {
    shared: Arc<Shared>,
    /// When the first attempt counts as sent: before anything was done, so that it costs no look at the clock.
    began: Option<Moment>,
    /// `None` once it holds.
    claim: Option<Claim>,
    upkeep: Upkeep,
    standing: Standing,
    /// Whether an attempt was ever left without an answer: it may still arrive, after any later one.
    answered: Answered,
    /// What the newest attempt was told, if a wait may begin from there.
    busy: Option<Ack>,
    trouble: Option<Trouble>,
    /// Since when it waits.
    waits: Option<Moment>,
}

/// What the engine may have of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nothing,
    Place,
    InDoubt,
}

/// The newest acknowledged attempt: a push counts from when it was sent.
#[derive(Clone, Copy, Debug)]
struct Ack {
    sent: Moment,
    busy: Busy,
}

/// Since when the engine has been failing, and how often.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Moment,
    times: u32,
}

impl Asking {
    pub(crate) fn new(shared: Arc<Shared>, claim: Claim, upkeep: Upkeep, began: Moment) -> Self {
        let (claim, began) = (Some(claim), Some(began));
        Self {
            shared,
            began,
            claim,
            upkeep,
            standing: Standing::Nothing,
            answered: Answered::All,
            busy: None,
            trouble: None,
            waits: None,
        }
    }

    /// Asks until the claim holds. `None` if it does not hold at once and has no patience.
    ///
    /// # Errors
    /// `Timeout` at the deadline; what the engine says if it cannot be mended by asking again, or has been
    /// failing for a whole ttl.
    /// # Cancel safety
    /// Goes on where it was when called again; dropping the `Asking` leaves nothing behind.
    pub(crate) async fn run(&mut self, deadline: Option<Moment>) -> Result<Option<Arc<Hold>>> {
        loop {
            if let Some(ack) = self.busy {
                if let Some(hold) = self.wait(ack, deadline).await? {
                    return Ok(Some(hold));
                }
                self.busy = None;
            }
            match self.attempt(deadline).await {
                Ok(Some(hold)) => return Ok(Some(hold)),
                Ok(None) if self.claim().patience == Patience::Try => return Ok(None),
                Ok(None) => {}
                Err(err) => self.suffer(err, deadline).await?,
            }
        }
    }

    /// Asks once, and waits for the answer until the deadline. `None` if the claim does not hold yet.
    pub(crate) async fn attempt(&mut self, deadline: Option<Moment>) -> Result<Option<Arc<Hold>>> {
        let claim = self.claim.as_ref().ok_or_else(finished)?;
        let sent = self.began.take().unwrap_or_else(|| self.shared.now());
        let before = std::mem::replace(&mut self.standing, Standing::InDoubt);
        let longest = claim.ttl.renew_every();
        let limit = deadline.map_or(longest, |deadline| deadline.since(sent).min(longest));
        let answer = match limited(limit, self.shared.engine.attempt(claim)).await {
            Some(answer) => answer,
            None if limit < longest => {
                let message = "the engine had not answered at the deadline";
                Err(Error::new(ErrorKind::Timeout, Op::Attempt, message))
            }
            None => Err(no_answer(Op::Attempt, claim.ttl)),
        };
        match answer {
            Ok(Attempt::Granted(grant)) => {
                self.standing = Standing::Place;
                let now = self.shared.now();
                self.shared.took(now.since(sent));
                if grant.ttl.is_some_and(|ttl| now >= safe_until(sent, ttl)) {
                    // The answer took so long that it is worth nothing; another attempt refreshes the lease.
                    return Err(no_answer(Op::Attempt, claim.ttl));
                }
                self.holds(grant.seat, now, grant.ttl, sent).map(Some)
            }
            Ok(Attempt::Busy(busy)) => {
                self.standing = match (busy.seat, self.answered) {
                    (Some(_), _) => Standing::Place,
                    (None, Answered::All) => Standing::Nothing,
                    (None, Answered::InDoubt) => Standing::InDoubt,
                };
                self.trouble = None;
                self.shared.took(self.shared.now().since(sent));
                same_permits(claim, &busy)?;
                self.busy = (claim.patience == Patience::Queue).then_some(Ack { sent, busy });
                Ok(None)
            }
            Err(err) => {
                if err.may_have_applied() {
                    self.answered = Answered::InDoubt;
                } else {
                    self.standing = before; // an earlier attempt may have left a place
                }
                Err(self.name(err))
            }
        }
    }

    /// Waits for the turn, or until another attempt is due. `None` if an attempt must follow.
    async fn wait(&mut self, ack: Ack, deadline: Option<Moment>) -> Result<Option<Arc<Hold>>> {
        let claim = self.claim.as_ref().ok_or_else(finished)?;
        let now = self.shared.now();
        self.still_time(deadline, now)?;
        let mut pause = pause(&ack.busy, claim.ttl);
        if self.shared.guarantees.wake == Wake::Poll {
            let waited = now.since(*self.waits.get_or_insert(now));
            pause = pause.min(jitter(poll(waited, ack.busy.ahead)));
        }
        if let Some(deadline) = deadline {
            pause = pause.min(deadline.since(now));
        }
        match tokio::time::timeout(pause, self.shared.engine.turn(claim)).await {
            Ok(Turn::Holds(seat)) if ack.busy.seat == Some(seat) => {
                let lease = ack.busy.ttl;
                let now = self.shared.now();
                if lease.is_none_or(|lease| now < safe_until(ack.sent, lease)) {
                    return self.holds(seat, now, lease, ack.sent).map(Some);
                }
            }
            // Any other push is a hint, and so is none: attempt again.
            Ok(Turn::Holds(_) | Turn::Again) | Err(_) => {}
        }
        self.still_time(deadline, self.shared.now())?;
        Ok(None)
    }

    fn still_time(&self, deadline: Option<Moment>, now: Moment) -> Result<()> {
        match deadline {
            Some(deadline) if now >= deadline => {
                let message = "others held it until the deadline";
                Err(self.name(Error::new(ErrorKind::Timeout, Op::Acquire, message).not_applied()))
            }
            _ => Ok(()),
        }
    }

    /// Naps after a failure that may pass, or gives up.
    async fn suffer(&mut self, err: Error, deadline: Option<Moment>) -> Result<()> {
        let now = self.shared.now();
        let ttl = self.claim().ttl;
        let patience = match self.claim().patience {
            Patience::Try => ttl.renew_every(),
            Patience::Queue => ttl.get(),
        };
        let trouble = self.trouble.get_or_insert(Trouble { since: now, times: 0 });
        trouble.times += 1;
        let give_up = trouble.since + patience;
        let give_up = deadline.map_or(give_up, |deadline| deadline.min(give_up));
        if !err.is_retryable() || now >= give_up {
            return Err(err.in_op(Op::Acquire));
        }
        let nap = jitter(
            (Duration::from_millis(10) * 2u32.saturating_pow(trouble.times.min(16))).min(ttl.get() / 6),
        );
        tokio::time::sleep(nap.min(give_up.since(now))).await;
        Ok(())
    }

    fn holds(&mut self, seat: Seat, now: Moment, lease: Option<Duration>, sent: Moment) -> Result<Arc<Hold>> {
        let claim = self.claim.take().ok_or_else(finished)?;
        let deadline = match (lease, self.upkeep) {
            (Some(lease), _) => Some(safe_until(sent, lease)),
            // Nothing ends it in the engine while this process lives, so the watchdog has to.
            (None, Upkeep::Fixed) => Some(safe_until(now, claim.ttl.get())),
            (None, Upkeep::Renewed) => None,
        };
        let hold = Arc::new(Hold::new(claim, seat.seq, now, deadline, lease, self.answered));
        self.shared.watchdog.watch(&hold, self.upkeep, sent);
        Ok(hold)
    }

    fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("an asking that holds is not asked again")
    }

    fn name(&self, err: Error) -> Error {
        let err = err.with_engine(self.shared.guarantees.engine);
        match &self.claim {
            Some(claim) => err.with_key(&claim.key),
            None => err,
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        match self.standing {
            Standing::Nothing => {}
            Standing::Place => self.shared.cleaner.release(claim, self.answered),
            Standing::InDoubt => self.shared.cleaner.release(claim, Answered::InDoubt),
        }
    }
}

/// How long to stay silent if no news comes: the place itself must be refreshed, and a blocker may lapse.
fn pause(busy: &Busy, ttl: Ttl) -> Duration {
    let Some(lapses_in) = busy.lapses_in else { return ttl.renew_every() };
    // Those further back look a little later, so that the first finds the key free and the rest a holder.
    let behind = Duration::from_millis(1 + u64::from(busy.ahead.unwrap_or(0).min(50)));
    ttl.renew_every().min(lapses_in + behind)
}

/// How long a waiter pauses at most before it asks again, by itself. The next in line asks most often; where nobody
/// says who that is, all are as patient as those further back.
fn poll(waited: Duration, ahead: Option<u32>) -> Duration {
    let patience = if ahead == Some(1) { 1 } else { 2 };
    let [shortest, longest] = POLL;
    (waited / POLL_SHARE).max(shortest).saturating_mul(patience).min(longest)
}

/// Until when a hold is safe that was asked for at `sent`.
pub(crate) fn safe_until(sent: Moment, ttl: Duration) -> Moment {
    let margin = (ttl / 20).max(Duration::from_millis(10));
    sent + ttl.saturating_sub(margin)
}

/// Between half of a pause and all of it, so that those who fail together do not come back together.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A semaphore of 3 here and of 5 there is a mistake that would wait for ever without a word.
fn same_permits(claim: &Claim, busy: &Busy) -> Result<()> {
    match (claim.mode, busy.blocker) {
        (Mode::Permits(ours), Some(Mode::Permits(theirs))) if ours.of() != theirs.of() => {
            Err(Error::invalid(format!(
                "the semaphore has {} permits here and {} where it is held; name the same number everywhere",
                ours.of(),
                theirs.of()
            ))
            .in_op(Op::Acquire)
            .with_key(&claim.key))
        }
        _ => Ok(()),
    }
}

fn finished() -> Error {
    Error::new(ErrorKind::Broken, Op::Acquire, "a claim that holds was asked for again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_asks_soon_at_first_and_less_often_the_longer_it_waits() {
        let (mut waited, mut asked) = (Duration::ZERO, 0);
        while waited < Duration::from_secs(60) {
            let pause = poll(waited, Some(1));
            assert!((POLL[0]..=POLL[1]).contains(&pause) && pause <= POLL[0].max(waited / POLL_SHARE));
            assert!(poll(waited, Some(5)) >= pause && poll(waited, None) >= pause);
            waited += pause;
            asked += 1;
        }
        assert!(asked < 300, "{asked} attempts in a minute");
        assert_eq!(poll(Duration::MAX, None), POLL[1]);
    }

    #[test]
    fn those_who_wait_together_do_not_ask_together() {
        let pauses: Vec<_> = (0..100).map(|_| jitter(POLL[1])).collect();
        assert!(pauses.iter().all(|&pause| pause <= POLL[1] && pause >= POLL[1] / 2));
        assert!(pauses.iter().max() > pauses.iter().min());
    }
}
