//! The verbs: what is done to a line while its file is locked.
//!
//! Between the lock and the end of a verb nothing is awaited, but for the first grant of a key and of an hour.
//! So a verb whose future was dropped either ran or never will.

use std::{fs::File, io, ops::Range, time::Duration};

use tenure_core::{
    Attempt, BootClock, Busy, Claim, ClaimId, Clock, Error, ErrorKind, Evicted, Eviction, Grant, Held, Key,
    Mode, Moment, Op, Patience, Released, Renewal, Result, Seat, Seq, Ttl, When, line,
};

use super::{
    FileEngine, control,
    line::Line,
    lines::Missing,
    presence::Letter,
    record::{Nonce, Record, State},
    trouble::{damaged, trouble},
    wait::Locked,
};

/// How long a verb may still take.
#[derive(Clone, Copy)]
pub(super) struct Limit(Moment);

impl Limit {
    pub(super) fn of(ttl: Ttl) -> Self {
        Self(BootClock.now() + ttl.renew_every())
    }

    fn left(self) -> Duration {
        self.0.since(BootClock.now())
    }
}

enum Step {
    Done(Attempt),
    /// The number to be given is above what is on disk.
    Raise(Seq),
}

impl FileEngine {
    pub(super) async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        let limit = Limit::of(claim.ttl);
        let locked = self.lines.lock(&claim.key, Missing::Create, limit.left(), Op::Attempt).await?;
        let mut locked =
            locked.ok_or_else(|| control::removed(Op::Attempt, &self.lines.shown(&claim.key)))?;
        if !locked.data.is_begun() {
            let floor = self.control.floor(limit.left(), Op::Attempt).await?;
            let Locked { file, data } = &mut locked;
            data.begin(file, &claim.key, floor).map_err(|err| self.failed(Op::Attempt, &claim.key, err))?;
        }
        loop {
            match self.step(&mut locked, claim)? {
                Step::Done(attempt) => return Ok(attempt),
                // Ends: the next number is below the new ceiling by most of an hour, or the time is up.
                Step::Raise(seq) => self.control.allow(seq, limit.left(), Op::Attempt).await?,
            }
        }
    }

    fn step(&self, locked: &mut Locked<Line>, claim: &Claim) -> Result<Step> {
        let failed = |err| self.failed(Op::Attempt, &claim.key, err);
        let (file, line) = (&*locked.file, &mut *locked.data);
        let mut mine = line.find(claim.id);
        // A place that was stopped goes on blocking, but nobody may begin to believe in it.
        let stopped = mine.is_some_and(|at| line.places[at].state == State::Stopped);
        if stopped || line.grave(claim.id).is_some() {
            return Err(Error::new(
                ErrorKind::Lost,
                Op::Attempt,
                "an operator evicted this claim from the line",
            )
            .not_applied());
        }
        if let Some(at) = mine
            && !self.peers.is_alive(&line.places[at].nonce).map_err(failed)?
        {
            line.remove(file, at).map_err(failed)?;
            mine = None;
        }
        let mode = mine.map_or(claim.mode, |at| line.places[at].mode);
        let (at, blockers) =
            self.clear(file, line, mine.unwrap_or(line.places.len()), mode).map_err(failed)?;
        let own = self.presence.nonce;
        let place = match mine {
            Some(_) => line.places[at],
            None if blockers.is_some() && claim.patience == Patience::Try => {
                self.settle(line, None);
                return Ok(Step::Done(Attempt::Busy(busy(line, at, mode, None))));
            }
            None => {
                let seq = line
                    .last
                    .next(claim.floor, (self.wall)().min(Seq::MAX.get() - 1))
                    .ok_or_else(|| control::used_up(Op::Attempt))?;
                if !self.control.allows(seq) {
                    self.settle(line, None);
                    return Ok(Step::Raise(seq));
                }
                if line.is_full() {
                    self.drop_graves(file, line).map_err(failed)?;
                }
                let taken = BootClock.now().get().as_nanos() as u64;
                let (state, id, pid) = (State::Live, claim.id, self.pid);
                let record = Record { slot: 0, state, mode, seq, id, nonce: own, pid, taken, held: false };
                line.append(file, claim, record).map_err(failed)?;
                record
            }
        };
        self.settle(line, Some(claim.id));
        let behind = blockers.clone().map(|range| nonces(line, range, own)).unwrap_or_default();
        if place.nonce == own {
            self.book.enter(claim.id, place.seq, self.control.known_evictions(), behind.clone());
        }
        for nonce in &behind {
            // After it was entered, so that a death between the two is not missed. Where it cannot be watched,
            // for want of open files, the place stands all the same, and its owner asks again in time.
            if matches!(self.peers.watch(nonce), Ok(false)) {
                self.book.hear_death(nonce);
            }
        }
        let seat = self.seat(place.seq);
        Ok(Step::Done(match blockers {
            None => Attempt::Granted(Grant { seat, ttl: None, remembers: None }),
            Some(_) => Attempt::Busy(busy(line, at, mode, Some(seat))),
        }))
    }

    /// Frees dead places that stand between the place `at` (or the end of the line) and its hold, until it holds
    /// or somebody who lives blocks it. Returns where the place is then, and who blocks it.
    ///
    /// Only blockers are asked whether they live, so a long line costs no more than a short one. Whoever waits behind
    /// a dead place watches it, and frees it; one for permits that nobody watches yet is found at the next attempt
    /// of those behind it, a third of their ttl later at most.
    fn clear(
        &self,
        file: &File,
        line: &mut Line,
        mut at: usize,
        mode: Mode,
    ) -> io::Result<(usize, Option<Range<usize>>)> {
        let mut modes = std::mem::take(&mut line.modes);
        let cleared = loop {
            modes.clear();
            modes.extend(line.places[..at].iter().map(|place| place.mode));
            if line::would_hold(modes.iter().copied(), mode) {
                break Ok((at, None));
            }
            let blockers = line::blockers(&modes, mode);
            let before = at;
            for blocker in blockers.clone().rev() {
                if !self.peers.is_alive(&line.places[blocker].nonce)? {
                    line.remove(file, blocker)?;
                    at -= 1;
                }
            }
            if at == before {
                break Ok((at, Some(blockers)));
            }
        };
        line.modes = modes;
        cleared
    }

    /// Tells those who hold now and did not before.
    fn settle(&self, line: &mut Line, except: Option<ClaimId>) {
        let holders = line::holders(line.places.iter().map(|place| place.mode));
        for place in line.places[..holders].iter_mut().filter(|place| !place.held) {
            place.held = true;
            if except != Some(place.id) {
                self.peers.tell(&place.nonce, Letter::Holds(place.id, place.seq));
            }
        }
    }

    fn drop_graves(&self, file: &File, line: &mut Line) -> io::Result<()> {
        for at in (0..line.graves.len()).rev() {
            if !self.peers.is_alive(&line.graves[at].nonce)? {
                line.remove_grave(file, at)?;
            }
        }
        Ok(())
    }

    /// Looks for a hold in its line, and raises its key's last number to the floor.
    pub(super) async fn look(&self, hold: &Held<'_>, limit: Limit) -> Result<bool> {
        let key = &hold.claim.key;
        let locked = self.lines.lock(key, Missing::Leave, limit.left(), Op::Renew).await?;
        let Some(mut locked) = locked else { return Ok(false) };
        if hold.claim.floor > locked.data.last {
            if !self.control.allows(hold.claim.floor) {
                self.control.allow(hold.claim.floor, limit.left(), Op::Renew).await?;
            }
            let Locked { file, data } = &mut locked;
            data.raise(file, hold.claim.floor).map_err(|err| self.failed(Op::Renew, key, err))?;
        }
        let line = &*locked.data;
        Ok(line.find(hold.claim.id).is_some_and(|at| is_held(&line.places[at], hold.seq)))
    }

    pub(super) async fn release_(&self, claim: &Claim) -> Result<Released> {
        let failed = |err| self.failed(Op::Release, &claim.key, err);
        let limit = Limit::of(claim.ttl);
        let locked = self.lines.lock(&claim.key, Missing::Leave, limit.left(), Op::Release).await?;
        self.count_release();
        let Some(mut locked) = locked else {
            self.book.strike(claim.id);
            return Ok(Released::NotHeld);
        };
        let (file, line) = (&*locked.file, &mut *locked.data);
        let released = if let Some(at) = line.find(claim.id) {
            line.remove(file, at).map_err(failed)?;
            self.settle(line, None);
            Released::Freed
        } else {
            if let Some(at) = line.grave(claim.id) {
                line.remove_grave(file, at).map_err(failed)?;
            }
            Released::NotHeld
        };
        let _ = line.trim(file); // a chore; the release has been made
        drop(locked);
        self.book.strike(claim.id);
        Ok(released)
    }

    pub(super) async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let key = &hold.claim.key;
        let failed = |err| self.failed(Op::Downgrade, key, err);
        let limit = Limit::of(hold.claim.ttl);
        let locked = self.lines.lock(key, Missing::Leave, limit.left(), Op::Downgrade).await?;
        let Some(mut locked) = locked else { return Ok(Renewal::Lost) };
        let (file, line) = (&*locked.file, &mut *locked.data);
        let Some(at) = line.find(hold.claim.id).filter(|&at| is_held(&line.places[at], hold.seq)) else {
            return Ok(Renewal::Lost);
        };
        match line.places[at].mode {
            Mode::Shared => {}
            Mode::Exclusive => {
                line.weaken(file, at).map_err(failed)?;
                self.settle(line, Some(hold.claim.id));
            }
            Mode::Permits(_) => {
                return Err(
                    Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade)
                );
            }
        }
        Ok(Renewal::Renewed(None))
    }

    pub(super) async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let failed = |err| self.failed(Op::Evict, &eviction.key, err);
        let limit = Limit::of(Ttl::default());
        let locked = self.lines.lock(&eviction.key, Missing::Leave, limit.left(), Op::Evict).await?;
        let Some(mut locked) = locked else { return Ok(Evicted::Gone) };
        let (file, line) = (&*locked.file, &mut *locked.data);
        let Some(at) = line.find(eviction.id).filter(|&at| line.places[at].seq == eviction.seq) else {
            return Ok(Evicted::Gone);
        };
        let place = line.places[at];
        if !self.peers.is_alive(&place.nonce).map_err(failed)? {
            line.remove(file, at).map_err(failed)?;
            self.settle(line, None);
            return Ok(Evicted::Gone);
        }
        let (at, blockers) = self.clear(file, line, at, place.mode).map_err(failed)?;
        self.settle(line, None);
        self.control.count_eviction(limit.left()).await?;
        // A waiter believes in nothing, so there is nothing to wait for.
        let (file, line) = (&*locked.file, &mut *locked.data);
        let evicted = if eviction.when == When::Gently && blockers.is_none() {
            line.stop(file, at).map_err(failed)?;
            Evicted::Stopped
        } else {
            line.bury(file, at).map_err(failed)?;
            self.settle(line, None);
            Evicted::Freed
        };
        self.peers.tell(&place.nonce, Letter::Evicted(place.id, place.seq));
        Ok(evicted)
    }

    pub(super) fn seat(&self, seq: Seq) -> Seat {
        Seat { seq, incarnation: self.control.incarnation() }
    }

    pub(super) fn failed(&self, op: Op, key: &Key, err: io::Error) -> Error {
        let shown = self.lines.shown(key);
        match err.kind() {
            io::ErrorKind::InvalidData => damaged(op, format_args!("the line file {shown}"), err),
            _ => trouble(op, format!("cannot use the line file {shown}"), err),
        }
    }
}

fn is_held(place: &Record, seq: Seq) -> bool {
    place.seq == seq && place.state == State::Live
}

fn busy(line: &Line, at: usize, mode: Mode, seat: Option<Seat>) -> Busy {
    let ahead = &line.places[..at];
    Busy {
        seat,
        ttl: None,
        ahead: u32::try_from(at).ok(),
        blocker: ahead.iter().rev().map(|place| place.mode).find(|&other| !line::compatible(other, mode)),
        lapses_in: None,
    }
}

/// Whose deaths a waiter behind these places must hear of.
fn nonces(line: &Line, blockers: Range<usize>, own: Nonce) -> Vec<Nonce> {
    let mut nonces: Vec<_> =
        line.places[blockers].iter().map(|place| place.nonce).filter(|nonce| *nonce != own).collect();
    nonces.sort_unstable();
    nonces.dedup();
    nonces
}
