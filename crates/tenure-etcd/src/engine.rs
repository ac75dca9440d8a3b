//! The verbs.

use std::{collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, EngineId, Error, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Mode, Op, Place, Released, Renewal, Result, Seq, Turn,
};

use crate::{
    ENGINE,
    facts::{Kind, facts, guarantees_of},
    links::Links,
    names::Names,
    pb,
    place::nonsense,
    session::{Beat, Session},
    sessions::{Known, Sessions, delete_all, txn},
    spots::Spot,
    tls::Trust,
    turn::turn,
    url::EtcdOptions,
    words::Words,
};

/// Locks in etcd.
pub struct EtcdEngine {
    pub(crate) sessions: Arc<Sessions>,
    identity: EngineId,
    guarantees: Guarantees,
}

impl EtcdEngine {
    /// Connects to the first server that answers and knows a leader.
    ///
    /// # Errors
    /// `Unavailable` if none does, `Denied` for a wrong password or a user who lacks rights, `Unsupported` for a
    /// server older than 3.4.
    pub async fn open(options: EtcdOptions) -> Result<Arc<Self>> {
        let trust = match &options.tls {
            Some(tls) => Some(Trust::load(tls).await?),
            None => None,
        };
        let names = Names::new(&options.ns);
        let hosts = options.hosts.len();
        let sessions = Arc::new(Sessions::new(Links::new(options, trust), names));
        let identity = identity(&sessions).await?;
        let guarantees = guarantees_of(Kind::find(&sessions.links, hosts).await?);
        Ok(Arc::new(Self { sessions, identity, guarantees }))
    }

    /// Finds a place that this client took but never heard of.
    pub(crate) async fn recognise(&self, op: Op, claim: &Claim) -> Result<Option<Known>> {
        let sessions = &self.sessions;
        let link = sessions.links.at(op).await?;
        let found = sessions.seek(op, &link, claim).await?.into_iter().next();
        let ours = found.and_then(|place| Some((sessions.session_of(place.lease)?, place)));
        let Some((session, place)) = ours.filter(|(_, place)| !place.words.stopped) else { return Ok(None) };
        let known = Known::new(place.key, place.spot, place.seq, session, &place.words);
        Ok(sessions.note(claim.id, known.clone()).then_some(known))
    }

    /// Writes a place of ours anew, and notes it.
    pub(crate) async fn put_again(
        &self,
        op: Op,
        place: &Known,
        words: Words,
        session: &Arc<Session>,
        claim: &Claim,
    ) -> Result<bool> {
        let link = self.sessions.links.at(op).await?;
        let name = self.sessions.names.place(&claim.key, place.spot);
        let (seq, lease) = (place.seq.get(), place.session.lease);
        let done = self.sessions.put_again(op, &link, &name, seq, lease, &words, session).await?;
        if done {
            let known = Known::new(claim.key.clone(), place.spot, place.seq, session.clone(), &words)
                .waiting_for(place.wait.clone());
            return Ok(self.sessions.note(claim.id, known));
        }
        Ok(false)
    }

