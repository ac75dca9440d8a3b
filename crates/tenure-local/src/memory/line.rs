use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tenure_core::{
    Busy, Claim, ClaimId, Key, Mode, Moment, Note, Seat, Seq, Standing, Ttl,
    line::{self, Front},
};
use tokio::sync::oneshot;

use super::losses::Losses;

/// How many of those ahead are looked at for who stands in the way.
const LOOK: usize = 8;
/// How long a line may be before its claims are found by an index.
const SHORT: usize = 16;

/// The claims on one key, by number.
///
/// Whoever joins, leaves or is looked for costs at most the logarithm of the line's length, but for one thing: who
/// leaves from the middle moves the places on the shorter side of it.
#[derive(Debug)]
pub(super) struct Line {
    places: VecDeque<(Seq, Place)>,
    /// Which number each claim has, if the line is long.
    index: Option<HashMap<ClaimId, Seq>>,
    /// Who at the front holds.
    front: Front,
    /// No lease ends before this, so that purging is a comparison for most verbs.
    calm_until: Moment,
}

#[derive(Debug)]
pub(super) struct Place {
    id: ClaimId,
    pub(super) seq: Seq,
    pub(super) mode: Mode,
    pub(super) evicted: bool,
    deadline: Moment,
    taken: Moment,
    note: Note,
    news: Option<oneshot::Sender<Seq>>,
    pub(super) owner: Arc<Losses>,
}

impl Default for Line {
    fn default() -> Self {
        // Most lines have one place for all their life.
        Self {
            places: VecDeque::with_capacity(1),
            index: None,
            front: Front::default(),
            calm_until: Moment::new(Duration::MAX),
        }
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&self, at: usize) -> &Place {
        &self.places[at].1
    }

    pub(super) fn find(&self, id: ClaimId) -> Option<usize> {
        match &self.index {
            None => self.places.iter().position(|(_, place)| place.id == id),
            Some(index) => {
                let seq = index.get(&id)?;
                self.places.binary_search_by_key(seq, |(seq, _)| *seq).ok()
            }
        }
    }

    pub(super) fn holds(&self, at: usize) -> bool {
        at < self.front.holders()
    }

    pub(super) fn would_hold(&self, mode: Mode) -> bool {
        self.front.holders() == self.places.len() && self.front.fits(mode)
    }

    /// What is known about a claim of this mode behind the first `ahead` places.
    pub(super) fn busy(&self, ahead: usize, mode: Mode, seat: Option<(Seat, Ttl)>, now: Moment) -> Busy {
        let before = self.places.range(..ahead).rev();
        let mut other = before.map(|(_, place)| place.mode).take(LOOK);
        Busy {
            seat: seat.map(|(seat, _)| seat),
            ttl: seat.map(|(_, ttl)| ttl.get()),
            ahead: u32::try_from(ahead).ok(),
            blocker: other.find(|&other| !line::compatible(other, mode)),
            lapses_in: Some(self.calm_until.since(now)),
        }
    }

    pub(super) fn append(&mut self, claim: &Claim, seq: Seq, now: Moment, owner: Arc<Losses>) -> usize {
        let deadline = now + claim.ttl.get();
        self.calm_until = self.calm_until.min(deadline);
        let place = Place {
            id: claim.id,
            seq,
            mode: claim.mode,
            evicted: false,
            deadline,
            taken: now,
            note: claim.note.clone(),
            news: None,
            owner,
        };
        self.places.push_back((seq, place));
        match &mut self.index {
            Some(index) => drop(index.insert(claim.id, seq)),
            None if self.places.len() > SHORT => {
                self.index = Some(self.places.iter().map(|(seq, place)| (place.id, *seq)).collect());
            }
            None => {}
        }
        self.settle();
        self.places.len() - 1
    }

    /// A lease is never shortened, and that of an evicted place never prolonged.
    pub(super) fn prolong(&mut self, at: usize, deadline: Moment) {
        let place = &mut self.places[at].1;
        if !place.evicted {
            place.deadline = place.deadline.max(deadline);
        }
    }

    pub(super) fn weaken(&mut self, at: usize) {
        let before = std::mem::replace(&mut self.places[at].1.mode, Mode::Shared);
        if self.holds(at) && before == Mode::Exclusive {
            // It held alone.
            self.front = Front::default();
        }
        self.settle();
    }

    pub(super) fn evict(&mut self, at: usize) {
        self.places[at].1.evicted = true;
    }

