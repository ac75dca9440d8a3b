//! Taking a place, or finding the one there is.

use std::sync::Arc;

use tenure_core::{
    Attempt, Busy, Claim, Error, ErrorKind, Grant, Incarnation, Moment, Op, Patience, Result, Seat, line,
};

use crate::{
    ENGINE,
    link::Link,
    pb,
    place::{self, Standing, modes, nonsense},
    session::{Beat, Session, seconds},
    sessions::{Known, Sessions, txn},
    trouble::is_lease_gone,
    turn::Wait,
    words::Words,
};

const OP: Op = Op::Attempt;
/// The most in one line: every attempt reads all of it.
const LONGEST_LINE: usize = 10_000;
/// How often a claim that does not wait looks at a line that others write meanwhile.
const LOOKS: usize = 8;

/// A line at one revision.
struct Seen {
    line: Vec<Standing>,
    revision: i64,
    cluster: u64,
}

impl Sessions {
    pub(crate) async fn attempt(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let asked = self.now();
        if let Some(known) = self.known(claim.id)
            && let Some(answer) = self.find(asked, claim, &known).await?
        {
            return Ok(answer);
        }
        let session = self.fresh(OP, claim).await?;
        let link = self.links.at(OP).await?;
        match self.take(asked, claim, &session, &link).await {
            Err(err) if is_lease_gone(&err) => {
                // It ended unheard. Nothing was written, so a new one is no second try.
                self.bury(&session);
                let session = self.fresh(OP, claim).await?;
                self.take(asked, claim, &session, &link).await
            }
            answer => answer,
        }
    }

    /// Looks at the place that was there before, without a write. `None` if it is not there any more.
    async fn find(self: &Arc<Self>, asked: Moment, claim: &Claim, known: &Known) -> Result<Option<Attempt>> {
        if self.freshen(OP, &known.session).await? == Beat::Ended {
            return Ok(None);
        }
        let link = self.links.at(OP).await?;
        let (key, range_end) = self.names.line(&claim.key);
        let look = pb::RangeRequest { key, range_end, ..Default::default() };
        let found: pb::RangeResponse = link.call(OP, "etcdserverpb.KV/Range", &look).await?;
        let header = found.header.unwrap_or_default();
        let line = place::read(OP, &self.names, found.kvs)?;
        let seen = Seen { line, revision: header.revision, cluster: header.cluster_id };
        match seen.line.iter().position(|place| place.id == claim.id) {
            Some(at) if seen.line[at].seq == known.seq => {
                self.stand(asked, claim, &link, &seen, at).await.map(Some)
            }
            _ => {
                self.lose(claim.id, known);
                Ok(None)
            }
        }
    }

    /// Takes a place if there is none, and reads the line, in one transaction.
    async fn take(
        self: &Arc<Self>,
        asked: Moment,
        claim: &Claim,
        session: &Arc<Session>,
        link: &Arc<Link>,
    ) -> Result<Attempt> {
        let (name, line, grave) =
            (self.names.place(&claim.key, claim.id), self.names.line(&claim.key), self.names.grave(claim.id));
        let put =
            pb::PutRequest { key: name.clone(), value: Words::new(claim).write(), lease: session.lease };
        let range = |(key, range_end): (Vec<u8>, Vec<u8>)| {
            pb::RequestOp::from(pb::Request::Range(pb::RangeRequest { key, range_end, ..Default::default() }))
        };
        // A claim that does not wait takes a place only where it holds: first where nobody is, then where nobody came
        // since it saw that it would.
        let mut alone = (claim.patience == Patience::Try).then(|| pb::Compare::none_in(line.clone()));
        for _ in 0..LOOKS {
            let free = [pb::Compare::created_at(name.clone(), 0), pb::Compare::created_at(grave.clone(), 0)];
            let request = pb::TxnRequest {
                compare: free.into_iter().chain(alone.take()).collect(),
                success: vec![pb::Request::Put(put.clone()).into(), range(line.clone())],
                failure: vec![range(line.clone()), range((grave.clone(), Vec::new()))],
            };
            let answer = txn(link, OP, request).await?;
            let (header, succeeded) = (answer.header.clone().unwrap_or_default(), answer.succeeded);
            let mut ranges = answer.ranges();
            let kvs = ranges.next().ok_or_else(|| nonsense(OP))?;
            let buried = ranges.next().is_some_and(|grave| !grave.is_empty());
            let line_seen = place::read(OP, &self.names, kvs)?;
            let seen = Seen { line: line_seen, revision: header.revision, cluster: header.cluster_id };
            if let Some(at) = seen.line.iter().position(|place| place.id == claim.id) {
                return self.stand(asked, claim, link, &seen, at).await;
            }
            if buried {
                return Err(refused(
                    "an operator evicted this claim from the line, or it was released before",
                ));
            }
            if succeeded || claim.patience == Patience::Queue {
                return Err(nonsense(OP));
            }
            let modes = modes(&seen.line);
            if !line::would_hold(modes.iter().copied(), claim.mode) {
                return Ok(Attempt::Busy(busy(claim, &seen.line, None)));
            }
            alone = Some(pb::Compare::unwritten_since(line.clone(), seen.revision));
        }
        let message = "others came in each time it looked";
        Err(Error::unavailable(OP, message).with_engine(ENGINE).not_applied())
    }

