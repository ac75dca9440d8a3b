//! Taking a place, keeping it, and finding out whether it holds.

use std::time::Duration;

use tenure_core::{
    Attempt, BootClock, Busy, Claim, Clock, Error, ErrorKind, Grant, Moment, Op, Patience, Result, Seq,
};

use crate::{
    commands::{Cas, Commands},
    engine::{KEPT, MemcachedEngine, ROUNDS},
    line::{Line, MOST, Place, number},
    link::Link,
    names::Lease,
    reply::Reply,
    seats::Seat,
    trouble::{crowded, nonsense, refused},
};

const OP: Op = Op::Attempt;

/// What is in a lease item.
pub(crate) const ALIVE: &[u8] = b"1";
/// An operator asked the holder to stop: it lives to the end of its lease.
pub(crate) const STOPPED: &[u8] = b"1s";
/// An operator took the place away, or a release that came before its attempt.
pub(crate) const DEAD: &[u8] = b"0";

/// The longest that leases ahead are taken for alive without looking.
const CALM: Duration = Duration::from_secs(1);
/// How many of the nearest places ahead a waiter looks at, besides those who hold. Of those who died further ahead it
/// hears when it gets there.
const LOOK: usize = 64;

/// What a lease item says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Stopped,
    Dead,
    /// There is none, and never will be.
    Gone,
}

impl Life {
    pub(crate) fn of(reply: &Reply) -> Option<Self> {
        match reply {
            Reply::Found(item) if item.value == ALIVE => Some(Self::Alive),
            Reply::Found(item) if item.value.starts_with(STOPPED) => Some(Self::Stopped),
            Reply::Found(item) if item.value == DEAD => Some(Self::Dead),
            Reply::Missing => Some(Self::Gone),
            _ => None,
        }
    }

    pub(crate) fn lives(self) -> bool {
        matches!(self, Self::Alive | Self::Stopped)
    }
}

/// How many seconds an item must be given to live for this long: a server counts in full seconds, of which the first
/// may be nearly over.
pub(crate) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0) + 1
}

/// A line as it was read.
pub(crate) struct Read {
    pub(crate) line: Line,
    /// Its version; none if there is no item.
    pub(crate) cas: Option<Cas>,
}

