//! What people do: look at a line, and take a place out of it.

use std::time::Duration;

use tenure_core::{Evicted, Eviction, Fact, Filter, Key, Op, Place, Result, Standing, When};

use crate::{
    attempt::{DEAD, Life, Read, lasts},
    commands::Commands,
    engine::MemcachedEngine,
    link::Link,
    reply::Reply,
    trouble::nonsense,
};

/// What is added to a lease item to stop its holder.
const STOP: &[u8] = b"s";

impl MemcachedEngine {
    pub(crate) async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        const OP: Op = Op::Line;
        let Filter::Key(key) = filter else {
            let message = "memcached cannot list its keys; ask for one by its name";
            return Err(tenure_core::Error::unsupported(OP, message));
        };
        let link = self.links.of(key).await.map_err(|err| err.in_op(OP))?;
        let (read, leases) = self.look(OP, &link, key).await?;
        let living: Vec<_> =
            read.line.places.into_iter().zip(leases).filter(|(_, (life, _))| life.lives()).collect();
        let holders = tenure_core::line::holders(living.iter().map(|(place, _)| place.mode));
        let now = link.server_now();
        let show = |(at, (place, (_, lease_left))): (usize, (crate::line::Place, (Life, Duration)))| {
            Some(Place {
                key: key.clone(),
                id: place.id,
                seq: place.seq?,
                mode: place.mode,
                standing: if at < holders { Standing::Holds } else { Standing::Waits },
                note: place.note,
                age: Duration::from_secs(now.saturating_sub(place.taken)),
                lease_left: Some(lease_left),
            })
        };
        Ok(living.into_iter().enumerate().filter_map(show).collect())
    }

    pub(crate) async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        const OP: Op = Op::Evict;
        let link = self.links.of(&eviction.key).await.map_err(|err| err.in_op(OP))?;
        let (read, leases) = self.look(OP, &link, &eviction.key).await?;
        let at = read.line.find(eviction.id).filter(|&at| read.line.places[at].seq == Some(eviction.seq));
        let Some(at) = at.filter(|&at| leases[at].0.lives()) else { return Ok(Evicted::Gone) };
        let living = read.line.places.iter().zip(&leases).filter(|(_, (life, _))| life.lives());
        let holders = tenure_core::line::holders(living.map(|(place, _)| place.mode));
        let ahead = leases[..at].iter().filter(|(life, _)| life.lives()).count();
        let place = &read.line.places[at];
        let lease = self.names.lease(place.id, place.lease);
        let mut ask = Commands::default();
        // A waiter believes in nothing, so there is nothing to wait for.
        if eviction.when == When::Gently && ahead < holders {
            // When it ends stays as it is. Once is enough, and twice does no harm.
            ask.append(&lease, STOP);
            return match &link.ask(OP, ask).await?[..] {
                [Reply::Done(_)] => Ok(Evicted::Stopped),
                [Reply::NotStored | Reply::Missing] => Ok(Evicted::Gone),
                _ => Err(nonsense(OP, &link.address)),
            };
        }
        // This is the eviction: the place is dead, and its owner is refused for as long as its lease would have been.
        ask.replace(&lease, leases[at].1.as_secs() + 2, DEAD);
        match &link.ask(OP, ask).await?[..] {
            [Reply::Done(_)] => {}
            [Reply::NotStored | Reply::Missing] => return Ok(Evicted::Gone),
            _ => return Err(nonsense(OP, &link.address)),
        }
        let lease = place.lease;
        self.clear(&link, &self.names.line(&eviction.key), lease, read).await;
        Ok(Evicted::Freed)
    }

    /// Reads a line and all its leases.
    async fn look(&self, op: Op, link: &Link, key: &Key) -> Result<(Read, Vec<(Life, Duration)>)> {
        let mut ask = Commands::default();
        ask.get(&self.names.line(key));
        let replies = link.ask(op, ask).await?;
        let line = replies.first().ok_or_else(|| nonsense(op, &link.address))?;
        let read = self.read(op, link, key, line)?;
        let mut ask = Commands::default();
        for place in &read.line.places {
            ask.get(&self.names.lease(place.id, place.lease));
        }
        if ask.count == 0 {
            return Ok((read, Vec::new()));
        }
        let replies = link.ask(op, ask).await?;
        let life = |reply: &Reply| Some((Life::of(reply)?, lasts(reply)));
        let leases = replies.iter().map(|reply| life(reply).ok_or_else(|| nonsense(op, &link.address)));
        let leases = leases.collect::<Result<_>>()?;
        Ok((read, leases))
    }

    pub(crate) async fn examine_(&self) -> Result<Vec<Fact>> {
        const OP: Op = Op::Examine;
        let links = self.links.all().await.map_err(|err| err.in_op(OP))?;
        let mut facts = Vec::new();
        for link in links {
            let stats = link.ask_stats("stats", OP).await?;
            let settings = link.ask_stats("stats settings", OP).await?;
            facts.push(Fact::good("server", link.address.to_string()));
            facts.extend(stats.facts(&settings));
        }
        Ok(facts)
    }
}