    /// Says whether the claim holds at this place of the line.
    async fn stand(
        self: &Arc<Self>,
        asked: Moment,
        claim: &Claim,
        link: &Arc<Link>,
        seen: &Seen,
        at: usize,
    ) -> Result<Attempt> {
        let place = &seen.line[at];
        if place.words.stopped {
            // Its lease is not prolonged any more, so another grant would outlive the place.
            self.forget(claim.id);
            return Err(refused("an operator evicted this claim from the line"));
        }
        if at >= LONGEST_LINE {
            let delete = pb::DeleteRangeRequest { key: place.name.clone(), ..Default::default() };
            let _: pb::DeleteRangeResponse = link.call(OP, "etcdserverpb.KV/DeleteRange", &delete).await?;
            let message = "10,000 are in line already";
            return Err(Error::unavailable(OP, message).with_engine(ENGINE).not_applied());
        }
        let session = self.kept_long_enough(claim, link, place).await?;
        let seat = Seat { seq: place.seq, incarnation: Incarnation(seen.cluster) };
        let ahead = &seen.line[..at];
        let holds = at < line::holders(modes(&seen.line));
        let wait = (!holds).then(|| {
            let line = self.names.line(&claim.key);
            Arc::new(Wait::new(seat, place.words.mode, ahead, line, seen.revision))
        });
        let known = Known {
            name: place.name.clone(),
            seq: place.seq,
            session: session.clone(),
            words: place.words.clone(),
            wait,
        };
        if !self.note(claim.id, known) {
            return Err(Error::unavailable(OP, "the lease ended meanwhile").with_engine(ENGINE));
        }
        let ttl = session.left(asked, claim.ttl);
        if holds {
            Ok(Attempt::Granted(Grant { seat, ttl: Some(ttl), remembers: None }))
        } else {
            Ok(Attempt::Busy(Busy { ttl: Some(ttl), ..busy(claim, ahead, Some(seat)) }))
        }
    }

    /// The session that keeps a place for as long as the claim asks, to which it is moved if it is none of these.
    async fn kept_long_enough(
        self: &Arc<Self>,
        claim: &Claim,
        link: &Link,
        place: &Standing,
    ) -> Result<Arc<Session>> {
        if let Some(session) = self.session_of(place.lease)
            && session.seconds >= seconds(claim.ttl.get())
        {
            return Ok(session);
        }
        let session = self.fresh(OP, claim).await?;
        let words = Words { ttl: claim.ttl.get(), ..place.words.clone() };
        if self.put_again(OP, link, &place.name, place.seq.get(), place.lease, &words, &session).await? {
            Ok(session)
        } else {
            Err(Error::unavailable(OP, "the place was taken away meanwhile").with_engine(ENGINE))
        }
    }

    /// Writes a place anew if it still is there under this number and lease.
    #[expect(clippy::too_many_arguments, reason = "what a place is, and what it becomes")]
    pub(crate) async fn put_again(
        &self,
        op: Op,
        link: &Link,
        name: &[u8],
        seq: u64,
        lease: i64,
        words: &Words,
        session: &Session,
    ) -> Result<bool> {
        let seq = i64::try_from(seq).map_err(|_| nonsense(op))?;
        let put = pb::PutRequest { key: name.to_vec(), value: words.write(), lease: session.lease };
        let request = pb::TxnRequest {
            compare: vec![
                pb::Compare::created_at(name.to_vec(), seq),
                pb::Compare::kept_by(name.to_vec(), lease),
            ],
            success: vec![pb::Request::Put(put).into()],
            failure: Vec::new(),
        };
        Ok(txn(link, op, request).await?.succeeded)
    }
}

fn refused(message: &'static str) -> Error {
    Error::new(ErrorKind::Lost, OP, message).with_engine(ENGINE).not_applied()
}

/// What is known about a claim behind these. When they end is not known, and need not be: who waits is told.
fn busy(claim: &Claim, ahead: &[Standing], seat: Option<Seat>) -> Busy {
    let nearest = ahead.iter().rev().map(|place| place.words.mode);
    Busy {
        seat,
        ttl: None,
        ahead: u32::try_from(ahead.len()).ok(),
        blocker: nearest.into_iter().find(|&other| !line::compatible(other, claim.mode)),
        lapses_in: None,
    }
}