impl MemcachedEngine {
    pub(crate) async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        let link = self.links.of(&claim.key).await.map_err(|err| err.in_op(OP))?;
        link.may_number()?;
        let name = self.names.line(&claim.key);
        let seat = match self.seats.get(claim.id) {
            Some(seat) => seat,
            None => {
                let seat = self.new_seat(claim);
                if let Some(grant) = self.attempt_alone(&link, claim, &name, seat).await? {
                    return Ok(grant);
                }
                seat
            }
        };
        // Apart, so that an attempt on a free key is a small thing to make.
        Box::pin(self.attempt_in_line(&link, claim, &name, seat)).await
    }

    /// Draws a lease item for a place of this claim. Noted before it is asked for, so that a release knows it even if
    /// the attempt is never answered.
    fn new_seat(&self, claim: &Claim) -> Seat {
        let now = BootClock.now();
        let until = now + Duration::from_secs(seconds(claim.ttl.get()));
        let seat = Seat { lease: Lease::fresh(), until, alone: None, calm: None };
        self.seats.put(claim.id, seat, now);
        seat
    }

    /// Takes the first place of a line that nobody has, in one trip. Nothing if there is a line.
    async fn attempt_alone(
        &self,
        link: &Link,
        claim: &Claim,
        name: &str,
        seat: Seat,
    ) -> Result<Option<Attempt>> {
        let lease = self.names.lease(claim.id, seat.lease);
        let mut line = Line::empty(&claim.key);
        line.places.push(Place::new(claim, seat.lease, link.server_now()));
        let mut ask = Commands::default();
        ask.add(&lease, seconds(claim.ttl.get()), ALIVE);
        ask.add(name, KEPT, &line.write(link.started()));
        match &link.ask(OP, ask).await?[..] {
            [Reply::Done(_), Reply::Done(cas)] => {
                let seq = number(link.started(), *cas).ok_or_else(|| nonsense(OP, &link.address))?;
                let now = BootClock.now();
                let until = now + Duration::from_secs(seconds(claim.ttl.get()));
                self.seats.put(claim.id, Seat { until, alone: Some(link.cas(*cas)), ..seat }, now);
                Ok(Some(self.granted(link, claim, seq)))
            }
            [Reply::Done(_), Reply::NotStored] => Ok(None),
            [first, second] => Err(Box::pin(self.take_back(link, name, &lease, [first, second])).await),
            _ => Err(nonsense(OP, &link.address)),
        }
    }

    /// Removes what one of two commands left when the other was refused.
    async fn take_back(&self, link: &Link, name: &str, lease: &str, replies: [&Reply; 2]) -> Error {
        let said = replies.iter().find_map(|reply| match reply {
            Reply::Refused(said) => Some(said),
            _ => None,
        });
        let Some(said) = said else { return nonsense(OP, &link.address) };
        let mut ask = Commands::default();
        ask.delete(lease);
        if let Reply::Done(cas) = replies[1] {
            ask.delete_if(name, link.cas(*cas));
        }
        match link.ask(OP, ask).await {
            Ok(_) => refused(OP, &link.address, said),
            Err(err) => err,
        }
    }

    /// Takes a place behind others, or looks after the one it has.
    async fn attempt_in_line(
        &self,
        link: &Link,
        claim: &Claim,
        name: &str,
        mut seat: Seat,
    ) -> Result<Attempt> {
        for _ in 0..ROUNDS {
            let lease = self.names.lease(claim.id, seat.lease);
            let mut ask = Commands::default();
            ask.get(name);
            ask.get_and_touch(&lease, self.lasting(claim, &seat));
            let replies = link.ask(OP, ask).await?;
            let now = BootClock.now();
            let [first, second] = &replies[..] else { return Err(nonsense(OP, &link.address)) };
            let mut read = self.read(OP, link, &claim.key, first)?;
            let life = Life::of(second).ok_or_else(|| nonsense(OP, &link.address))?;
            let mut at = read.line.find(claim.id);
            match life {
                Life::Alive => {
                    seat.until = seat.until.max(now + Duration::from_secs(seconds(claim.ttl.get())));
                    self.seats.put(claim.id, seat, now);
                }
                Life::Stopped | Life::Dead => {
                    self.put_back(link, &lease, &seat).await;
                    let message = "an operator evicted this claim from the line";
                    return Err(Error::new(ErrorKind::Lost, OP, message).not_applied());
                }
                Life::Gone => {}
            }
            if let Some(other) = at.map(|at| read.line.places[at].lease).filter(|&other| other != seat.lease)
            {
                // It has a place that this client has not heard of. The next round looks after that one.
                self.forget(link, &lease).await;
                seat = Seat { lease: other, alone: None, calm: None, ..self.new_seat(claim) };
                self.seats.put(claim.id, seat, now);
                continue;
            }
            if life == Life::Gone {
                // What it had, if anything, is over: it comes back at the end, under another lease.
                if let Some(old) = at.take() {
                    read.line.places.remove(old);
                }
                seat = self.new_seat(claim);
            }
            if let Some(attempt) = self.settle(link, claim, name, &mut seat, (read, at, life), now).await? {
                return Ok(attempt);
            }
        }
        Err(crowded(OP))
    }

    /// Purges the line, takes a place in it if there is none, and says whether it holds. Nothing if somebody else
    /// changed the line meanwhile.
    async fn settle(
        &self,
        link: &Link,
        claim: &Claim,
        name: &str,
        seat: &mut Seat,
        (mut read, at, life): (Read, Option<usize>, Life),
        now: Moment,
    ) -> Result<Option<Attempt>> {
        let mut changed = life == Life::Gone;
        let lapses = match seat.calm {
            // It waits, and nobody ahead of it can have died yet.
            Some((calm, lapses)) if at.is_some() && now < calm => Some(lapses),
            _ => {
                let ahead = at.unwrap_or(read.line.places.len());
                let (removed, lapses) = self.purge(link, &mut read.line, ahead).await?;
                changed |= removed;
                lapses
            }
        };
        let mut at = read.line.find(claim.id);
        let lease = self.names.lease(claim.id, seat.lease);
        if at.is_none() {
            if claim.patience == Patience::Try && !read.line.would_hold(claim.mode) {
                self.seats.take(claim.id);
                if life != Life::Gone {
                    self.forget(link, &lease).await;
                }
                let ahead = read.line.places.len();
                return Ok(Some(Attempt::Busy(busy(&read.line, ahead, claim, None, lapses))));
            }
            if read.line.places.len() >= MOST {
                self.forget(link, &lease).await;
                let message = format!("{MOST} are in line already");
                return Err(Error::new(ErrorKind::Unavailable, OP, message).not_applied());
            }
            at = Some(read.line.places.len());
            read.line.places.push(Place::new(claim, seat.lease, link.server_now()));
            changed = true;
        }
        let at = at.unwrap_or(0);
        if changed {
            let mut ask = Commands::default();
            if life == Life::Gone {
                ask.add(&lease, seconds(claim.ttl.get()), ALIVE);
            }
            let Some(cas) = self.store(link, name, &read, ask).await? else { return Ok(None) };
            let own = number(link.started(), cas.number).ok_or_else(|| nonsense(OP, &link.address))?;
            read.line.places[at].seq.get_or_insert(own);
            read.cas = Some(cas);
        }
        let place = &read.line.places[at];
        let seq = place.seq.ok_or_else(|| nonsense(OP, &link.address))?;
        seat.alone = read.cas.filter(|_| read.line.places.len() == 1);
        if at < read.line.holders() {
            seat.calm = None;
            self.seats.put(claim.id, *seat, now);
            return Ok(Some(self.granted(link, claim, seq)));
        }
        seat.calm = lapses.map(|lapses| (lapses.min(now + CALM), lapses));
        self.seats.put(claim.id, *seat, now);
        let seat = tenure_core::Seat { seq, incarnation: link.incarnation() };
        Ok(Some(Attempt::Busy(busy(&read.line, at, claim, Some(seat), lapses))))
    }

    /// Writes a line that was changed, after these commands. Nothing if it is not what it was when it was read.
    async fn store(&self, link: &Link, name: &str, read: &Read, mut ask: Commands) -> Result<Option<Cas>> {
        let value = read.line.write(link.started());
        match read.cas {
            Some(cas) => ask.swap(name, cas, KEPT, &value),
            None => ask.add(name, KEPT, &value),
        }
        let replies = link.ask(OP, ask).await?;
        let lease = if let [lease, _] = &replies[..] { Some(lease) } else { None };
        match (lease, replies.last()) {
            (None | Some(Reply::Done(_)), Some(Reply::Done(cas))) => Ok(Some(link.cas(*cas))),
            (None | Some(Reply::Done(_)), Some(Reply::Changed | Reply::Missing | Reply::NotStored)) => {
                Ok(None)
            }
            (_, Some(Reply::Refused(said))) => Err(refused(OP, &link.address, said)),
            // A place without a lease is a dead one: whoever comes next takes it out.
            (Some(Reply::Refused(said)), _) => Err(refused(OP, &link.address, said)),
            _ => Err(nonsense(OP, &link.address)),
        }
    }

    /// Looks at the leases of the first places, as many as are `ahead`, and takes out the dead. Says whether there
    /// were any, and when the first of the living ends.
    pub(crate) async fn purge(
        &self,
        link: &Link,
        line: &mut Line,
        ahead: usize,
    ) -> Result<(bool, Option<Moment>)> {
        let mut removed = false;
        let mut known: Vec<Lease> = Vec::new();
        let mut lapses: Option<Moment> = None;
        let mut ahead = ahead;
        // Those who now hold may be dead too.
        for _ in 0..=MOST {
            let holders = line.holders();
            let look = |at: usize| at < holders || at + LOOK >= ahead;
            let unknown: Vec<_> = (0..ahead)
                .filter(|&at| look(at) && !known.contains(&line.places[at].lease))
                .map(|at| (line.places[at].id, line.places[at].lease))
                .collect();
            if unknown.is_empty() {
                break;
            }
            let mut ask = Commands::default();
            for &(id, lease) in &unknown {
                ask.get(&self.names.lease(id, lease));
            }
            // Before it is asked: a lease must not be said to end later than it does.
            let sent = BootClock.now();
            let replies = link.ask(OP, ask).await?;
            for (&(_, lease), reply) in unknown.iter().zip(&replies) {
                let life = Life::of(reply).ok_or_else(|| nonsense(OP, &link.address))?;
                if life.lives() {
                    known.push(lease);
                    let ends = sent + lasts(reply);
                    lapses = Some(lapses.map_or(ends, |lapses| lapses.min(ends)));
                } else {
                    line.places.retain(|place| place.lease != lease);
                    ahead -= 1;
                    removed = true;
                }
            }
        }
        Ok((removed, lapses))
    }

    /// How many seconds to touch a lease item with: a lease is never shortened.
    pub(crate) fn lasting(&self, claim: &Claim, seat: &Seat) -> u64 {
        let left = seat.until.since(BootClock.now());
        seconds(claim.ttl.get()).max(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// Gives a lease item the end that it had before it was touched.
    pub(crate) async fn put_back(&self, link: &Link, lease: &str, seat: &Seat) {
        let left = seat.until.since(BootClock.now());
        let mut ask = Commands::default();
        // Its owner will not ask again, so it does not matter if this is lost.
        ask.get_and_touch(lease, (left.as_secs() + u64::from(left.subsec_nanos() > 0)).max(1));
        let _ = link.ask(OP, ask).await;
    }

    /// Removes a lease item that no line names.
    async fn forget(&self, link: &Link, lease: &str) {
        let mut ask = Commands::default();
        ask.delete(lease);
        // It ends by itself.
        let _ = link.ask(OP, ask).await;
    }

    fn granted(&self, link: &Link, claim: &Claim, seq: Seq) -> Attempt {
        let seat = tenure_core::Seat { seq, incarnation: link.incarnation() };
        // It may have forgotten a lock a moment ago, and would not know.
        Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: Some(Duration::ZERO) })
    }
}

/// How long an item lives at least.
pub(crate) fn lasts(reply: &Reply) -> Duration {
    match reply {
        Reply::Found(item) => Duration::from_secs(item.seconds.unwrap_or(0).saturating_sub(1)),
        _ => Duration::ZERO,
    }
}

fn busy(
    line: &Line,
    ahead: usize,
    claim: &Claim,
    seat: Option<tenure_core::Seat>,
    lapses: Option<Moment>,
) -> Busy {
    let mode = line.places.get(ahead).map_or(claim.mode, |place| place.mode);
    let before = line.places[..ahead].iter().rev().map(|place| place.mode);
    Busy {
        seat,
        ttl: seat.map(|_| claim.ttl.get()),
        ahead: u32::try_from(ahead).ok(),
        blocker: before.clone().find(|&other| !tenure_core::line::compatible(other, mode)),
        lapses_in: lapses.map(|lapses| lapses.since(BootClock.now())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_never_short_of_its_time() {
        for (ttl, given) in [(2000, 3), (2001, 4), (2999, 4), (3000, 4), (60_000, 61)] {
            assert_eq!(seconds(Duration::from_millis(ttl)), given, "{ttl} ms");
        }
    }
}
