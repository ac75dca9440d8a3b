//! Taking a place, or finding the one there is.

use std::sync::Arc;

use tenure_core::{
    Attempt, Busy, Claim, Error, ErrorKind, Grant, Incarnation, Moment, Op, Patience, Result, Seat, Seq, line,
};

use crate::{
    ENGINE,
    link::Link,
    pb,
    place::{self, Standing, modes, nonsense},
    session::{Beat, Session, seconds},
    sessions::{Known, Sessions, delete_all, txn},
    spots::Spot,
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

/// The place that an attempt asks for.
struct Wish {
    spot: Spot,
    name: Vec<u8>,
    line: (Vec<u8>, Vec<u8>),
    grave: Vec<u8>,
    words: Words,
    lease: i64,
}

impl Wish {
    fn new(sessions: &Sessions, claim: &Claim, session: &Session) -> Self {
        let (names, spot) = (&sessions.names, sessions.spots.for_claim(claim.id));
        Self {
            spot,
            name: names.place(&claim.key, spot),
            line: names.line(&claim.key),
            grave: names.grave(claim.id),
            words: Words::new(claim),
            lease: session.lease,
        }
    }

    /// Takes a place where nobody is, which needs no look at the line; or else does something else.
    fn alone(&self, otherwise: Vec<pb::RequestOp>) -> pb::TxnRequest {
        pb::TxnRequest {
            compare: vec![pb::Compare::none_in(self.line.clone()), self.not_buried()],
            success: vec![self.put()],
            failure: otherwise,
        }
    }

    /// Takes a place behind whoever is there, unless it has one or may have none, and looks at the line.
    fn behind(&self, also: Option<pb::Compare>) -> pb::TxnRequest {
        let free = [pb::Compare::created_at(self.name.clone(), 0), self.not_buried()];
        pb::TxnRequest {
            compare: free.into_iter().chain(also).collect(),
            success: vec![self.put(), range(self.line.clone())],
            failure: self.look(),
        }
    }

    fn not_buried(&self) -> pb::Compare {
        pb::Compare::created_at(self.grave.clone(), 0)
    }

    fn put(&self) -> pb::RequestOp {
        let (key, value) = (self.name.clone(), self.words.write());
        pb::Request::Put(pb::PutRequest { key, value, lease: self.lease }).into()
    }

    fn look(&self) -> Vec<pb::RequestOp> {
        vec![range(self.line.clone()), range((self.grave.clone(), Vec::new()))]
    }
}

fn range((key, range_end): (Vec<u8>, Vec<u8>)) -> pb::RequestOp {
    pb::Request::Range(pb::RangeRequest { key, range_end, ..Default::default() }).into()
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
        match seen.line.iter().position(|place| place.id() == claim.id) {
            Some(at) if seen.line[at].seq == known.seq => {
                self.stand(asked, claim, &link, &seen, at).await.map(Some)
            }
            _ => {
                self.lose(claim.id, known);
                Ok(None)
            }
        }
    }

    /// Takes a place if there is none, in one transaction that reads the line only if somebody is there.
    async fn take(
        self: &Arc<Self>,
        asked: Moment,
        claim: &Claim,
        session: &Arc<Session>,
        link: &Arc<Link>,
    ) -> Result<Attempt> {
        let wish = Wish::new(self, claim, session);
        // A claim that does not wait takes a place only where it holds: first where nobody is, then where nobody came
        // since it saw that it would.
        let mut request = wish.alone(match claim.patience {
            Patience::Try => wish.look(),
            Patience::Queue => vec![pb::Request::Txn(wish.behind(None)).into()],
        });
        for look in 0..LOOKS {
            let answer = txn(link, OP, request).await?;
            let (header, succeeded) = (answer.header.clone().unwrap_or_default(), answer.succeeded);
            if succeeded && look == 0 {
                return self.stand_alone(asked, claim, session, &wish, &header);
            }
            let mut ranges = answer.ranges().into_iter();
            let kvs = ranges.next().ok_or_else(|| nonsense(OP))?;
            let buried = ranges.next().is_some_and(|grave| !grave.is_empty());
            let mut line = place::read(OP, &self.names, kvs)?;
            self.keep_first(link, claim, &mut line).await?;
            let seen = Seen { line, revision: header.revision, cluster: header.cluster_id };
            if let Some(at) = seen.line.iter().position(|place| place.id() == claim.id) {
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
            request = wish.behind(Some(pb::Compare::unwritten_since(wish.line.clone(), seen.revision)));
        }
        let message = "others came in each time it looked";
        Err(Error::unavailable(OP, message).with_engine(ENGINE).not_applied())
    }

    /// Gives up the place that was just taken if the claim had one that was not known here, which then counts.
    async fn keep_first(&self, link: &Link, claim: &Claim, line: &mut Vec<Standing>) -> Result<()> {
        let mut own = line.iter().filter(|place| place.id() == claim.id);
        let first = own.next().map(|place| place.spot);
        let doubled: Vec<_> = own.map(|place| pb::Request::delete(place.name.clone())).collect();
        if !doubled.is_empty() {
            delete_all(link, OP, doubled).await?;
            line.retain(|place| place.id() != claim.id || Some(place.spot) == first);
        }
        Ok(())
    }

    /// The place was taken where nobody was: it is the first, and all there is.
    fn stand_alone(
        &self,
        asked: Moment,
        claim: &Claim,
        session: &Arc<Session>,
        wish: &Wish,
        header: &pb::Header,
    ) -> Result<Attempt> {
        let seq = Seq::new(header.revision.unsigned_abs()).ok_or_else(|| nonsense(OP))?;
        let seat = Seat { seq, incarnation: Incarnation(header.cluster_id) };
        let known = Known::new(claim.key.clone(), wish.spot, seq, session.clone(), &wish.words);
        self.note_or_fail(claim, known)?;
        let ttl = session.left(asked, claim.ttl);
        Ok(Attempt::Granted(Grant { seat, ttl: Some(ttl), remembers: None }))
    }

    fn note_or_fail(&self, claim: &Claim, known: Known) -> Result<()> {
        if self.note(claim.id, known) {
            return Ok(());
        }
        Err(Error::unavailable(OP, "the lease ended meanwhile").with_engine(ENGINE))
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
            delete_all(link, OP, vec![pb::Request::delete(place.name.clone())]).await?;
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
        let known = Known::new(claim.key.clone(), place.spot, place.seq, session.clone(), &place.words);
        self.note_or_fail(claim, known.waiting_for(wait))?;
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
