//! What a quorum remembers about each claim: which round it is in, and where it may have places.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use tenure_core::{Answered, Attempt, Claim, ClaimId, Error, ErrorKind, Moment, Op, Released, Result, Seq};

use super::{asks::Asks, pending::Pending, verdict::Miss};

/// All claims of one client that have, or may have, a place anywhere.
///
/// A record goes with the release of its claim. Claims that were busy everywhere have none, because nobody releases
/// them. If an owner never comes back, its record goes once all its leases have ended.
#[derive(Debug, Default)]
pub(super) struct Claims {
    records: HashMap<ClaimId, Record>,
    /// The claim of each round whose id is not the claim's own.
    rounds: HashMap<ClaimId, ClaimId>,
    sweep_at: usize,
}

#[derive(Debug)]
struct Record {
    round: ClaimId,
    stage: Stage,
    slots: Vec<Slot>,
    hold: Option<Hold>,
    pending: Option<Arc<Pending>>,
    /// No lease of this claim lasts longer.
    until: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The round may be asked again.
    Live,
    /// Releases were sent: another attempt is another round, because an id has one life.
    Burnt,
    /// The claim itself is being released.
    Leaving,
}

/// What one member may have of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    seat: Option<Seq>,
    /// Its last number is known not to be below the fence, and its place not above.
    at_fence: bool,
    /// An attempt is on its way.
    asked: bool,
    /// An earlier attempt was never answered and may still arrive.
    doubt: bool,
    /// It said that the place is gone.
    gone: bool,
    /// It was released while the round goes on, so it is never asked again in this round.
    left: bool,
    released: Option<Released>,
}

impl Slot {
    fn may_have_a_place(&self) -> bool {
        !self.left && (self.seat.is_some() || self.asked || self.doubt)
    }

    fn answered(&self) -> Answered {
        if self.asked || self.doubt { Answered::InDoubt } else { Answered::All }
    }
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    fence: Seq,
    /// Until when a majority is known to keep the places.
    until: Moment,
    told: bool,
}

/// A round that is about to be asked.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) owner: ClaimId,
    pub(super) round: ClaimId,
    /// Who takes part.
    pub(super) asked: Vec<bool>,
    /// The fence of this round if it was won before, and who stood at it, with which number.
    pub(super) won: Option<(Seq, Vec<Option<Seq>>)>,
}

/// A hold as its members know it.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) round: ClaimId,
    /// The place's number at each member; where none is known, the fence, which it usually has.
    pub(super) seqs: Vec<Seq>,
    pub(super) until: Moment,
}

/// Whom to release.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) round: ClaimId,
    pub(super) ask: Vec<(usize, Answered)>,
    /// What was said before, by member.
    pub(super) said: Vec<Option<Released>>,
}

impl Claims {
    pub(super) fn begin(&mut self, claim: &Claim, members: usize, now: Moment) -> Result<Begun> {
        self.sweep(now);
        let record = self.records.entry(claim.id).or_insert_with(|| Record::new(claim.id, members, now));
        match record.stage {
            Stage::Live => {}
            Stage::Burnt => {
                record.round = ClaimId::fresh();
                record.slots = vec![Slot::default(); members];
                record.hold = None;
                record.stage = Stage::Live;
                self.rounds.insert(record.round, claim.id);
            }
            Stage::Leaving => {
                return Err(Error::new(ErrorKind::Lost, Op::Attempt, "the claim was released")
                    .with_key(&claim.key)
                    .not_applied());
            }
        }
        record.drop_pending();
        record.until = record.until.max(now + 2 * claim.ttl.get());
        for slot in record.slots.iter_mut().filter(|slot| !slot.left) {
            slot.doubt |= slot.asked;
            slot.asked = true;
        }
        let stood = |slot: &Slot| slot.seat.filter(|_| slot.at_fence);
        Ok(Begun {
            owner: claim.id,
            round: record.round,
            asked: record.slots.iter().map(|slot| !slot.left).collect(),
            won: record.hold.map(|hold| (hold.fence, record.slots.iter().map(stood).collect())),
        })
    }

    /// Notes what a member said to an attempt. `left` says that its place is given back at once. False if the round
    /// is over, so that nobody here knows of the place.
    pub(super) fn heard(
        &mut self,
        claim: ClaimId,
        round: ClaimId,
        member: usize,
        answer: &Result<Attempt, Miss>,
        left: bool,
    ) -> bool {
        let Some(record) = self.live(claim, round) else { return false };
        record.heard(member, answer, left);
        true
    }

    /// Keeps the attempts that were not waited for, to be dropped when the claim is released.
    pub(super) fn follow(&mut self, claim: ClaimId, round: ClaimId, pending: Arc<Pending>) {
        if let Some(record) = self.live(claim, round) {
            record.pending = Some(pending);
        }
    }