    async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        const OP: Op = Op::Downgrade;
        let asked = self.sessions.now();
        let known = match self.sessions.known(hold.claim.id) {
            Some(known) => Some(known),
            None => self.recognise(OP, hold.claim).await?,
        };
        let Some(known) = known.filter(|known| known.seq == hold.seq) else { return Ok(Renewal::Lost) };
        if matches!(known.mode, Mode::Permits(_)) {
            return Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(OP));
        }
        if self.sessions.beat(OP, &known.session).await? == Beat::Ended {
            return Ok(Renewal::Lost);
        }
        let words = Words { mode: Mode::Shared, ..known.words(hold.claim) };
        if self.put_again(OP, &known, words, &known.session, hold.claim).await? {
            Ok(Renewal::Renewed(Some(known.session.left(asked, hold.claim.ttl))))
        } else {
            self.sessions.lose(hold.claim.id, &known);
            Ok(Renewal::Lost)
        }
    }

    async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        const OP: Op = Op::Release;
        let sessions = &self.sessions;
        let left = sessions.leave(claim.id);
        let name = |spot: Spot| sessions.names.place(&claim.key, spot);
        let owed = Owed { sessions, name: left.stood.or(left.asked).map(name) };
        let link = sessions.links.at(OP).await?;
        let deleted = match (answered, left.stood) {
            (Answered::All, Some(spot)) => {
                let delete = pb::DeleteRangeRequest { key: name(spot), ..Default::default() };
                let gone: pb::DeleteRangeResponse =
                    link.call(OP, "etcdserverpb.KV/DeleteRange", &delete).await?;
                gone.deleted
            }
            _ => {
                // Another client may have taken it.
                let found = sessions.seek(OP, &link, claim).await?.into_iter().map(|place| place.spot);
                let mut spots: BTreeSet<Spot> = found.collect();
                let mut grave = None;
                if answered == Answered::InDoubt {
                    // Or it is on its way.
                    spots.extend(left.stood.into_iter().chain(left.asked));
                    let lease = sessions.grave_lease(OP, &link, claim.ttl.get()).await?;
                    let key = sessions.names.grave(claim.id);
                    grave = Some(pb::Request::Put(pb::PutRequest { key, value: Vec::new(), lease }).into());
                }
                let delete = |spot| pb::Request::delete(name(spot));
                delete_all(&link, OP, spots.into_iter().map(delete).chain(grave).collect()).await?
            }
        };
        if answered == Answered::All {
            // Nothing that was said about this claim can strike whoever stands there next.
            left.stood.into_iter().chain(left.asked).for_each(|spot| sessions.spots.leave(spot));
        }
        owed.paid();
        Ok(if deleted > 0 { Released::Freed } else { Released::NotHeld })
    }
}

/// A release that is under way. Dropped before it was answered, it is made up for later.
struct Owed<'a> {
    sessions: &'a Sessions,
    name: Option<Vec<u8>>,
}

impl Owed<'_> {
    fn paid(mut self) {
        self.name = None;
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.sessions.owe(name);
        }
    }
}

/// The identity that is kept in the store, drawn at its first use.
async fn identity(sessions: &Sessions) -> Result<EngineId> {
    const OP: Op = Op::Connect;
    let link = sessions.links.at(OP).await?;
    let key = sessions.names.about();
    let value = EngineId::fresh().to_bytes().to_vec();
    let look = pb::RangeRequest { key: key.clone(), ..Default::default() };
    let found: pb::RangeResponse = link.call(OP, "etcdserverpb.KV/Range", &look).await?;
    let mut kvs = found.kvs;
    if kvs.is_empty() {
        let request = pb::TxnRequest {
            compare: vec![pb::Compare::created_at(key.clone(), 0)],
            success: vec![
                pb::Request::Put(pb::PutRequest { key, value, lease: 0 }).into(),
                pb::Request::Range(look.clone()).into(),
            ],
            failure: vec![pb::Request::Range(look).into()],
        };
        kvs = txn(&link, OP, request).await?.ranges().concat();
    }
    let bytes = kvs.first().and_then(|kv| kv.value.as_slice().try_into().ok());
    bytes.map(EngineId::from_bytes).ok_or_else(|| nonsense(OP))
}

#[async_trait]
impl tenure_core::Engine for EtcdEngine {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.sessions.attempt(claim).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        turn(&self.sessions, claim).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.renew_(holds).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.downgrade_(hold).await.map_err(|err| err.with_key(&hold.claim.key).with_engine(ENGINE))
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.release_(claim, answered).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.sessions.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.sessions.places(filter).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.sessions.evict(eviction).await.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        facts(&self.sessions.links).await.map_err(|err| err.with_engine(ENGINE))
    }
}

impl fmt::Debug for EtcdEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdEngine").field("options", &self.sessions.links.options).finish_non_exhaustive()
    }
}
