//! The leases of this client, and the places that they keep.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{
    BootClock, Claim, ClaimId, Clock, Error, Held, Key, Losses, Mode, Moment, Op, Result, Seq,
};
use tokio::time::timeout;

use crate::{
    ENGINE,
    link::Link,
    links::Links,
    names::Names,
    pb,
    place::{self, Standing},
    session::{Beat, Session, lock, seconds},
    spots::{Spot, Spots},
    turn::Wait,
    words::Words,
};

/// After this part of its time a lease is kept alive before anything is promised on it.
const OLD: f64 = 0.5;
/// The most keys in one transaction: a server takes 128 by default.
pub(crate) const CHUNK: usize = 64;
/// The most releases that are made up for.
const MOST_OWED: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) links: Links,
    pub(crate) names: Names,
    pub(crate) spots: Spots,
    table: Mutex<Table>,
    /// How many places were found to be gone, or to be kept by another lease, ever: raised with the table locked.
    gone: AtomicU64,
    /// Held while a lease is being asked for.
    opening: tokio::sync::Mutex<()>,
    /// Keeps graves for as long as an attempt may be late.
    graves: tokio::sync::Mutex<Option<(i64, Moment)>>,
    losses: Losses,
    /// Places that could not be released when it was asked for. Nobody else would: the lease that keeps them lives on.
    owed: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct Table {
    /// One for each lease time.
    sessions: HashMap<u64, Arc<Session>>,
    places: HashMap<ClaimId, Known, BuildHasherDefault<InTurn>>,
}

/// Puts claims into a table in the order in which they were drawn, so that a renewal, which asks for many in that order,
/// finds them side by side. This client draws them itself: nobody can choose ids that meet.
#[derive(Debug, Default)]
struct InTurn(u64);

impl Hasher for InTurn {
    fn finish(&self) -> u64 {
        // A table tells neighbours apart by the upmost bits.
        self.0 ^ self.0 << 57
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u128(&mut self, id: u128) {
        self.0 ^= id as u64;
    }
}

/// A place of this client. There may be many: what its claim has too is not kept here.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) key: Key,
    pub(crate) spot: Spot,
    pub(crate) seq: Seq,
    pub(crate) session: Arc<Session>,
    pub(crate) mode: Mode,
    /// What stands in the place as ttl, and when it was taken, both in microseconds.
    ttl_micros: u64,
    taken_micros: u64,
    /// What to watch for, if it does not hold.
    pub(crate) wait: Option<Arc<Wait>>,
}

/// Where a claim that is released may have a place of this client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// Where it was known to stand.
    pub(crate) stood: Option<Spot>,
    /// Where it asked for a place and was given none, or no answer.
    pub(crate) asked: Option<Spot>,
}

impl Known {
    /// A place that has these words in it.
    pub(crate) fn new(key: Key, spot: Spot, seq: Seq, session: Arc<Session>, words: &Words) -> Self {
        let ttl_micros = u64::try_from(words.ttl.as_micros()).unwrap_or(u64::MAX);
        Self { key, spot, seq, session, mode: words.mode, ttl_micros, taken_micros: words.taken, wait: None }
    }

    /// The same, with something to watch for.
    pub(crate) fn waiting_for(self, wait: Option<Arc<Wait>>) -> Self {
        Self { wait, ..self }
    }

    /// What stands in it, to write it anew. This is its claim.
    pub(crate) fn words(&self, claim: &Claim) -> Words {
        Words {
            id: claim.id,
            mode: self.mode,
            ttl: Duration::from_micros(self.ttl_micros),
            taken: self.taken_micros,
            stopped: false,
            note: claim.note.clone(),
        }
    }
}

