use std::time::Duration;

use tenure_core::{
    Attempt, Busy, Claim, ClaimId, Error, Grant, Incarnation, Mode, Op, Patience, Result, Seat, Seq,
};
use tokio::task::yield_now;

use super::{Liar, Lie, State};
use crate::model::Spot;

impl Liar {
    pub(super) async fn attempt_lying(&self, claim: &Claim) -> Result<Attempt> {
        let allowed = self.store.guarantees.modes.allow(claim.mode);
        if !allowed && !self.lies(Lie::GrantsUndeclaredShared) && !self.lies(Lie::RefusesPermitsLate) {
            return Err(refused(claim.mode));
        }
        if self.lies(Lie::LooksThenWrites) || self.lies(Lie::TriesLookThenWrite) {
            return self.look_then_write(claim).await;
        }
        if self.lies(Lie::HalfAttempt) {
            self.attempt_under_another_id(claim).await?;
        }
        let answer = self.attempt_once(claim);
        if !allowed && self.lies(Lie::RefusesPermitsLate) {
            return Err(refused(claim.mode));
        }
        self.tell(Lie::PurgeTellsNobody);
        if self.lies(Lie::SetnxThenExpire) {
            let end = self.end_of(claim, None);
            yield_now().await;
            self.end_of(claim, end);
        }
        answer
    }

    fn attempt_once(&self, claim: &Claim) -> Result<Attempt> {
        let now = self.now();
        let mut state = self.lock();
        self.before(&mut state, claim);
        let known = state.model.line_at(&claim.key, now);
        let known = known.find(claim.id).map(|at| known.spots[at].clone());
        let stopped = known.as_ref().is_some_and(|spot| spot.stopped);
        if stopped && self.lies(Lie::StoppedIsGranted) {
            let seat = known.map_or(Seq::ZERO, |spot| spot.seq);
            return Ok(Attempt::Granted(Grant {
                seat: at(seat),
                ttl: Some(claim.ttl.get()),
                remembers: None,
            }));
        }
        let patience = if self.lies(Lie::TryLeavesAPlace) { Patience::Queue } else { claim.patience };
        let wish = Claim { patience, ..claim.clone() };
        let mut answer = state.model.attempt(&wish, now, |last, floor| match self.store.lie {
            Some(Lie::ReusedFence) => Seq::new(last.get().max(1)).unwrap_or(last),
            Some(Lie::FloorIgnored) => last.next(Seq::ZERO, 0).unwrap_or(last),
            _ => last.next(floor, 0).unwrap_or(last),
        })?;
        state.owners.insert(claim.id, self.losses.clone());
        self.after(&mut state, claim, known, &mut answer);
        if matches!(answer, Attempt::Granted(_)) {
            state.granted.insert(claim.id);
        } else {
            state.spoilt.extend(self.lies(Lie::StarvesTheLast).then_some(claim.id));
        }
        Ok(answer)
    }

    /// The lies that are told before the honest step.
    fn before(&self, state: &mut State, claim: &Claim) {
        let now = self.now();
        match self.store.lie {
            Some(Lie::FenceGoesBackAfterIdle) => {
                let idle =
                    state.used.get(&claim.key).is_some_and(|used| now.since(*used) > Duration::from_secs(60));
                let line = state.model.line_at(&claim.key, now);
                if idle && line.spots.is_empty() {
                    line.last = Seq::ZERO;
                }
            }
            Some(Lie::RepeatLosesRank) => {
                let line = state.model.line_at(&claim.key, now);
                if line.find(claim.id).is_some_and(|at| at > 0) {
                    line.spots.retain(|spot| spot.id != claim.id);
                }
            }
            Some(Lie::NewcomerOvertakes) => {
                let granted = state.granted.clone();
                let line = state.model.line_at(&claim.key, now);
                let idle = line.spots.first().is_some_and(|spot| !granted.contains(&spot.id));
                if idle && line.find(claim.id).is_none() {
                    line.spots.retain(|spot| granted.contains(&spot.id));
                }
            }
            Some(Lie::EvictedQueuesAgain) => state.model.evicted.clear(),
            Some(Lie::StoppedIsProlonged) => {
                state.model.evicted.clear();
                state.model.line_at(&claim.key, now).spots.iter_mut().for_each(|spot| spot.stopped = false);
            }
            _ => {}
        }
    }

