//! The contract of an engine as a pure function of what happened: no I/O, no clock, no sharing.
//!
//! The suite compares every engine with it step by step, and the liars are built on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_core::{
    Attempt, Busy, Claim, ClaimId, Crash, Error, ErrorKind, Evicted, Eviction, Filter, Grant, Held,
    Incarnation, Key, Mode, Moment, Note, Op, Patience, Place, Released, Renewal, Result, Seat, Seq,
    Standing, When, line,
};

/// Whether the place at this index of a line holds.
pub type HoldRule = fn(&[Mode], usize) -> bool;

/// Every line of a store.
#[derive(Clone, Debug)]
pub struct Model {
    /// The line rule: the front that fits together, unless a liar has another.
    pub holds: HoldRule,
    /// What places end with.
    pub crash: Crash,
    /// The lines by key; a key's last number outlives its places.
    pub lines: BTreeMap<Key, Line>,
    /// Evicted ids whose owner has not let go yet.
    pub evicted: BTreeSet<ClaimId>,
}

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The places, in order.
    pub spots: Vec<Spot>,
    /// The largest number drawn so far.
    pub last: Seq,
}

/// One place.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Whose.
    pub id: ClaimId,
    /// Its number.
    pub seq: Seq,
    /// How it wishes to hold.
    pub mode: Mode,
    /// Who.
    pub note: Note,
    /// When it was taken.
    pub taken: Moment,
    /// When it ends; `None` for never.
    pub deadline: Option<Moment>,
    /// Gently evicted: not renewed any more.
    pub stopped: bool,
}

impl Line {
    /// The modes of the places, in order.
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        self.spots.iter().map(|spot| spot.mode).collect()
    }

    /// Where a claim stands.
    #[must_use]
    pub fn find(&self, id: ClaimId) -> Option<usize> {
        self.spots.iter().position(|spot| spot.id == id)
    }

    /// Where a hold stands that may still be renewed.
    #[must_use]
    pub fn find_hold(&self, hold: Held<'_>) -> Option<usize> {
        self.find(hold.claim.id).filter(|&at| self.spots[at].seq == hold.seq && !self.spots[at].stopped)
    }

    /// Removes the places whose lease has ended.
    pub fn purge(&mut self, now: Moment) {
        self.spots.retain(|spot| spot.deadline.is_none_or(|deadline| now < deadline));
    }
}

impl Model {
    /// A store without places.
    #[must_use]
    pub fn new(crash: Crash) -> Self {
        Self {
            holds: |modes, at| at < line::holders(modes.iter().copied()),
            crash,
            lines: BTreeMap::new(),
            evicted: BTreeSet::new(),
        }
    }

    /// The line of a key without what has ended.
    pub fn line_at(&mut self, key: &Key, now: Moment) -> &mut Line {
        let line = self.lines.entry(key.clone()).or_default();
        line.purge(now);
        line
    }

    /// `Engine::attempt`. `draw` gives the number of a new place from the last one and the floor.
    ///
    /// # Errors
    /// `Lost` if the claim was evicted.
    pub fn attempt(
        &mut self,
        claim: &Claim,
        now: Moment,
        draw: impl FnOnce(Seq, Seq) -> Seq,
    ) -> Result<Attempt> {
        if self.evicted.contains(&claim.id) {
            return Err(Error::new(ErrorKind::Lost, Op::Attempt, "the claim was evicted").not_applied());
        }
        let (ttl, crash, holds) = (claim.ttl.get(), self.crash, self.holds);
        let line = self.line_at(&claim.key, now);
        let at = match line.find(claim.id) {
            Some(at) => at,
            None => {
                let mut modes = line.modes();
                modes.push(claim.mode);
                if claim.patience == Patience::Try && !holds(&modes, modes.len() - 1) {
                    return Ok(Attempt::Busy(Busy {
                        ahead: u32::try_from(line.spots.len()).ok(),
                        ..Busy::default()
                    }));
                }
                line.last = draw(line.last, claim.floor);
                line.spots.push(Spot {
                    id: claim.id,
                    seq: line.last,
                    mode: claim.mode,
                    note: claim.note.clone(),
                    taken: now,
                    deadline: (crash == Crash::Lease).then_some(now),
                    stopped: false,
                });
                line.spots.len() - 1
            }
        };
        prolong(&mut line.spots[at], now, ttl);
        let seat = Seat { seq: line.spots[at].seq, incarnation: Incarnation(0) };
        if holds(&line.modes(), at) {
            return Ok(Attempt::Granted(Grant { seat, ttl: said(crash, ttl), remembers: None }));
        }
        let ahead = &line.spots[..at];
        Ok(Attempt::Busy(Busy {
            seat: Some(seat),
            ttl: said(crash, ttl),
            ahead: u32::try_from(at).ok(),
            lapses_in: ahead.iter().filter_map(|spot| spot.deadline).min().map(|end| end.since(now)),
            ..Busy::default()
        }))
    }

