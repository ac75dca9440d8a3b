//! What people ask for: the lines, and to break a hold.

use tenure_core::{Evicted, Eviction, Filter, Op, Place, Result, Standing as Stands, When, line};

use crate::{
    link::Link,
    pb,
    place::{self, Standing, modes, nonsense},
    session::seconds,
    sessions::{Sessions, grant, txn},
    trouble::{is_compacted, is_lease_gone},
    words::Words,
};

/// Places read at once.
const PAGE: i64 = 1_000;
/// How often an eviction looks at a place that changes meanwhile.
const LOOKS: usize = 8;

impl Sessions {
    pub(crate) async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        const OP: Op = Op::Line;
        let link = self.links.at(OP).await?;
        let (start, end) = match filter {
            Filter::Key(key) => self.names.line(key),
            Filter::Prefix(prefix, _) => self.names.lines(prefix),
        };
        let mut kvs = Vec::new();
        let mut request =
            pb::RangeRequest { key: start.clone(), range_end: end, limit: PAGE, ..Default::default() };
        loop {
            let page: Result<pb::RangeResponse> = link.call(OP, "etcdserverpb.KV/Range", &request).await;
            let page = match page {
                // The store forgot the revision of the first page: begin again at a later one.
                Err(err) if is_compacted(&err) && request.revision != 0 => {
                    kvs.clear();
                    (request.key, request.revision) = (start.clone(), 0);
                    continue;
                }
                page => page?,
            };
            request.revision = page.header.unwrap_or_default().revision;
            kvs.extend(page.kvs);
            match kvs.last() {
                // All pages are of one moment. One place more than is wanted tells where the last line ends.
                Some(last) if page.more && !self.enough(&kvs, filter.limit()) => {
                    request.key = [last.key.as_slice(), &[0]].concat();
                }
                _ => break,
            }
        }
        let all = place::read(OP, &self.names, kvs)?;
        let mut shown: Vec<&Standing> = Vec::new();
        let mut standings = Vec::new();
        for line in all.chunk_by(|a, b| a.key == b.key) {
            let holders = line::holders(modes(line));
            shown.extend(line);
            standings
                .extend((0..line.len()).map(|at| if at < holders { Stands::Holds } else { Stands::Waits }));
        }
        shown.truncate(filter.limit());
        let show = |(place, standing): (&Standing, Stands)| Place {
            key: place.key.clone(),
            id: place.id(),
            seq: place.seq,
            mode: place.words.mode,
            standing,
            note: place.words.note.clone(),
            age: place.words.age(),
            lease_left: None,
        };
        Ok(shown.into_iter().zip(standings).map(show).collect())
    }

    /// Whether these are more than are wanted, with the last line but one complete.
    fn enough(&self, kvs: &[pb::KeyValue], wanted: usize) -> bool {
        let key = |kv: &pb::KeyValue| self.names.read(&kv.key).map(|(key, _)| key);
        kvs.len() > wanted && kvs.last().map(key) != kvs.get(wanted.saturating_sub(1)).map(key)
    }

    pub(crate) async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        const OP: Op = Op::Evict;
        for _ in 0..LOOKS {
            let link = self.links.at(OP).await?;
            let (key, range_end) = self.names.line(&eviction.key);
            let look = pb::RangeRequest { key, range_end, ..Default::default() };
            let found: pb::RangeResponse = link.call(OP, "etcdserverpb.KV/Range", &look).await?;
            let line = place::read(OP, &self.names, found.kvs)?;
            let named = |place: &Standing| place.id() == eviction.id && place.seq == eviction.seq;
            let Some(at) = line.iter().position(named) else { return Ok(Evicted::Gone) };
            let holds = at < line::holders(modes(&line));
            // A waiter believes in nothing, so there is nothing to wait for.
            let gently = eviction.when == When::Gently && holds;
            if gently && line[at].words.stopped {
                return Ok(Evicted::Stopped);
            }
            let done = if gently {
                self.stop(&link, &line[at]).await
            } else {
                self.remove(&link, &line, at, holds || eviction.when == When::Now).await
            };
            match done {
                Ok(true) => return Ok(if gently { Evicted::Stopped } else { Evicted::Freed }),
                // Something changed since, or the lease has just ended: look again.
                Ok(false) => {}
                Err(err) if is_lease_gone(&err) => {}
                Err(err) => return Err(err),
            }
        }
        Err(tenure_core::Error::unavailable(OP, "the line changed each time it was looked at").not_applied())
    }

    /// Moves a place to a lease that nobody keeps alive, and that ends no sooner than its owner believes in it; whether it
    /// still was as it was seen.
    async fn stop(&self, link: &Link, place: &Standing) -> Result<bool> {
        let ttl = seconds(place.words.ttl);
        let words = Words { stopped: true, ..place.words.clone() };
        let put = |lease| {
            let (key, value) = (place.name.clone(), words.write());
            pb::RequestOp::from(pb::Request::Put(pb::PutRequest { key, value, lease }))
        };
        // Until it is done its owner may be renewed, for a whole ttl from then: how long that takes nobody knows.
        let (long, _) = grant(link, Op::Evict, 2 * ttl + 1).await?;
        let success = vec![put(long), self.notice(place)];
        let stop = pb::TxnRequest { compare: still(place)?, success, failure: Vec::new() };
        if !txn(link, Op::Evict, stop).await?.succeeded {
            return Ok(false);
        }
        // It is not renewed from here on, so from here on a ttl is enough. If this fails it only ends later.
        let stopped = Standing { lease: long, ..place.clone() };
        if let Ok((lease, _)) = grant(link, Op::Evict, ttl).await {
            let shorten =
                pb::TxnRequest { compare: still(&stopped)?, success: vec![put(lease)], failure: Vec::new() };
            let _ = txn(link, Op::Evict, shorten).await;
        }
        Ok(true)
    }

    /// Takes a place away, and keeps its claim from taking another; whether it still was as it was seen.
    async fn remove(&self, link: &Link, line: &[Standing], at: usize, anyway: bool) -> Result<bool> {
        let place = &line[at];
        let (lease, _) = grant(link, Op::Evict, seconds(place.words.ttl) + 1).await?;
        let mut compare = still(place)?;
        if !anyway {
            // It must not come to hold before it goes.
            let blockers = line::blockers(&modes(&line[..at]), place.words.mode);
            for blocker in &line[blockers] {
                compare.extend(still(blocker)?);
            }
        }
        let grave = pb::PutRequest { key: self.names.grave(place.id()), value: Vec::new(), lease };
        let success =
            vec![pb::Request::delete(place.name.clone()), pb::Request::Put(grave).into(), self.notice(place)];
        let remove = pb::TxnRequest { compare, success, failure: Vec::new() };
        Ok(txn(link, Op::Evict, remove).await?.succeeded)
    }

    /// Tells the owner to look after its places.
    fn notice(&self, place: &Standing) -> pb::RequestOp {
        let (key, lease) = (self.names.session(place.lease), place.lease);
        pb::Request::Put(pb::PutRequest { key, value: Vec::new(), lease }).into()
    }
}

/// That a place is as it was seen.
fn still(place: &Standing) -> Result<Vec<pb::Compare>> {
    let seq = i64::try_from(place.seq.get()).map_err(|_| nonsense(Op::Evict))?;
    let name = || place.name.clone();
    Ok(vec![pb::Compare::created_at(name(), seq), pb::Compare::kept_by(name(), place.lease)])
}
