use std::{collections::VecDeque, sync::Arc, time::Duration};

use tenure_core::{Busy, Claim, ClaimId, Key, Mode, Moment, Note, Seat, Seq, Standing, Ttl, line};
use tokio::sync::oneshot;

use super::losses::Losses;

/// The claims on one key, by number.
#[derive(Debug)]
pub(super) struct Line {
    places: VecDeque<Place>,
    /// How many at the front hold.
    holders: usize,
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
        Self { places: VecDeque::with_capacity(1), holders: 0, calm_until: Moment::new(Duration::MAX) }
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&self, at: usize) -> &Place {
        &self.places[at]
    }

    pub(super) fn find(&self, id: ClaimId) -> Option<usize> {
        self.places.iter().position(|place| place.id == id)
    }

    pub(super) fn holds(&self, at: usize) -> bool {
        at < self.holders
    }

    pub(super) fn would_hold(&self, mode: Mode) -> bool {
        self.holders == self.places.len() && line::would_hold(self.modes(), mode)
    }

    /// What is known about a claim of this mode behind the first `ahead` places.
    pub(super) fn busy(&self, ahead: usize, mode: Mode, seat: Option<(Seat, Ttl)>, now: Moment) -> Busy {
        let before = || self.places.iter().take(ahead);
        Busy {
            seat: seat.map(|(seat, _)| seat),
            ttl: seat.map(|(_, ttl)| ttl.get()),
            ahead: u32::try_from(ahead).ok(),
            blocker: before().rev().map(|place| place.mode).find(|&other| !line::compatible(other, mode)),
            lapses_in: before().map(|place| place.deadline).min().map(|deadline| deadline.since(now)),
        }
    }

    pub(super) fn append(&mut self, claim: &Claim, seq: Seq, now: Moment, owner: Arc<Losses>) -> usize {
        let deadline = now + claim.ttl.get();
        self.calm_until = self.calm_until.min(deadline);
        self.places.push_back(Place {
            id: claim.id,
            seq,
            mode: claim.mode,
            evicted: false,
            deadline,
            taken: now,
            note: claim.note.clone(),
            news: None,
            owner,
        });
        self.settle();
        self.places.len() - 1
    }

    /// A lease is never shortened, and that of an evicted place never prolonged.
    pub(super) fn prolong(&mut self, at: usize, deadline: Moment) {
        let place = &mut self.places[at];
        if !place.evicted {
            place.deadline = place.deadline.max(deadline);
        }
    }

    pub(super) fn weaken(&mut self, at: usize) {
        self.places[at].mode = Mode::Shared;
        self.settle();
    }

    pub(super) fn evict(&mut self, at: usize) {
        self.places[at].evicted = true;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.places.remove(at);
        self.settle();
    }

    /// Removes the places whose lease has ended and tells those who now hold.
    pub(super) fn purge(&mut self, now: Moment) {
        if now < self.calm_until {
            return;
        }
        let before = self.places.len();
        self.places.retain(|place| now < place.deadline);
        self.calm_until =
            self.places.iter().map(|place| place.deadline).min().unwrap_or(Moment::new(Duration::MAX));
        if self.places.len() < before {
            self.settle();
        }
    }

    /// Resolves with the place's number once it holds.
    pub(super) fn listen(&mut self, at: usize) -> oneshot::Receiver<Seq> {
        let (tell, news) = oneshot::channel();
        self.places[at].news = Some(tell);
        news
    }

    pub(super) fn show<'a>(
        &'a self,
        key: &'a Key,
        now: Moment,
    ) -> impl Iterator<Item = tenure_core::Place> + 'a {
        self.places.iter().enumerate().map(move |(at, place)| tenure_core::Place {
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

    /// Derives who holds, and tells those who wait for it.
    fn settle(&mut self) {
        self.holders = line::holders(self.modes());
        for place in self.places.range_mut(..self.holders) {
            if let Some(news) = place.news.take() {
                // The waiter may be gone; its place then lapses or is released.
                let _ = news.send(place.seq);
            }
        }
    }

    fn modes(&self) -> impl Iterator<Item = Mode> + '_ {
        self.places.iter().map(|place| place.mode)
    }
}