    /// Drops the attempts that were not waited for; whether they arrived stays in doubt.
    pub(super) fn unfollow(&mut self, claim: ClaimId) {
        if let Some(record) = self.records.get_mut(&claim) {
            record.drop_pending();
        }
    }

    /// The round is won: these members stand at the fence.
    pub(super) fn win(&mut self, claim: ClaimId, round: ClaimId, fence: Seq, at: &[usize], until: Moment) {
        let Some(record) = self.live(claim, round) else { return };
        for (member, slot) in record.slots.iter_mut().enumerate() {
            slot.at_fence = at.contains(&member);
        }
        record.hold = Some(Hold { fence, until, told: false });
    }

    /// The round is lost. Says who must be released, with the attempts that are still on their way.
    pub(super) fn lose(
        &mut self,
        claim: ClaimId,
        round: ClaimId,
    ) -> (Vec<(usize, Answered)>, Option<Asks<Attempt>>) {
        let Some(record) = self.live(claim, round) else { return (Vec::new(), None) };
        let rest = record.take_pending();
        // Whoever was asked for the first time and has not answered is heard first: a release that overtakes the
        // attempt frees nothing.
        let known = |slot: &Slot| !slot.left && (slot.seat.is_some() || slot.doubt);
        let places = record.slots.iter().enumerate().filter(|(_, slot)| known(slot));
        let places: Vec<_> = places.map(|(member, slot)| (member, slot.answered())).collect();
        if record.slots.iter().any(|slot| slot.left || slot.may_have_a_place()) {
            record.stage = Stage::Burnt;
            record.hold = None;
            self.rounds.remove(&round);
        } else if round == claim {
            self.records.remove(&claim);
        }
        (places, rest)
    }

    /// A claim's hold, if it has one with this fence.
    pub(super) fn standing(&self, claim: ClaimId, fence: Seq) -> Option<Standing> {
        let record = self.records.get(&claim).filter(|record| record.stage == Stage::Live)?;
        let hold = record.hold.filter(|hold| hold.fence == fence)?;
        let seqs = record.slots.iter().map(|slot| slot.seat.unwrap_or(fence)).collect();
        Some(Standing { round: record.round, seqs, until: hold.until })
    }

    /// A majority renewed the hold until then; no lease of it lasts past `over`.
    pub(super) fn renewed(&mut self, claim: ClaimId, round: ClaimId, until: Moment, over: Moment) {
        let Some(record) = self.live(claim, round) else { return };
        record.until = record.until.max(over);
        if let Some(hold) = &mut record.hold {
            hold.until = hold.until.max(until);
        }
    }

    /// A member renewed a place: it is there, and its last number was lifted to the fence.
    pub(super) fn found(&mut self, claim: ClaimId, round: ClaimId, member: usize, seq: Seq) {
        let Some(record) = self.live(claim, round) else { return };
        let Some(hold) = record.hold else { return };
        let slot = &mut record.slots[member];
        if !slot.left && slot.seat.is_none_or(|seat| seat == seq) {
            slot.seat = Some(seq);
            slot.at_fence = seq <= hold.fence;
        }
    }

    /// A member says that these places are gone. Returns the holds that have fewer than a majority left by it.
    pub(super) fn gone(
        &mut self,
        member: usize,
        places: &[(ClaimId, Seq)],
        majority: usize,
    ) -> Vec<(ClaimId, Seq)> {
        let mut lost = Vec::new();
        for &(round, seq) in places {
            let claim = self.rounds.get(&round).copied().unwrap_or(round);
            let Some(record) = self.live(claim, round) else { continue };
            let slot = &mut record.slots[member];
            slot.gone |= slot.seat == Some(seq);
            let left =
                record.slots.iter().filter(|slot| slot.seat.is_some() && !slot.gone && !slot.left).count();
            if let Some(hold) = record.hold.as_mut().filter(|hold| !hold.told && left < majority) {
                hold.told = true;
                lost.push((claim, hold.fence));
            }
        }
        lost
    }