impl Sessions {
    pub(crate) fn new(links: Links, names: Names) -> Self {
        Self {
            links,
            names,
            spots: Spots::new(),
            table: Mutex::default(),
            gone: AtomicU64::new(0),
            opening: tokio::sync::Mutex::default(),
            graves: tokio::sync::Mutex::default(),
            losses: Losses::default(),
            owed: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        BootClock.now()
    }

    /// A lease for places that ask for this much time, fresh enough to be promised.
    pub(crate) async fn fresh(self: &Arc<Self>, op: Op, claim: &Claim) -> Result<Arc<Session>> {
        let seconds = seconds(claim.ttl.get());
        let there = || lock(&self.table).sessions.get(&seconds).cloned();
        if let Some(session) = there()
            && self.freshen(op, &session).await? == Beat::Lives
        {
            return Ok(session);
        }
        let _opening = self.opening.lock().await;
        // Another task may have been first.
        if let Some(session) = there() {
            return Ok(session);
        }
        self.open(op, seconds).await
    }

    /// Keeps a lease alive if it is high time to.
    pub(crate) async fn freshen(self: &Arc<Self>, op: Op, session: &Arc<Session>) -> Result<Beat> {
        if session.age(self.now()) >= OLD {
            return self.beat(op, session).await;
        }
        Ok(if session.lives() { Beat::Lives } else { Beat::Ended })
    }

    async fn open(self: &Arc<Self>, op: Op, seconds: u64) -> Result<Arc<Session>> {
        let link = self.links.at(op).await?;
        let sent = self.now();
        let (lease, granted) = grant(&link, op, seconds).await?;
        let key = self.names.session(lease);
        let put = pb::PutRequest { key, value: Vec::new(), lease };
        let done: pb::PutResponse =
            link.call(op, "etcdserverpb.KV/Put", &put).await.map_err(Error::not_applied)?;
        let revision = done.header.unwrap_or_default().revision;
        let session = Arc::new(Session::new(lease, seconds, sent, granted, revision));
        lock(&self.table).sessions.insert(seconds, session.clone());
        let keeper = keep(Arc::downgrade(self), Arc::downgrade(&session));
        *lock(&session.keeper) = Some(tokio::spawn(keeper).abort_handle());
        Ok(session)
    }

    /// Keeps a lease alive and learns what became of its places. Those who ask at the same time share one trip, but
    /// nobody shares one that began before they asked.
    pub(crate) async fn beat(self: &Arc<Self>, op: Op, session: &Arc<Session>) -> Result<Beat> {
        let before = session.begun.load(Ordering::Acquire);
        let _flying = session.flying.lock().await;
        if let Some((number, outcome)) = &*lock(&session.newest)
            && *number > before
        {
            return outcome.clone();
        }
        // Whoever asks in the same breath is counted in.
        tokio::task::yield_now().await;
        let number = session.begun.fetch_add(1, Ordering::AcqRel) + 1;
        // A server may keep a keep-alive for seconds while its leader is frozen, when the next one would go to another.
        let limit = Duration::from_secs(session.seconds) / 6;
        let outcome = timeout(limit, self.beat_once(op, session)).await.unwrap_or_else(|_| {
            Err(Error::unavailable(op, "the lease was not kept alive in time").with_engine(ENGINE))
        });
        *lock(&session.newest) = Some((number, outcome.clone()));
        outcome
    }

    async fn beat_once(self: &Arc<Self>, op: Op, session: &Arc<Session>) -> Result<Beat> {
        if !session.lives() {
            return Ok(Beat::Ended);
        }
        let sent = self.now();
        let link = self.links.at(op).await?;
        let (keep, key) = (pb::LeaseId { id: session.lease }, self.names.session(session.lease));
        let look = pb::RangeRequest { key, keys_only: true, ..Default::default() };
        let (lives, look): (pb::LeaseLives, pb::RangeResponse) = futures_util::try_join!(
            link.call(op, "etcdserverpb.Lease/LeaseKeepAlive", &keep),
            link.call(op, "etcdserverpb.KV/Range", &look),
        )?;
        match judge(&lives, &look) {
            Verdict::Ended => {
                self.bury(session);
                return Ok(Beat::Ended);
            }
            Verdict::Unproven => {
                let message = "a leader was elected meanwhile, so nobody knows who kept the lease alive";
                return Err(Error::unavailable(op, message).with_engine(ENGINE));
            }
            Verdict::Lives { granted, written } => {
                if written != session.noticed() {
                    self.look_after(op, &link, session).await?;
                }
                session.beaten(sent, granted, written);
            }
        }
        self.pay(&link);
        Ok(Beat::Lives)
    }

    /// Finds out which places of a session are gone, and says so.
    pub(crate) async fn look_after(&self, op: Op, link: &Link, session: &Arc<Session>) -> Result<()> {
        let ours: Vec<(ClaimId, Known)> = {
            let table = lock(&self.table);
            let ours = table.places.iter().filter(|(_, known)| Arc::ptr_eq(&known.session, session));
            ours.map(|(id, known)| (*id, known.clone())).collect()
        };
        for chunk in ours.chunks(CHUNK) {
            let places = chunk.iter().map(|(id, known)| (*id, known));
            for ((id, known), stands) in places.clone().zip(self.standing(op, link, places).await?) {
                if !stands {
                    self.lose(id, known);
                }
            }
        }
        Ok(())
    }

    /// Which of these places are still there, under their number and their lease.
    pub(crate) async fn standing(
        &self,
        op: Op,
        link: &Link,
        places: impl Iterator<Item = (ClaimId, &Known)> + Clone,
    ) -> Result<Vec<bool>> {
        let look = |(_, known): (ClaimId, &Known)| {
            let key = self.names.place(&known.key, known.spot);
            pb::Request::Range(pb::RangeRequest { key, keys_only: true, ..Default::default() }).into()
        };
        let success = places.clone().map(look).collect();
        let found = txn(link, op, pb::TxnRequest { success, ..Default::default() }).await?;
        let stands = |((_, known), answer): ((ClaimId, &Known), &pb::ResponseOp)| match &answer.response {
            Some(pb::Response::Range(range)) => range.kvs.first().is_some_and(|kv| {
                kv.create_revision.unsigned_abs() == known.seq.get() && kv.lease == known.session.lease
            }),
            _ => false,
        };
        Ok(places.zip(&found.responses).map(stands).collect())
    }

    /// Listens for what others do to a session.
    async fn watch(&self, session: &Session) -> Option<crate::link::Watching> {
        let watch = pb::WatchCreateRequest {
            key: self.names.session(session.lease),
            start_revision: session.noticed() + 1,
            ..Default::default()
        };
        let link = self.links.at(Op::Renew).await.ok()?;
        link.watch(watch).await.ok()
    }

    /// A lease has ended, and with it all its places.
    pub(crate) fn bury(&self, session: &Arc<Session>) {
        let gone: Vec<(ClaimId, Seq)> = {
            let mut table = lock(&self.table);
            // Whoever sees that it has ended, and then looks at the table, finds none of its places.
            session.end();
            if table.sessions.get(&session.seconds).is_some_and(|other| Arc::ptr_eq(other, session)) {
                table.sessions.remove(&session.seconds);
            }
            let gone = table.places.extract_if(|_, known| Arc::ptr_eq(&known.session, session));
            let gone: Vec<_> = gone.map(|(id, known)| (id, known.seq)).collect();
            self.gone.fetch_add(gone.len() as u64, Ordering::AcqRel);
            gone
        };
        self.losses.tell(gone);
    }

    /// A place is gone, though its lease is not.
    pub(crate) fn lose(&self, id: ClaimId, known: &Known) {
        let mut table = lock(&self.table);
        if table.places.get(&id).is_some_and(|now| now.seq == known.seq) {
            table.places.remove(&id);
            self.gone.fetch_add(1, Ordering::AcqRel);
            drop(table);
            self.losses.tell([(id, known.seq)]);
        }
    }

    /// How many places were found to be gone or moved so far: if it is what it was, what was known then still stands, but
    /// for what was released.
    pub(crate) fn gone(&self) -> u64 {
        self.gone.load(Ordering::Acquire)
    }

    /// Resolves with places that are gone though nobody asked.
    pub(crate) async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.losses.next().await
    }