    /// `Engine::renew`, for one hold.
    pub fn renew(&mut self, hold: Held<'_>, now: Moment) -> Renewal {
        let crash = self.crash;
        let line = self.line_at(&hold.claim.key, now);
        line.last = line.last.max(hold.claim.floor);
        match line.find_hold(hold) {
            Some(at) => {
                prolong(&mut line.spots[at], now, hold.claim.ttl.get());
                Renewal::Renewed(said(crash, hold.claim.ttl.get()))
            }
            None => Renewal::Lost,
        }
    }

    /// `Engine::downgrade`.
    pub fn downgrade(&mut self, hold: Held<'_>, now: Moment) -> Renewal {
        let crash = self.crash;
        let line = self.line_at(&hold.claim.key, now);
        match line.find_hold(hold) {
            Some(at) => {
                line.spots[at].mode = Mode::Shared;
                prolong(&mut line.spots[at], now, hold.claim.ttl.get());
                Renewal::Renewed(said(crash, hold.claim.ttl.get()))
            }
            None => Renewal::Lost,
        }
    }

    /// `Engine::release`.
    pub fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        self.evicted.remove(&claim.id);
        let line = self.line_at(&claim.key, now);
        match line.find(claim.id) {
            Some(at) => {
                line.spots.remove(at);
                Released::Freed
            }
            None => Released::NotHeld,
        }
    }

    /// `Engine::evict`.
    pub fn evict(&mut self, eviction: &Eviction, now: Moment) -> Evicted {
        let holds = self.holds;
        let line = self.line_at(&eviction.key, now);
        let Some(at) = line.find(eviction.id).filter(|&at| line.spots[at].seq == eviction.seq) else {
            return Evicted::Gone;
        };
        let evicted = if eviction.when == When::Gently && holds(&line.modes(), at) {
            line.spots[at].stopped = true;
            Evicted::Stopped
        } else {
            line.spots.remove(at);
            Evicted::Freed
        };
        self.evicted.insert(eviction.id);
        evicted
    }

    /// `Engine::line`.
    #[must_use]
    pub fn show(&self, filter: &Filter, now: Moment) -> Vec<Place> {
        let mut places = Vec::new();
        for (key, line) in self.lines.iter().filter(|(key, _)| filter.shows(key)) {
            let mut line = line.clone();
            line.purge(now);
            let modes = line.modes();
            places.extend(line.spots.into_iter().enumerate().map(|(at, spot)| Place {
                key: key.clone(),
                id: spot.id,
                seq: spot.seq,
                mode: spot.mode,
                standing: if (self.holds)(&modes, at) { Standing::Holds } else { Standing::Waits },
                note: spot.note,
                age: now.since(spot.taken),
                lease_left: spot.deadline.map(|end| end.since(now)),
            }));
        }
        places.truncate(filter.limit());
        places
    }
}

/// How long a claim is told that its place lives.
fn said(crash: Crash, ttl: Duration) -> Option<Duration> {
    (crash != Crash::Process).then_some(ttl)
}

/// A lease is never shortened, and that of an evicted place never prolonged.
fn prolong(spot: &mut Spot, now: Moment, ttl: Duration) {
    if let Some(deadline) = spot.deadline.filter(|_| !spot.stopped) {
        spot.deadline = Some(deadline.max(now + ttl));
    }
}
