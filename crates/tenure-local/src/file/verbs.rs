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
            let (file, line) = (&*locked.file, &mut *locked.data);
            line.begin(file, &claim.key, floor).map_err(|err| self.failed(Op::Attempt, &claim.key, err))?;
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
        let own = self.presence.nonce;
        let mut mine = None;
        if let Some(at) = line.find(file, claim.id).map_err(failed)? {
            // A place that was stopped goes on blocking, but nobody may begin to believe in it.
            if line.state(at) != Some(State::Live) {
                return Err(Error::new(
                    ErrorKind::Lost,
                    Op::Attempt,
                    "an operator evicted this claim from the line",
                )
                .not_applied());
            }
            let place = line.record(file, at).map_err(failed)?;
            if self.peers.is_alive(&place.nonce).map_err(failed)? {
                mine = Some((at, place));
            } else {
                line.remove(file, at).map_err(failed)?;
            }
        }
        let (at, mode) = mine.map_or((line.end(), claim.mode), |(at, place)| (at, place.mode));
        let blockers = self.clear(file, line, at, mode).map_err(failed)?;
        self.settle(file, line, Some(claim.id));
        let mut behind = Vec::new();
        let mut waits = None;
        if let Some(blockers) = blockers {
            // Before the place is taken, by which indices change.
            behind = nonces(file, line, &blockers, own).map_err(failed)?;
            waits = Some(busy(file, line, at, mode, &blockers).map_err(failed)?);
        }
        let place = match (mine, waits) {
            (Some((_, place)), _) => place,
            (None, Some(busy)) if claim.patience == Patience::Try => {
                return Ok(Step::Done(Attempt::Busy(busy)));
            }
            (None, _) => {
                let seq = line
                    .last
                    .next(claim.floor, (self.wall)().min(Seq::MAX.get() - 1))
                    .ok_or_else(|| control::used_up(Op::Attempt))?;
                if !self.control.allows(seq) {
                    return Ok(Step::Raise(seq));
                }
                if line.is_full() {
                    self.drop_graves(file, line).map_err(failed)?;
                }
                let taken = BootClock.now().get().as_nanos() as u64;
                let (state, id, pid) = (State::Live, claim.id, self.pid);
                let record = Record { state, mode, seq, id, nonce: own, pid, taken };
                line.append(file, claim, &record).map_err(failed)?;
                record
            }
        };
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
        Ok(Step::Done(match waits {
            None => Attempt::Granted(Grant { seat, ttl: None, remembers: None }),
            Some(busy) => Attempt::Busy(Busy { seat: Some(seat), ..busy }),
        }))
    }

    /// Frees dead places that stand between the place `at` (or the end of the line) and its hold, until it holds
    /// or somebody who lives blocks it. Returns who does.
    ///
    /// Only blockers are asked whether they live, so a long line costs no more than a short one. Whoever waits behind
    /// a dead place watches it, and frees it; one for permits that nobody watches yet is found at the next attempt
    /// of those behind it, a third of their ttl later at most.
    fn clear(&self, file: &File, line: &mut Line, at: usize, mode: Mode) -> io::Result<Option<Range<usize>>> {
        loop {
            let Some(blockers) = line.blockers(file, at, mode)? else { return Ok(None) };
            let mut all_live = true;
            for blocker in blockers.clone().rev().filter(|&at| line.is_in_line(at)).collect::<Vec<_>>() {
                let place = line.record(file, blocker)?;
                if !self.peers.is_alive(&place.nonce)? {
                    line.remove(file, blocker)?;
                    all_live = false;
                }
            }
            if all_live {
                return Ok(Some(blockers));
            }
        }
    }

    /// Tells those who hold now and did not before. If their places cannot be read, they find that out themselves when they
    /// ask again; what was done before stays done.
    fn settle(&self, file: &File, line: &mut Line, except: Option<ClaimId>) {
        for place in line.new_holders(file).unwrap_or_default() {
            if except != Some(place.id) {
                self.peers.tell(&place.nonce, Letter::Holds(place.id, place.seq));
            }
        }
    }

    /// Frees the dead at the front of the line. Of several who hold, whoever waits behind them watches the nearest alone; so
    /// it is for the last of them that lives to see who of the others died.
    fn clear_front(&self, file: &File, line: &mut Line) -> io::Result<()> {
        while let Some(first) = line.first() {
            let place = line.record(file, first)?;
            if self.peers.is_alive(&place.nonce)? {
                break;
            }
            line.remove(file, first)?;
        }
        Ok(())
    }

    fn drop_graves(&self, file: &File, line: &mut Line) -> io::Result<()> {
        for at in (0..line.end()).rev() {
            if line.state(at) == Some(State::Grave) {
                let grave = line.record(file, at)?;
                if !self.peers.is_alive(&grave.nonce)? {
                    line.remove_grave(file, at)?;
                }
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
            let (file, line) = (&*locked.file, &mut *locked.data);
            line.raise(file, hold.claim.floor).map_err(|err| self.failed(Op::Renew, key, err))?;
        }
        let place = find_held(&locked.file, &mut locked.data, hold)
            .map_err(|err| self.failed(Op::Renew, key, err))?;
        Ok(place.is_some())
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
        let released = match line.find(file, claim.id).map_err(failed)? {
            Some(at) if line.is_in_line(at) => {
                let is_alone = line.mode(file, at).map_err(failed)? == Mode::Exclusive;
                line.remove(file, at).map_err(failed)?;
                if !is_alone {
                    let _ = self.clear_front(file, line); // if not here, whoever waits does it in time
                }
                self.settle(file, line, None);
                Released::Freed
            }
            Some(grave) => {
                line.remove_grave(file, grave).map_err(failed)?;
                Released::NotHeld
            }
            None => Released::NotHeld,
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
        let Some((at, place)) = find_held(file, line, &hold).map_err(failed)? else {
            return Ok(Renewal::Lost);
        };
        match place.mode {
            Mode::Shared => {}
            Mode::Exclusive => {
                line.weaken(file, at).map_err(failed)?;
                self.settle(file, line, Some(hold.claim.id));
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
        let found = line.find(file, eviction.id).map_err(failed)?.filter(|&at| line.is_in_line(at));
        let Some(at) = found else { return Ok(Evicted::Gone) };
        let place = line.record(file, at).map_err(failed)?;
        if place.seq != eviction.seq {
            return Ok(Evicted::Gone);
        }
        if !self.peers.is_alive(&place.nonce).map_err(failed)? {
            line.remove(file, at).map_err(failed)?;
            self.settle(file, line, None);
            return Ok(Evicted::Gone);
        }
        let blockers = self.clear(file, line, at, place.mode).map_err(failed)?;
        self.settle(file, line, None);
        self.control.count_eviction(limit.left()).await?;
        // A waiter believes in nothing, so there is nothing to wait for.
        let (file, line) = (&*locked.file, &mut *locked.data);
        let evicted = if eviction.when == When::Gently && blockers.is_none() {
            line.stop(file, at).map_err(failed)?;
            Evicted::Stopped
        } else {
            line.bury(file, at).map_err(failed)?;
            self.settle(file, line, None);
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

/// The place of a hold, if it is there and was not stopped.
fn find_held(file: &File, line: &mut Line, hold: &Held<'_>) -> io::Result<Option<(usize, Record)>> {
    let Some(at) = line.find(file, hold.claim.id)? else { return Ok(None) };
    let place = line.record(file, at)?;
    Ok((place.seq == hold.seq && place.state == State::Live).then_some((at, place)))
}

/// What a claim that waits behind these blockers is told.
fn busy(file: &File, line: &mut Line, at: usize, mode: Mode, blockers: &Range<usize>) -> io::Result<Busy> {
    let nearest = line.mode(file, blockers.start)?;
    Ok(Busy {
        seat: None,
        ttl: None,
        ahead: u32::try_from(line.ahead(at)).ok(),
        blocker: (!line::compatible(nearest, mode)).then_some(nearest),
        lapses_in: None,
    })
}

/// Whose deaths a waiter behind these places must hear of.
fn nonces(file: &File, line: &mut Line, blockers: &Range<usize>, own: Nonce) -> io::Result<Vec<Nonce>> {
    let mut nonces = Vec::new();
    for at in blockers.clone() {
        if line.is_in_line(at) {
            nonces.push(line.record(file, at)?.nonce);
        }
    }
    nonces.retain(|nonce| *nonce != own);
    nonces.sort_unstable();
    nonces.dedup();
    Ok(nonces)
}