    pub(crate) fn known(&self, id: ClaimId) -> Option<Known> {
        lock(&self.table).places.get(&id).cloned()
    }

    /// Shows what is known of the place of each of these, in their order.
    pub(crate) fn of_each<'a, T>(
        &self,
        holds: &[Held<'a>],
        mut see: impl FnMut(&Held<'a>, Option<&Known>) -> T,
    ) -> Vec<T> {
        let table = lock(&self.table);
        holds.iter().map(|hold| see(hold, table.places.get(&hold.claim.id))).collect()
    }

    /// Notes a place, unless its lease has ended meanwhile.
    pub(crate) fn note(&self, id: ClaimId, known: Known) -> bool {
        let mut table = lock(&self.table);
        let lives = known.session.lives();
        if lives {
            self.spots.asked(id);
            let (seq, session) = (known.seq, known.session.clone());
            let before = table.places.insert(id, known);
            if before.is_some_and(|before| before.seq != seq || !Arc::ptr_eq(&before.session, &session)) {
                self.gone.fetch_add(1, Ordering::AcqRel);
            }
        }
        lives
    }

    pub(crate) fn forget(&self, id: ClaimId) {
        let mut table = lock(&self.table);
        if table.places.remove(&id).is_some() {
            self.gone.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Forgets a claim that is released.
    pub(crate) fn leave(&self, id: ClaimId) -> Left {
        let known = lock(&self.table).places.remove(&id);
        Left { stood: known.map(|known| known.spot), asked: self.spots.asked(id) }
    }

    /// Looks for the places of a claim, wherever they stand.
    pub(crate) async fn seek(&self, op: Op, link: &Link, claim: &Claim) -> Result<Vec<Standing>> {
        let (key, range_end) = self.names.line(&claim.key);
        let look = pb::RangeRequest { key, range_end, ..Default::default() };
        let found: pb::RangeResponse = link.call(op, "etcdserverpb.KV/Range", &look).await?;
        let mut line = place::read(op, &self.names, found.kvs)?;
        line.retain(|place| place.id() == claim.id);
        Ok(line)
    }

    /// The session with this lease, if it is one of ours.
    pub(crate) fn session_of(&self, lease: i64) -> Option<Arc<Session>> {
        lock(&self.table).sessions.values().find(|session| session.lease == lease).cloned()
    }

    /// A lease for the graves of claims with this ttl: it outlives any attempt that is still on its way.
    pub(crate) async fn grave_lease(&self, op: Op, link: &Link, ttl: Duration) -> Result<i64> {
        let mut graves = self.graves.lock().await;
        let now = self.now();
        if let Some((lease, until)) = *graves
            && until >= now + ttl
        {
            return Ok(lease);
        }
        let (lease, granted) = grant(link, op, 2 * seconds(ttl)).await?;
        *graves = Some((lease, now + granted));
        Ok(lease)
    }

    pub(crate) fn owe(&self, name: Vec<u8>) {
        let mut owed = lock(&self.owed);
        if owed.len() < MOST_OWED {
            owed.push(name);
        }
    }

    /// Deletes what could not be deleted before.
    fn pay(self: &Arc<Self>, link: &Arc<Link>) {
        let owed: Vec<Vec<u8>> = {
            let mut owed = lock(&self.owed);
            let some = owed.len().min(CHUNK);
            owed.drain(..some).collect()
        };
        if owed.is_empty() {
            return;
        }
        let (this, link) = (self.clone(), link.clone());
        tokio::spawn(async move {
            let all = owed.iter().cloned().map(pb::Request::delete).collect();
            if delete_all(&link, Op::Release, all).await.is_err() {
                lock(&this.owed).extend(owed);
            }
        });
    }

    /// Whether a session keeps anything that is known here.
    fn keeps(&self, session: &Arc<Session>) -> bool {
        lock(&self.table).places.values().any(|known| Arc::ptr_eq(&known.session, session))
    }
}

/// Keeps a session alive while it has places, for as long as this client lives, and hears at once what a renewal would
/// learn later: that somebody was evicted, or the lease is gone.
async fn keep(sessions: Weak<Sessions>, session: Weak<Session>) {
    let mut watching = None;
    // Whether the server takes watches: one that refuses them is not asked again at once.
    let mut heard = true;
    loop {
        let pause = match (sessions.upgrade(), session.upgrade()) {
            (Some(this), Some(session)) if session.lives() => {
                if watching.is_none() && std::mem::replace(&mut heard, false) {
                    watching = this.watch(&session).await;
                }
                session.pause(this.now(), this.keeps(&session))
            }
            _ => return,
        };
        let news = match &mut watching {
            Some(watching) => timeout(pause, watching.next()).await,
            None => timeout(pause, std::future::pending()).await,
        };
        let (Some(this), Some(session)) = (sessions.upgrade(), session.upgrade()) else { return };
        match news {
            // Nothing was heard, and nobody may have kept it alive meanwhile.
            Err(_) => {
                heard = true;
                if session.is_stale(this.now()) && this.keeps(&session) {
                    // If it fails, whoever renews or asks tries again, and so does this.
                    let _ = this.beat(Op::Renew, &session).await;
                }
            }
            Ok(Ok(Some(news))) if news.events.iter().any(pb::Event::is_deletion) => this.bury(&session),
            Ok(Ok(Some(news))) if !news.events.is_empty() => {
                if let Ok(link) = this.links.at(Op::Renew).await {
                    // The renewal that follows looks again.
                    let _ = this.look_after(Op::Renew, &link, &session).await;
                }
            }
            Ok(Ok(Some(news))) if !news.canceled => heard = true,
            // The connection broke, or the store forgot: what was missed is seen by the next beat.
            Ok(_) => {
                watching = None;
                let _ = this.beat(Op::Renew, &session).await;
            }
        }
    }
}

/// Asks for a lease; it may live longer than asked for.
pub(crate) async fn grant(link: &Link, op: Op, seconds: u64) -> Result<(i64, Duration)> {
    let asked = pb::LeaseGrantRequest { ttl: i64::try_from(seconds).unwrap_or(i64::MAX) };
    let granted: Result<pb::LeaseGrantResponse> =
        link.call(op, "etcdserverpb.Lease/LeaseGrant", &asked).await;
    // One whose reply was lost keeps nothing, and ends by itself.
    let granted = granted.map_err(Error::not_applied)?;
    Ok((granted.id, Duration::from_secs(granted.ttl.unsigned_abs())))
}

pub(crate) async fn txn(link: &Link, op: Op, txn: pb::TxnRequest) -> Result<pb::TxnResponse> {
    link.call(op, "etcdserverpb.KV/Txn", &txn).await
}

/// Does all of this at once: how many keys it deleted.
pub(crate) async fn delete_all(link: &Link, op: Op, success: Vec<pb::RequestOp>) -> Result<i64> {
    if success.is_empty() {
        return Ok(0);
    }
    let done = txn(link, op, pb::TxnRequest { success, ..Default::default() }).await?;
    let gone = done.responses.into_iter().map(|op| match op.response {
        Some(pb::Response::Delete(gone)) => gone.deleted,
        _ => 0,
    });
    Ok(gone.sum())
}

/// What a keep-alive and the read beside it show together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The lease lives for so long, counted from before both; its key was last written at this revision.
    Lives { granted: Duration, written: i64 },
    /// There is no such lease, or nothing left of it.
    Ended,
    /// Nobody knows.
    Unproven,
}

/// A keep-alive is answered by whoever believes to be the leader; the read beside it only by who is. If one was elected
/// between the two, as far as the server that gave them knows, the lease may have been kept alive by the one before.
fn judge(lives: &pb::LeaseLives, look: &pb::RangeResponse) -> Verdict {
    let term = |header: &Option<pb::Header>| header.as_ref().map(|header| header.raft_term);
    match (look.kvs.first(), u64::try_from(lives.ttl)) {
        (Some(kv), Ok(seconds @ 1..)) => match (term(&lives.header), term(&look.header)) {
            (Some(one), Some(two)) if one == two => {
                Verdict::Lives { granted: Duration::from_secs(seconds), written: kv.mod_revision }
            }
            _ => Verdict::Unproven,
        },
        _ => Verdict::Ended,
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    fn judged(ttl: i64, there: bool, terms: [Option<u64>; 2]) -> Verdict {
        let [one, two] =
            terms.map(|term| term.map(|raft_term| pb::Header { raft_term, ..Default::default() }));
        let kv = pb::KeyValue { mod_revision: 7, ..Default::default() };
        let kvs = if there { vec![kv] } else { Vec::new() };
        judge(&pb::LeaseLives { header: one, ttl }, &pb::RangeResponse { header: two, kvs, more: false })
    }

    #[test]
    fn claims_lie_in_a_table_as_they_were_drawn() {
        let hash = |id: ClaimId| BuildHasherDefault::<InTurn>::default().hash_one(id);
        let process = ClaimId::fresh().to_bytes();
        let drawn = |count: u64| {
            let mut bytes = process;
            bytes[10..].copy_from_slice(&count.to_be_bytes()[2..]);
            hash(ClaimId::from_bytes(bytes))
        };
        for count in 0..1000 {
            let (one, next) = (drawn(count), drawn(count + 1));
            assert_eq!((next as u32).wrapping_sub(one as u32), 1, "not side by side");
            assert_ne!(next >> 57, one >> 57, "a table takes neighbours for the same");
        }
    }

    /// A renewal looks at what it knows before it asks, and not again afterwards if this number is the same.
    #[test]
    fn whatever_ends_or_moves_a_place_is_counted() {
        let mut url = "etcd://h".parse().unwrap();
        let options = crate::EtcdOptions::from_url(&mut url).unwrap();
        let sessions = Sessions::new(Links::new(options, None), Names::new("tenure"));
        let session = |lease| Arc::new(Session::new(lease, 15, sessions.now(), Duration::from_secs(15), 1));
        let (id, one, other) = (ClaimId::fresh(), session(1), session(2));
        let words = Words::read(format!("1 {id} shared 1 1 stands\n\n").as_bytes()).unwrap();
        let place = |seq, session: &Arc<Session>| {
            let (key, spot) = (Key::new("k").unwrap(), Spot { client: 1, number: 1 });
            Known::new(key, spot, Seq::new(seq).unwrap(), session.clone(), &words)
        };
        let counted = |change: &dyn Fn()| {
            let before = sessions.gone();
            change();
            sessions.gone() - before
        };
        let note = |seq, session: &Arc<Session>| assert!(sessions.note(id, place(seq, session)));
        assert_eq!(counted(&|| note(7, &one)), 0, "a new place");
        assert_eq!(counted(&|| note(7, &one)), 0, "the same again");
        assert_eq!(counted(&|| note(8, &one)), 1, "another number");
        assert_eq!(counted(&|| note(8, &other)), 1, "another lease");
        assert_eq!(counted(&|| sessions.bury(&one)), 0, "the end of a lease that keeps nothing");
        assert_eq!(counted(&|| sessions.lose(id, &place(7, &other))), 0, "the loss of one that is not there");
        assert_eq!(counted(&|| sessions.lose(id, &place(8, &other))), 1, "a loss");
        note(9, &other);
        assert_eq!(counted(&|| sessions.forget(id)), 1, "one that is forgotten");
        note(9, &other);
        assert_eq!(counted(&|| sessions.bury(&other)), 1, "the end of a lease");
        assert!(!sessions.note(id, place(9, &other)), "a place of a lease that has ended");
    }

    #[test]
    fn a_lease_lives_if_it_was_kept_alive_and_read_under_one_leader() {
        let lives = Verdict::Lives { granted: Duration::from_secs(15), written: 7 };
        assert_eq!(judged(15, true, [Some(3), Some(3)]), lives);
        for terms in [[Some(2), Some(3)], [Some(3), Some(2)], [None, Some(3)], [Some(3), None], [None, None]]
        {
            assert_eq!(judged(15, true, terms), Verdict::Unproven, "{terms:?}");
        }
        for ttl in [0, -1] {
            assert_eq!(judged(ttl, true, [Some(3), Some(3)]), Verdict::Ended);
        }
        assert_eq!(judged(15, false, [Some(3), Some(3)]), Verdict::Ended);
    }
}