    pub(super) fn remove(&mut self, at: usize) {
        let held = self.holds(at);
        let Some((_, place)) = self.places.remove(at) else { return };
        if held {
            self.front.leave(place.mode);
        }
        match &mut self.index {
            Some(index) if self.places.len() > SHORT / 2 => drop(index.remove(&place.id)),
            _ => self.index = None,
        }
        self.settle();
    }

    /// Removes the places whose lease has ended and tells those who now hold.
    pub(super) fn purge(&mut self, now: Moment) {
        if now < self.calm_until {
            return;
        }
        let (before, index) = (self.places.len(), &mut self.index);
        self.places.retain(|(_, place)| {
            let lives = now < place.deadline;
            if !lives && let Some(index) = index {
                index.remove(&place.id);
            }
            lives
        });
        let deadlines = self.places.iter().map(|(_, place)| place.deadline);
        self.calm_until = deadlines.min().unwrap_or(Moment::new(Duration::MAX));
        if self.places.len() < before {
            self.front = Front::default();
            self.settle();
        }
    }

    /// Resolves with the place's number once it holds.
    pub(super) fn listen(&mut self, at: usize) -> oneshot::Receiver<Seq> {
        let (tell, news) = oneshot::channel();
        self.places[at].1.news = Some(tell);
        news
    }

    pub(super) fn show<'a>(
        &'a self,
        key: &'a Key,
        now: Moment,
    ) -> impl Iterator<Item = tenure_core::Place> + 'a {
        self.places.iter().enumerate().map(move |(at, (_, place))| tenure_core::Place {
            key: key.clone(),
            id: place.id,
            seq: place.seq,
            mode: place.mode,
            standing: if self.holds(at) { Standing::Holds } else { Standing::Waits },
            note: place.note.clone(),
            age: now.since(place.taken),
            lease_left: Some(place.deadline.since(now)),
        })
    }

    /// Lets in those at the front who now hold, and tells them.
    fn settle(&mut self) {
        while let Some((seq, place)) = self.places.get_mut(self.front.holders())
            && self.front.admit(place.mode)
        {
            if let Some(news) = place.news.take() {
                // The waiter may be gone; its place then lapses or is released.
                let _ = news.send(*seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Patience, Permits};

    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::new(Duration::from_secs(secs))
    }

    fn claim(mode: Mode, ttl: u64) -> Claim {
        Claim {
            key: Key::new("k").unwrap(),
            id: ClaimId::fresh(),
            mode,
            patience: Patience::Queue,
            ttl: Ttl::new(Duration::from_secs(ttl)).unwrap(),
            floor: Seq::ZERO,
            note: Note::new("me", ""),
        }
    }

    /// Grows and shrinks over the length at which claims are found by an index, from all sides and by leases that end:
    /// everybody is found at their place, nobody else is, and the rule's holders hold.
    #[test]
    fn a_long_line_is_the_same_as_a_short_one() {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits(Permits::new(1, 3).unwrap())];
        let (mut line, mut claims, mut gone) = (Line::default(), Vec::<Claim>::new(), Vec::new());
        let mut seq = 0;
        for step in 0..2_000usize {
            let grows = claims.len() < 2 || (step / 50) % 2 == 0;
            if grows {
                seq += 1;
                let claim = claim(modes[step * 7 / 3 % 3], if step % 11 == 0 { 5 } else { 10_000 });
                line.append(&claim, Seq::new(seq).unwrap(), at(step as u64), Arc::default());
                claims.push(claim);
            } else {
                let leaves = step * 31 % claims.len();
                line.remove(line.find(claims[leaves].id).unwrap());
                gone.push(claims.remove(leaves));
            }
            line.purge(at(step as u64));
            let lives = |claim: &Claim| claim.ttl.get() > Duration::from_secs(5);
            gone.extend(claims.extract_if(.., |claim| !lives(claim) && line.find(claim.id).is_none()));
            assert_eq!(line.len(), claims.len(), "step {step}");
            for (place, claim) in claims.iter().enumerate() {
                assert_eq!(line.find(claim.id), Some(place), "step {step}");
            }
            assert!(gone.iter().all(|claim| line.find(claim.id).is_none()), "step {step}");
            let holders = line::holders(claims.iter().map(|claim| claim.mode));
            assert_eq!((0..line.len()).filter(|&place| line.holds(place)).count(), holders, "step {step}");
        }
    }
}