    /// The claim is released: it will never be attempted again. What was answered to an earlier release is kept.
    pub(super) fn leave(
        &mut self,
        claim: &Claim,
        members: usize,
        answered: Answered,
        now: Moment,
    ) -> Leaving {
        self.sweep(now);
        let record = match self.records.entry(claim.id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                // Never attempted here, or answered everywhere: nothing is known, so everybody is asked.
                let mut record = Record::new(claim.id, members, now + 2 * claim.ttl.get());
                for slot in &mut record.slots {
                    (slot.seat, slot.doubt) = (Some(Seq::ZERO), answered == Answered::InDoubt);
                }
                unknown.insert(record)
            }
        };
        record.drop_pending();
        // The releases of a burnt round are on their way already.
        let burnt = record.stage == Stage::Burnt;
        record.stage = Stage::Leaving;
        for slot in &mut record.slots {
            if burnt || !slot.may_have_a_place() {
                slot.released = slot.released.or(Some(Released::NotHeld));
            }
        }
        let open = record.slots.iter().enumerate().filter(|(_, slot)| slot.released.is_none());
        Leaving {
            round: record.round,
            ask: open.map(|(member, slot)| (member, slot.answered())).collect(),
            said: record.slots.iter().map(|slot| slot.released).collect(),
        }
    }

    pub(super) fn released(&mut self, claim: ClaimId, member: usize, released: Released) {
        if let Some(record) = self.records.get_mut(&claim).filter(|record| record.stage == Stage::Leaving) {
            record.slots[member].released = Some(released);
        }
    }

    pub(super) fn forget(&mut self, claim: ClaimId) {
        if let Some(record) = self.records.remove(&claim) {
            self.rounds.remove(&record.round);
        }
    }

    /// How many claims are remembered.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    fn live(&mut self, claim: ClaimId, round: ClaimId) -> Option<&mut Record> {
        self.records.get_mut(&claim).filter(|record| record.round == round && record.stage == Stage::Live)
    }

    /// Forgets claims whose owner has not come back and whose leases have all ended. Looks at all of them only when
    /// they have doubled since.
    fn sweep(&mut self, now: Moment) {
        if self.records.len() < self.sweep_at.max(64) {
            return;
        }
        let rounds = &mut self.rounds;
        self.records.retain(|_, record| {
            let keep = now < record.until;
            if !keep {
                record.drop_pending();
                rounds.remove(&record.round);
            }
            keep
        });
        self.sweep_at = 2 * self.records.len();
    }
}

impl Record {
    fn new(round: ClaimId, members: usize, until: Moment) -> Self {
        let slots = vec![Slot::default(); members];
        Self { round, stage: Stage::Live, slots, hold: None, pending: None, until }
    }

    fn heard(&mut self, member: usize, answer: &Result<Attempt, Miss>, left: bool) {
        let fence = self.hold.map(|hold| hold.fence);
        let slot = &mut self.slots[member];
        slot.asked = false;
        match answer {
            Ok(Attempt::Granted(grant)) => {
                let seq = grant.seat.seq;
                slot.at_fence &= slot.seat == Some(seq);
                slot.at_fence |= fence == Some(seq);
                slot.gone &= slot.seat == Some(seq);
                slot.seat = Some(seq);
                slot.left = left;
            }
            Ok(Attempt::Busy(_)) => (slot.seat, slot.at_fence) = (None, false),
            Err(miss) => slot.doubt |= miss.in_doubt(),
        }
    }

    fn take_pending(&mut self) -> Option<Asks<Attempt>> {
        let (asks, heard) = self.pending.take()?.take();
        if let Some((member, answer)) = heard.filter(|(member, _)| self.slots[*member].asked) {
            self.heard(member, &answer, false);
        }
        asks
    }

    fn drop_pending(&mut self) {
        drop(self.take_pending());
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, time::Duration};

    use tenure_core::{Grant, Incarnation, Key, Mode, Note, Patience, Seat, Ttl};

    use super::{super::asks::Ask, *};

    fn granted() -> Result<Attempt, Miss> {
        let seat = Seat { seq: Seq::new(7).unwrap(), incarnation: Incarnation(0) };
        Ok(Attempt::Granted(Grant { seat, ttl: None, remembers: None }))
    }

    /// Between hearing a late answer and noting it, the claim may be released on another thread. The release must not
    /// say that an attempt may still be under way: engines would leave a grave for it, which slows down whoever comes next.
    #[tokio::test]
    async fn what_was_heard_and_not_yet_noted_leaves_no_doubt() {
        let claim = Claim {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            mode: Mode::Exclusive,
            patience: Patience::Try,
            ttl: Ttl::default(),
            floor: Seq::ZERO,
            note: Note::new("me", ""),
        };
        let (mut claims, now) = (Claims::default(), Moment::new(Duration::ZERO));
        let begun = claims.begin(&claim, 5, now).unwrap();
        for member in 0..3 {
            assert!(claims.heard(claim.id, begun.round, member, &granted(), false));
        }
        let asks: [Ask<Attempt>; 2] = [Box::pin(ready((3, granted()))), Box::pin(std::future::pending())];
        let pending = Pending::new(asks.into_iter().collect());
        claims.follow(claim.id, begun.round, pending.clone());
        claims.win(claim.id, begun.round, Seq::new(7).unwrap(), &[0, 1, 2], now);
        assert!(pending.next().await.is_some());
        let leaving = claims.leave(&claim, 5, Answered::All, now);
        let doubts: Vec<_> = leaving.ask.iter().map(|(_, answered)| *answered == Answered::InDoubt).collect();
        assert_eq!(doubts, [false, false, false, false, true]);
    }
}
