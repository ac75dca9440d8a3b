//! Living on: many places in one trip, each by its own lease item.

use std::{collections::BTreeMap, time::Duration};

use tenure_core::{BootClock, Clock, Error, Held, Mode, Op, Renewal, Result};

use crate::{
    attempt::{Life, Read, seconds},
    commands::Commands,
    engine::{KEPT, MemcachedEngine, ROUNDS},
    line::Place,
    link::Link,
    reply::Reply,
    seats::Seat,
    trouble::{crowded, nonsense, refused},
};

/// The most holds that one packet renews.
const RENEWALS: usize = 500;

impl MemcachedEngine {
    pub(crate) async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, hold) in holds.iter().enumerate() {
            groups.entry(self.links.server_of(&hold.claim.key)).or_default().push(at);
        }
        let calls = groups.iter().flat_map(|(&server, group)| {
            group.chunks(RENEWALS).map(move |chunk| self.renew_chunk(server, chunk, holds))
        });
        let mut renewals = vec![Renewal::Lost; holds.len()];
        for answers in futures_util::future::try_join_all(calls).await? {
            for (at, renewal) in answers {
                renewals[at] = renewal;
            }
        }
        Ok(renewals)
    }

    async fn renew_chunk(
        &self,
        server: usize,
        chunk: &[usize],
        holds: &[Held<'_>],
    ) -> Result<Vec<(usize, Renewal)>> {
        const OP: Op = Op::Renew;
        let link = self.links.at(server).await.map_err(|err| err.in_op(OP))?;
        let mut ask = Commands::default();
        let mut asked: Vec<(usize, Seat)> = Vec::with_capacity(chunk.len());
        let mut answers = Vec::with_capacity(chunk.len());
        for &at in chunk {
            let claim = holds[at].claim;
            let Some(seat) = self.seats.get(claim.id) else {
                answers.push((at, self.renew_unknown(&link, holds[at]).await?));
                continue;
            };
            ask.get_and_touch(&self.names.line(&claim.key), KEPT);
            ask.get_and_touch(&self.names.lease(claim.id, seat.lease), self.lasting(claim, &seat));
            asked.push((at, seat));
        }
        let replies = link.ask(OP, ask).await?;
        for ((at, seat), pair) in asked.into_iter().zip(replies.chunks_exact(2)) {
            let hold = holds[at];
            let life = Life::of(&pair[1]).ok_or_else(|| nonsense(OP, &link.address))?;
            let found = self.found(OP, &link, hold, &pair[0])?;
            let renewal = match (found, life) {
                (Some((read, place)), Life::Alive) if place.lease == seat.lease => {
                    let now = BootClock.now();
                    let until = seat.until.max(now + Duration::from_secs(seconds(hold.claim.ttl.get())));
                    let alone = read.cas.filter(|_| read.line.places.len() == 1);
                    self.seats.put(hold.claim.id, Seat { until, alone, ..seat }, now);
                    Renewal::Renewed(Some(hold.claim.ttl.get()))
                }
                // It was stopped, or another place was named: what was touched must not live longer for that.
                (_, life) if life.lives() => {
                    let known = self.seats.get(hold.claim.id).unwrap_or(seat);
                    self.put_back(&link, &self.names.lease(hold.claim.id, seat.lease), &known).await;
                    Renewal::Lost
                }
                _ => Renewal::Lost,
            };
            answers.push((at, renewal));
        }
        Ok(answers)
    }

    /// Renews a hold that this client has not heard of: one more trip, to see how long its lease is.
    async fn renew_unknown(&self, link: &Link, hold: Held<'_>) -> Result<Renewal> {
        const OP: Op = Op::Renew;
        let mut ask = Commands::default();
        ask.get_and_touch(&self.names.line(&hold.claim.key), KEPT);
        let replies = link.ask(OP, ask).await?;
        let line = replies.first().ok_or_else(|| nonsense(OP, &link.address))?;
        match self.found(OP, link, hold, line)? {
            Some((_, place)) => self.prolong(OP, link, hold, &place).await,
            None => Ok(Renewal::Lost),
        }
    }

    /// Prolongs the lease of a place, unless it is over or stopped.
    async fn prolong(&self, op: Op, link: &Link, hold: Held<'_>, place: &Place) -> Result<Renewal> {
        let lease = self.names.lease(hold.claim.id, place.lease);
        let mut ask = Commands::default();
        ask.get(&lease);
        let replies = link.ask(op, ask).await?;
        let before = replies.first().ok_or_else(|| nonsense(op, &link.address))?;
        if Life::of(before) != Some(Life::Alive) {
            return Ok(Renewal::Lost);
        }
        let left = if let Reply::Found(item) = before { item.seconds.unwrap_or(0) } else { 0 };
        let given = seconds(hold.claim.ttl.get()).max(left);
        let mut ask = Commands::default();
        ask.get_and_touch(&lease, given);
        let replies = link.ask(op, ask).await?;
        if replies.first().and_then(Life::of) != Some(Life::Alive) {
            return Ok(Renewal::Lost);
        }
        let now = BootClock.now();
        let until = now + Duration::from_secs(given);
        self.seats.put(hold.claim.id, Seat { lease: place.lease, until, alone: None, calm: None }, now);
        Ok(Renewal::Renewed(Some(hold.claim.ttl.get())))
    }

    /// Whether a place is neither over nor stopped.
    async fn is_alive(&self, op: Op, link: &Link, hold: Held<'_>, place: &Place) -> Result<bool> {
        let mut ask = Commands::default();
        ask.get(&self.names.lease(hold.claim.id, place.lease));
        let replies = link.ask(op, ask).await?;
        Ok(replies.first().and_then(Life::of) == Some(Life::Alive))
    }

    /// The line and the place of a hold, by id *and* number.
    fn found(&self, op: Op, link: &Link, hold: Held<'_>, line: &Reply) -> Result<Option<(Read, Place)>> {
        let read = self.read(op, link, &hold.claim.key, line)?;
        let place = read.line.find(hold.claim.id).map(|at| read.line.places[at].clone());
        Ok(place.filter(|place| place.seq == Some(hold.seq)).map(|place| (read, place)))
    }

    pub(crate) async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        const OP: Op = Op::Downgrade;
        let link = self.links.of(&hold.claim.key).await.map_err(|err| err.in_op(OP))?;
        let name = self.names.line(&hold.claim.key);
        for _ in 0..ROUNDS {
            let mut ask = Commands::default();
            ask.get(&name);
            let replies = link.ask(OP, ask).await?;
            let line = replies.first().ok_or_else(|| nonsense(OP, &link.address))?;
            let Some((mut read, place)) = self.found(OP, &link, hold, line)? else {
                return Ok(Renewal::Lost);
            };
            if matches!(place.mode, Mode::Permits(_)) {
                if !self.is_alive(OP, &link, hold, &place).await? {
                    return Ok(Renewal::Lost);
                }
                return Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(OP));
            }
            // First, since a place that is over or stopped is not changed any more.
            let renewal = self.prolong(OP, &link, hold, &place).await?;
            let (Renewal::Renewed(_), Mode::Exclusive, Some(cas)) = (renewal, place.mode, read.cas) else {
                return Ok(renewal);
            };
            for other in read.line.places.iter_mut().filter(|other| other.id == place.id) {
                other.mode = Mode::Shared;
            }
            let mut ask = Commands::default();
            ask.swap(&name, cas, KEPT, &read.line.write(link.started()));
            match &link.ask(OP, ask).await?[..] {
                [Reply::Done(_)] => return Ok(renewal),
                [Reply::Changed | Reply::Missing] => {}
                [Reply::Refused(said)] => return Err(refused(OP, &link.address, said)),
                _ => return Err(nonsense(OP, &link.address)),
            }
        }
        Err(crowded(OP))
    }
}
