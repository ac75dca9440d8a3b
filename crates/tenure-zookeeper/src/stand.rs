//! Taking a place and waiting at it.

use std::sync::Arc;

use futures_util::future::select_all;
use tenure_core::{
    Attempt, BootClock, Busy, Claim, Clock, Error, ErrorKind, Grant, Incarnation, Mode, Moment, Op, Patience,
    Result, Seat, Turn, line,
};

use crate::{
    engine::{ZookeeperEngine, evicted, read_line, seq_of, stat},
    link::{Failure, Link},
    mine::{Own, Stood},
    place::{Line, Spot, prefix, write_note},
    trouble,
    wire::{Change, Life, Request, code, read_created},
};

/// How often the node of a key is made again that was cleared away, as one without places is, before its first place came.
const TRIES: u32 = 3;

impl ZookeeperEngine {
    pub(crate) async fn stand(&self, claim: &Claim) -> Result<Attempt> {
        let sent = BootClock.now();
        if self.mine.is_buried(claim.id) {
            let message = "the claim was released before this attempt";
            return Err(Error::new(ErrorKind::Lost, Op::Attempt, message).with_key(&claim.key).not_applied());
        }
        let own = match self.mine.find(claim.id) {
            Some(own) => own,
            None => {
                let session = self.sessions.of(claim.ttl, Op::Attempt).await?;
                self.mine.insert(claim.id, claim.mode, session)
            }
        };
        let _gate = own.gate.lock().await;
        if own.session.has_ended() {
            // Its place went with it; the next attempt takes another in a new session.
            self.mine.forget(claim.id);
            return Err(trouble::of(Failure::Ended, Op::Attempt).with_key(&claim.key));
        }
        match self.try_stand(&own, claim, sent).await {
            Ok(Some(attempt)) => Ok(attempt),
            Ok(None) => Err(evicted(claim)),
            Err(failure) => {
                let facts = own.facts();
                // Nothing to remember it for.
                if facts.place.is_none() && !facts.in_doubt {
                    drop(facts);
                    self.mine.forget(claim.id);
                }
                Err(trouble::of(failure, Op::Attempt).with_key(&claim.key))
            }
        }
    }

    /// `None` if the claim was evicted.
    async fn try_stand(&self, own: &Own, claim: &Claim, sent: Moment) -> Result<Option<Attempt>, Failure> {
        let link = own.session.link().await?;
        let path = self.paths.line(&claim.key);
        let (mode, place, in_doubt) = {
            let facts = own.facts();
            (facts.mode, facts.place, facts.in_doubt)
        };
        if place.is_some() || in_doubt || claim.patience == Patience::Try {
            if place.is_some() && own.session.runs_low(sent) {
                own.session.beat().await?;
            }
            let line = self.look(&link, &path).await?;
            if let Some(place) = place
                && line.find(claim.id, place.rank).is_some()
            {
                if own.session.ear().has_unread() {
                    self.read_evictions(&link).await?;
                }
                return Ok(self.answer(own, claim, &line, sent));
            }
            if place.is_some() {
                // Somebody deleted it. An operator's eviction is written down.
                self.read_evictions(&link).await?;
                own.facts().place = None;
            }
            if own.facts().evicted {
                return Ok(None);
            }
            if let Some(spot) = line.of(claim.id, own.session.id()) {
                // Its creation was never answered.
                if let Some(stat) = stat(&link, &format!("{path}/{}", spot.name)).await? {
                    let seq = seq_of(&stat).ok_or(Failure::Garbled)?;
                    self.clock_was(stat.created_at, sent);
                    own.facts().place = Some(Stood { rank: spot.rank, seq });
                    own.facts().in_doubt = false;
                    return Ok(self.answer(own, claim, &line, sent));
                }
            }
            own.facts().in_doubt = false;
            if claim.patience == Patience::Try && !line::would_hold(line.modes(), mode) {
                self.mine.forget(claim.id);
                return Ok(Some(Attempt::Busy(busy(&line.0, mode))));
            }
        }
        let line = self.take(&link, own, claim, &path).await?;
        own.session.agreed(sent);
        let answer = self.answer(own, claim, &line, sent);
        if let (Some(Attempt::Busy(_)), Patience::Try) = (&answer, claim.patience) {
            // Somebody came first after all.
            return self.leave(&link, own, claim, &path, &line).await.map(Some);
        }
        Ok(answer)
    }