    /// The lies that are told after the honest step; `known` is the place as it was before.
    fn after(&self, state: &mut State, claim: &Claim, known: Option<Spot>, answer: &mut Attempt) {
        let (now, ttl) = (self.now(), claim.ttl.get());
        let spoilt = state.spoilt.contains(&claim.id);
        let line = state.model.line_at(&claim.key, now);
        let Some(place) = line.find(claim.id) else { return };
        let seat = Some(at(line.spots[place].seq));
        let granted = matches!(answer, Attempt::Granted(_));
        match self.store.lie {
            Some(Lie::WaiterProlongsHolder) if !granted => line.spots[0].deadline = Some(now + ttl),
            Some(Lie::BusyAfterGranting) if granted && known.is_none() => *answer = busy(seat),
            Some(Lie::StarvesTheLast) if spoilt => *answer = busy(seat),
            Some(Lie::TryLeavesAPlace) if !granted && claim.patience == Patience::Try => *answer = busy(None),
            Some(Lie::DuplicatePlace) if known.is_some() => {
                let copy = line.spots[place].clone();
                line.spots.push(copy);
            }
            Some(Lie::NewNumberOnRepeat) if known.is_some() => {
                line.last = line.last.next(Seq::ZERO, 0).unwrap_or(line.last);
                line.spots[place].seq = line.last;
                *answer = Attempt::Granted(Grant { seat: at(line.last), ttl: Some(ttl), remembers: None });
            }
            Some(Lie::AttemptChangesMode) => line.spots[place].mode = claim.mode,
            Some(Lie::LeaseShortenedByAttempt) => line.spots[place].deadline = Some(now + ttl),
            Some(Lie::NeverExpires) => line.spots[place].deadline = None,
            Some(Lie::WaitersNeverExpire) if !granted => line.spots[place].deadline = None,
            Some(Lie::ExpiresEarly) => {
                line.spots[place].deadline = Some(now + (ttl - Duration::from_millis(2)));
            }
            Some(Lie::ExpiresLate) => line.spots[place].deadline = Some(now + ttl + Duration::from_millis(1)),
            Some(Lie::WaiterNotRefreshed) => {
                if let Some(known) = known.filter(|_| !granted) {
                    line.spots[place].deadline = known.deadline;
                }
            }
            Some(Lie::LapsesTooLate) => {
                if let Attempt::Busy(busy) = answer {
                    busy.lapses_in = busy.lapses_in.map(|left| left + ttl);
                }
            }
            Some(Lie::WaitersLiveTooLong) => {
                if let Attempt::Busy(busy) = answer {
                    busy.ttl = busy.ttl.map(|lives| lives + ttl);
                }
            }
            _ => {}
        }
    }

    /// Looks whether the key is free, and writes as if nobody could have come in between.
    async fn look_then_write(&self, claim: &Claim) -> Result<Attempt> {
        let free = self.lock().model.line_at(&claim.key, self.now()).spots.is_empty();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let patience = if free { Patience::Queue } else { claim.patience };
        let answer = self.attempt_once(&Claim { patience, ..claim.clone() })?;
        self.tell(Lie::PurgeTellsNobody);
        Ok(match answer {
            Attempt::Busy(Busy { seat: Some(seat), .. }) if free => {
                Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None })
            }
            answer => answer,
        })
    }

    /// Takes the place under an id that nobody knows, and names it properly a step later.
    async fn attempt_under_another_id(&self, claim: &Claim) -> Result<()> {
        let nameless = Claim { id: ClaimId::fresh(), ..claim.clone() };
        if self.lock().model.line_at(&claim.key, self.now()).find(claim.id).is_some() {
            return Ok(());
        }
        let _ = self.attempt_once(&nameless)?;
        yield_now().await;
        let now = self.now();
        let mut state = self.lock();
        let line = state.model.line_at(&claim.key, now);
        if let Some(at) = line.find(nameless.id) {
            line.spots[at].id = claim.id;
        }
        Ok(())
    }

    /// Sets when a claim's place ends, and says when it did before.
    fn end_of(&self, claim: &Claim, end: Option<tenure_core::Moment>) -> Option<tenure_core::Moment> {
        let now = self.now();
        let mut state = self.lock();
        let line = state.model.line_at(&claim.key, now);
        let at = line.find(claim.id)?;
        std::mem::replace(&mut line.spots[at].deadline, end)
    }
}

fn busy(seat: Option<Seat>) -> Attempt {
    Attempt::Busy(Busy { seat, ..Busy::default() })
}

const fn at(seq: Seq) -> Seat {
    Seat { seq, incarnation: Incarnation(0) }
}

fn refused(mode: Mode) -> Error {
    Error::unsupported(Op::Attempt, format!("this engine cannot grant claims that are {mode}"))
}
