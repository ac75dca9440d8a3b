//! Letting go: first of the lease item, which is the release, then of the place in the line.

use tenure_core::{Answered, Claim, Op, Released, Result};

use crate::{
    attempt::{DEAD, Life, Read, seconds},
    commands::Commands,
    engine::{KEPT, MemcachedEngine, ROUNDS},
    link::Link,
    names::Lease,
    reply::Reply,
    trouble::nonsense,
};

const OP: Op = Op::Release;

impl MemcachedEngine {
    pub(crate) async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        let link = self.links.of(&claim.key).await.map_err(|err| err.in_op(OP))?;
        let name = self.names.line(&claim.key);
        let Some(seat) = self.seats.get(claim.id) else {
            return Box::pin(self.release_unknown(&link, claim, &name)).await;
        };
        let lease = self.names.lease(claim.id, seat.lease);
        let mut ask = Commands::default();
        let alone = seat.alone.filter(|cas| cas.life == link.life && answered == Answered::All);
        if let Some(cas) = alone {
            ask.delete_if(&name, cas);
        }
        // Before the lease goes: those who see it gone take the place out of the line themselves.
        ask.get(&name);
        match answered {
            Answered::All => ask.delete(&lease),
            // An attempt that arrives later must find its lease item there, and dead.
            Answered::InDoubt => {
                ask.get(&lease);
                ask.set(&lease, seconds(claim.ttl.get()), DEAD);
            }
        }
        let mut replies = link.ask(OP, ask).await?.into_iter();
        let gone = alone.is_some() && replies.next() == Some(Reply::Done(0));
        let line = replies.next().ok_or_else(|| nonsense(OP, &link.address))?;
        let lived = match (answered, replies.next()) {
            (Answered::All, Some(Reply::Done(_))) => true,
            (Answered::All, Some(Reply::Missing)) => false,
            (Answered::InDoubt, Some(reply)) => Life::of(&reply).is_some_and(Life::lives),
            _ => return Err(nonsense(OP, &link.address)),
        };
        self.seats.take(claim.id);
        if gone {
            return Ok(freed(lived));
        }
        let read = self.read(OP, &link, &claim.key, &line)?;
        let stood = read.line.find(claim.id).is_some_and(|at| read.line.places[at].lease == seat.lease);
        if stood {
            Box::pin(self.clear(&link, &name, seat.lease, read)).await;
        }
        Ok(freed(stood && lived))
    }

    /// Releases a claim that this client has not heard of.
    async fn release_unknown(&self, link: &Link, claim: &Claim, name: &str) -> Result<Released> {
        let mut ask = Commands::default();
        ask.get(name);
        let replies = link.ask(OP, ask).await?;
        let [line] = &replies[..] else { return Err(nonsense(OP, &link.address)) };
        let read = self.read(OP, link, &claim.key, line)?;
        let Some(lease) = read.line.find(claim.id).map(|at| read.line.places[at].lease) else {
            return Ok(Released::NotHeld);
        };
        let mut ask = Commands::default();
        ask.delete(&self.names.lease(claim.id, lease));
        let lived = match &link.ask(OP, ask).await?[..] {
            [Reply::Done(_)] => true,
            [Reply::Missing] => false,
            _ => return Err(nonsense(OP, &link.address)),
        };
        self.clear(link, name, lease, read).await;
        Ok(freed(lived))
    }

    /// Takes a dead place out of the line, so that others need not find out. If that fails they do.
    pub(crate) async fn clear(&self, link: &Link, name: &str, lease: Lease, mut read: Read) {
        for _ in 0..ROUNDS {
            let before = read.line.places.len();
            read.line.places.retain(|place| place.lease != lease);
            let Some(cas) = read.cas.filter(|_| read.line.places.len() < before) else { return };
            let mut ask = Commands::default();
            if read.line.places.is_empty() {
                ask.delete_if(name, cas);
            } else {
                ask.swap(name, cas, KEPT, &read.line.write(link.started()));
            }
            ask.get(name);
            let Ok(replies) = link.ask(OP, ask).await else { return };
            let [Reply::Changed, line] = &replies[..] else { return };
            let Ok(again) = self.read(OP, link, &read.line.key, line) else { return };
            read = again;
        }
    }
}

fn freed(freed: bool) -> Released {
    if freed { Released::Freed } else { Released::NotHeld }
}