    /// Takes a place at the end, and sees the line as it is then.
    ///
    /// All who stand before it were there before it, so that a server that has this place has theirs: the list leaves out
    /// nobody who counts, though some may have gone since.
    async fn take(&self, link: &Link, own: &Own, claim: &Claim, path: &str) -> Result<Line, Failure> {
        let mode = own.facts().mode;
        let name = format!("{path}/{}", prefix(claim.id, mode, own.session.id()));
        let data = write_note(&claim.note);
        for _ in 0..TRIES {
            let sent = BootClock.now();
            let above = (!self.known().contains(&claim.key)).then(|| {
                let data = claim.key.as_str().as_bytes();
                link.send(&Request::Create { path, data, life: Life::Container, access: self.access })
            });
            own.facts().in_doubt = true;
            let life = Life::EphemeralSequential;
            let place = link.send(&Request::Create { path: &name, data: &data, life, access: self.access });
            let children = link.send(&Request::Children { path, watch: false });
            let above = match above {
                Some(above) => above.answer().await,
                None => Ok(Vec::new()),
            };
            match place.answer().await {
                Ok(body) => {
                    self.knows(&claim.key);
                    let (node, stat) = read_created(&body).ok_or(Failure::Garbled)?;
                    self.clock_was(stat.created_at, sent);
                    let node = node.rsplit('/').next().unwrap_or_default();
                    let rank = node.parse::<Spot>().map_or(-1, |spot| spot.rank);
                    let Some(seq) = seq_of(&stat).filter(|_| (0..i32::MAX).contains(&rank)) else {
                        // Beyond the last number there is no order: two could hold.
                        drop(link.send(&Request::Delete { path: &format!("{path}/{node}") }));
                        return Err(Failure::Garbled);
                    };
                    {
                        let mut facts = own.facts();
                        facts.place = Some(Stood { rank, seq });
                        facts.in_doubt = false;
                    }
                    return read_line(children.answer().await);
                }
                Err(Failure::Code(code::NO_NODE)) => {
                    own.facts().in_doubt = false;
                    self.known().remove(&claim.key);
                    if above == Err(Failure::Code(code::NO_NODE)) {
                        self.lay(link).await?;
                    }
                }
                Err(Failure::Code(other)) => {
                    own.facts().in_doubt = false;
                    return Err(Failure::Code(other));
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Code(code::NO_NODE))
    }

    /// Gives a place back that came too late for a claim that does not wait.
    async fn leave(
        &self,
        link: &Link,
        own: &Own,
        claim: &Claim,
        path: &str,
        line: &Line,
    ) -> Result<Attempt, Failure> {
        let (mode, place) = {
            let facts = own.facts();
            (facts.mode, facts.place)
        };
        let name = own.node(claim.id).unwrap_or_default();
        match link.send(&Request::Delete { path: &format!("{path}/{name}") }).answer().await {
            Ok(_) | Err(Failure::Code(code::NO_NODE)) => {}
            Err(failure) => return Err(failure),
        }
        self.mine.forget(claim.id);
        let at = place.and_then(|place| line.find(claim.id, place.rank));
        let ahead = at.unwrap_or(line.0.len());
        Ok(Attempt::Busy(busy(&line.0[..ahead], mode)))
    }

    /// What the line says to a claim that stands in it; `None` if it was evicted.
    fn answer(&self, own: &Own, claim: &Claim, line: &Line, sent: Moment) -> Option<Attempt> {
        let mut facts = own.facts();
        if facts.evicted {
            return None;
        }
        let place = facts.place?;
        let at = line.find(claim.id, place.rank)?;
        let ttl = Some(Self::certain(&own.session, claim, sent));
        let seat = seat(own, &place);
        let ahead = &line.0[..at];
        Some(if at < line::holders(line.modes()) {
            facts.ahead.clear();
            Attempt::Granted(Grant { seat, ttl, remembers: None })
        } else {
            facts.ahead = ahead.to_vec();
            Attempt::Busy(Busy { seat: Some(seat), ttl, ..busy(ahead, facts.mode) })
        })
    }

    pub(crate) async fn wait(&self, claim: &Claim) -> Turn {
        let Some(own) = self.mine.find(claim.id) else { return Turn::Again };
        // Whatever is in the way, an attempt finds out.
        self.try_wait(&own, claim).await.unwrap_or(Turn::Again)
    }

    async fn try_wait(&self, own: &Arc<Own>, claim: &Claim) -> Result<Turn, Failure> {
        let path = self.paths.line(&claim.key);
        let link = own.session.link().await?;
        let (mode, mut ahead, place) = {
            let facts = own.facts();
            let Some(place) = facts.place else { return Ok(Turn::Again) };
            (facts.mode, facts.ahead.clone(), place)
        };
        loop {
            let modes: Vec<Mode> = ahead.iter().map(|spot| spot.mode).collect();
            if line::would_hold(modes.iter().copied(), mode) {
                // Those ahead only leave, so nobody else can have come between. But if an operator took this very place,
                // that may be written down and not read yet.
                // And it may have been released meanwhile.
                let ours = self.mine.find(claim.id).is_some_and(|now| Arc::ptr_eq(&now, own));
                let sure = ours && !own.session.ear().has_unread() && !own.facts().evicted;
                return Ok(if sure { Turn::Holds(seat(own, &place)) } else { Turn::Again });
            }
            let blockers: Vec<_> = ahead[line::blockers(&modes, mode)]
                .iter()
                .map(|spot| format!("{path}/{}", spot.name))
                .collect();
            let Some((change, gone)) = self.first_change(&link, own, &blockers).await? else {
                return Ok(Turn::Again);
            };
            if change == Change::Gone {
                ahead.retain(|spot| !gone.ends_with(&spot.name));
                let modes = ahead.iter().map(|spot| spot.mode);
                if line::would_hold(modes, mode) {
                    continue;
                }
            }
            // Who else left is not known: only one was watched.
            let children = link.send(&Request::Children { path: &path, watch: false });
            let line = read_line(children.answer().await)?;
            let Some(at) = line.find(claim.id, place.rank) else { return Ok(Turn::Again) };
            ahead = line.0[..at].to_vec();
        }
    }

    /// Waits until one of these nodes changes or goes, and says which; `None` if the connection ended.
    async fn first_change(
        &self,
        link: &Link,
        own: &Own,
        paths: &[String],
    ) -> Result<Option<(Change, String)>, Failure> {
        let ear = own.session.ear();
        // Listens first and looks then: what goes in between is heard.
        let _forget = Forget { own, paths }; // dropped last, when nobody listens any more
        let told: Vec<_> = paths.iter().map(|path| ear.watch(path)).collect();
        let looks: Vec<_> = paths.iter().map(|path| link.send(&Request::Get { path, watch: true })).collect();
        for (look, path) in looks.into_iter().zip(paths) {
            match look.answer().await {
                Ok(_) => {}
                Err(Failure::Code(code::NO_NODE)) => return Ok(Some((Change::Gone, path.clone()))),
                Err(failure) => return Err(failure),
            }
        }
        let (change, at, _) = select_all(told).await;
        Ok(change.ok().map(|change| (change, paths[at].clone())))
    }
}

/// Nobody waits for these any more, however the wait ended.
struct Forget<'a> {
    own: &'a Own,
    paths: &'a [String],
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.paths.iter().for_each(|path| self.own.session.ear().forget(path));
    }
}

fn seat(own: &Own, place: &Stood) -> Seat {
    Seat { seq: place.seq, incarnation: Incarnation(own.session.id().cast_unsigned()) }
}

/// What is known about a claim of this mode behind these places.
fn busy(ahead: &[Spot], mode: Mode) -> Busy {
    Busy {
        seat: None,
        ttl: None,
        ahead: u32::try_from(ahead.len()).ok(),
        blocker: ahead.iter().rev().map(|spot| spot.mode).find(|&other| !line::compatible(other, mode)),
        lapses_in: None,
    }
}
