use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, BootClock, Claim, ClaimId, Clock, Engine, EngineId, Error, ErrorKind, Evicted,
    Eviction, Fact, Filter, Guarantees, Held, Key, Mode, Moment, Op, Place, Released, Renewal, Result, Seq,
    Turn,
};

use crate::{
    ENGINE,
    dial::Dial,
    facts,
    link::{Failure, Link},
    mine::{Mine, Own},
    place::{Line, Paths, weak, write_note},
    session::Session,
    sessions::{self, Sessions},
    trouble,
    url::ZookeeperOptions,
    wire::{Access, Life, Request, Stat, code, read_children, read_data, read_multi, read_stat},
};

/// The most keys whose nodes are known to be there.
const MOST_KNOWN: usize = 1 << 16;

/// Locks in ZooKeeper.
pub struct ZookeeperEngine {
    pub(crate) paths: Paths,
    pub(crate) access: Access,
    identity: EngineId,
    guarantees: Guarantees,
    dial: Arc<Dial>,
    pub(crate) sessions: Sessions,
    pub(crate) mine: Arc<Mine>,
    /// Keys that have a node, or had one a short while ago.
    known: Mutex<HashSet<Key>>,
    /// What the leader's clock showed, and when that was here.
    leader_clock: Mutex<Option<(Duration, Moment)>>,
}

impl ZookeeperEngine {
    /// Opens the engine: asks for the shortest session, and makes the nodes that everything is under.
    ///
    /// # Errors
    /// `Unavailable` if no server serves, `Denied` if the nodes belong to another user.
    pub async fn open(options: ZookeeperOptions) -> Result<Arc<Self>> {
        let paths = Paths::new(&options.root);
        let access = if options.login.is_some() { Access::Creator } else { Access::Anyone };
        let dial = Arc::new(Dial::new(options).await?);
        let shortest = sessions::shortest(&dial).await?;
        let mine = Arc::<Mine>::default();
        let sessions = Sessions::new(dial.clone(), shortest, paths.graves.clone(), mine.clone());
        let mut engine = Self {
            paths,
            access,
            identity: EngineId::fresh(),
            guarantees: facts::guarantees_of(shortest),
            dial,
            sessions,
            mine,
            known: Mutex::default(),
            leader_clock: Mutex::default(),
        };
        let session = engine.sessions.some(Op::Connect).await?;
        let link = session.link().await.map_err(|failure| trouble::of(failure, Op::Connect))?;
        engine.identity = engine.settle(&link).await.map_err(|failure| trouble::of(failure, Op::Connect))?;
        Ok(Arc::new(engine))
    }

    /// Makes the nodes that everything is under, where they are missing, and reads whose they are.
    async fn settle(&self, link: &Link) -> Result<EngineId, Failure> {
        let identity = Request::Get { path: &self.paths.identity, watch: false };
        match link.send(&identity).answer().await {
            Err(Failure::Code(code::NO_NODE)) => self.lay(link).await?,
            other => return whose(&other?),
        }
        whose(&link.send(&identity).answer().await?)
    }

    /// Makes the nodes that everything is under; those that are there already stay.
    pub(crate) async fn lay(&self, link: &Link) -> Result<(), Failure> {
        let root = &self.paths.root;
        let parents = root.match_indices('/').skip(1).map(|(at, _)| &root[..at]);
        let fresh = EngineId::fresh().to_bytes();
        // Nodes above our own may be anybody's to use.
        let parents = parents.map(|path| (path, Access::Anyone, &[][..]));
        let own = [
            (root.as_str(), self.access, &[][..]),
            (&self.paths.lines, self.access, &[]),
            (&self.paths.graves, self.access, &[]),
            (&self.paths.identity, self.access, &fresh),
        ];
        let made: Vec<_> = parents
            .chain(own)
            .map(|(path, access, data)| {
                link.send(&Request::Create { path, data, life: Life::Persistent, access })
            })
            .collect();
        let last = made.len() - 1;
        for (n, made) in made.into_iter().enumerate() {
            match made.answer().await {
                Ok(_) | Err(Failure::Code(code::NODE_EXISTS)) => {}
                // Whoever may not make the nodes above may still use those below.
                Err(Failure::Code(code::NO_AUTH)) if n < last => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// The line of a key as it is now, by the leader's account.
    pub(crate) async fn look(&self, link: &Link, line: &str) -> Result<Line, Failure> {
        let sync = link.send(&Request::Sync { path: line });
        let children = link.send(&Request::Children { path: line, watch: false });
        sync.answer().await?;
        read_line(children.answer().await)
    }

    /// Reads the evictions, through this very connection.
    pub(crate) async fn read_evictions(&self, link: &Link) -> Result<(), Failure> {
        let children = link.send(&Request::Children { path: &self.paths.graves, watch: false });
        match children.answer().await {
            Ok(body) => self.mine.evicted(&read_children(&body).ok_or(Failure::Garbled)?),
            Err(Failure::Code(code::NO_NODE)) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn knows(&self, key: &Key) {
        let mut known = self.known();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key.clone());
    }

    /// The leader's clock showed this, not before `sent`.
    pub(crate) fn clock_was(&self, ms: i64, sent: Moment) {
        let shown = Duration::from_millis(ms.unsigned_abs());
        *self.leader_clock.lock().unwrap_or_else(PoisonError::into_inner) = Some((shown, sent));
    }

    /// What the leader's clock shows now, about.
    pub(crate) fn leader_clock(&self) -> Option<Duration> {
        let known = *self.leader_clock.lock().unwrap_or_else(PoisonError::into_inner);
        known.map(|(shown, at)| shown + BootClock.now().since(at))
    }

    /// How long a claim's place is certain to live, counted from this moment.
    pub(crate) fn certain(session: &Session, claim: &Claim, sent: Moment) -> Duration {
        session.left(sent).min(claim.ttl.get())
    }

    async fn try_downgrade(
        &self,
        own: &Own,
        hold: Held<'_>,
        name: &str,
        sent: Moment,
    ) -> Result<Renewal, Failure> {
        let line = self.paths.line(&hold.claim.key);
        let (place, weak) = (format!("{line}/{name}"), format!("{line}/{}", weak(hold.claim.id)));
        let link = own.session.link().await?;
        // The data do not change; that they are set wakes those who watch the place.
        let data = write_note(&hold.claim.note);
        let both = [
            Request::Create { path: &weak, data: &[], life: Life::Ephemeral, access: self.access },
            Request::Set { path: &place, data: &data },
        ];
        let answer = link.send(&Request::Multi(&both)).answer().await?;
        match read_multi(&answer).ok_or(Failure::Garbled)? {
            0 | code::NODE_EXISTS => {
                own.session.agreed(sent);
                let mut facts = own.facts();
                facts.was_exclusive |= facts.mode == Mode::Exclusive;
                (facts.mode, facts.downgraded) = (Mode::Shared, true);
                Ok(Renewal::Renewed(Some(Self::certain(&own.session, hold.claim, sent))))
            }
            code::NO_NODE => Ok(Renewal::Lost),
            other => Err(Failure::Code(other)),
        }
    }

    async fn try_release(&self, own: &Own, claim: &Claim) -> Result<Released, Failure> {
        let sent = BootClock.now();
        let line = self.paths.line(&claim.key);
        let link = own.session.link().await?;
        let (in_doubt, downgraded, evicted) = {
            let facts = own.facts();
            (facts.in_doubt, facts.downgraded, facts.evicted)
        };
        let name = match own.node(claim.id) {
            Some(name) => Some(name),
            None if in_doubt => {
                self.look(&link, &line).await?.of(claim.id, own.session.id()).map(|spot| spot.name.clone())
            }
            None => None,
        };
        let released = match &name {
            Some(name) => {
                let gone = link.send(&Request::Delete { path: &format!("{line}/{name}") });
                // Behind it on the same connection: a mark without its place means nothing.
                if downgraded {
                    drop(link.send(&Request::Delete { path: &format!("{line}/{}", weak(claim.id)) }));
                }
                let released = match gone.answer().await {
                    Ok(_) => Released::Freed,
                    Err(Failure::Code(code::NO_NODE)) => Released::NotHeld,
                    Err(failure) => return Err(failure),
                };
                own.session.agreed(sent);
                released
            }
            None => Released::NotHeld,
        };
        if evicted {
            drop(link.send(&Request::Delete { path: &self.paths.grave(claim.id) }));
        }
        Ok(released)
    }
}

/// The line that an answer shows: nobody, where there is no node.
pub(crate) fn read_line(answer: Result<Vec<u8>, Failure>) -> Result<Line, Failure> {
    match answer {
        Ok(body) => Ok(Line::read(&read_children(&body).ok_or(Failure::Garbled)?)),
        Err(Failure::Code(code::NO_NODE)) => Ok(Line::default()),
        Err(failure) => Err(failure),
    }
}

/// What is known of a node; `None` where there is none.
pub(crate) async fn stat(link: &Link, path: &str) -> Result<Option<Stat>, Failure> {
    match link.send(&Request::Exists { path }).answer().await {
        Ok(body) => read_stat(&body).map(Some).ok_or(Failure::Garbled),
        Err(Failure::Code(code::NO_NODE)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn whose(body: &[u8]) -> Result<EngineId, Failure> {
    let (data, _) = read_data(body).ok_or(Failure::Garbled)?;
    data.try_into().map(EngineId::from_bytes).map_err(|_| Failure::Garbled)
}

/// The number that a place has by the change that created it.
pub(crate) fn seq_of(stat: &Stat) -> Option<Seq> {
    u64::try_from(stat.created).ok().and_then(Seq::new)
}

pub(crate) fn evicted(claim: &Claim) -> Error {
    Error::new(ErrorKind::Lost, Op::Attempt, "an operator evicted this claim from the line")
        .with_engine(ENGINE)
        .with_key(&claim.key)
        .not_applied()
}

#[async_trait]
impl Engine for ZookeeperEngine {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.stand(claim).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.wait(claim).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let sent = BootClock.now();
        let owned: Vec<_> = holds.iter().map(|hold| self.mine.find(hold.claim.id)).collect();
        let mut sessions: Vec<&Arc<Session>> = Vec::new();
        for own in owned.iter().flatten() {
            if !sessions.iter().any(|session| Arc::ptr_eq(session, &own.session)) {
                sessions.push(&own.session);
            }
        }
        for beat in futures_util::future::join_all(sessions.iter().map(|session| session.beat())).await {
            match beat {
                // That its places are gone is known by now.
                Ok(()) | Err(Failure::Ended) => {}
                Err(failure) => return Err(trouble::of(failure, Op::Renew)),
            }
        }
        let renewal = |(hold, own): (&Held<'_>, &Option<Arc<Own>>)| {
            let Some(own) = own.as_ref().filter(|own| !own.session.has_ended()) else { return Renewal::Lost };
            let facts = own.facts();
            match &facts.place {
                Some(place) if place.seq == hold.seq && !facts.evicted => {
                    Renewal::Renewed(Some(Self::certain(&own.session, hold.claim, sent)))
                }
                _ => Renewal::Lost,
            }
        };
        Ok(holds.iter().zip(&owned).map(renewal).collect())
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        let sent = BootClock.now();
        let Some(own) = self.mine.find(hold.claim.id) else { return Ok(Renewal::Lost) };
        let _gate = own.gate.lock().await;
        let link = own.session.link().await.map_err(|failure| trouble::of(failure, Op::Downgrade))?;
        self.read_evictions(&link).await.map_err(|failure| trouble::of(failure, Op::Downgrade))?;
        {
            let facts = own.facts();
            match &facts.place {
                Some(place) if place.seq == hold.seq && !facts.evicted => {}
                _ => return Ok(Renewal::Lost),
            }
            if matches!(facts.mode, Mode::Permits(_)) {
                let message = "permits have no weaker mode to downgrade to";
                return Err(Error::invalid(message).in_op(Op::Downgrade));
            }
        }
        let name = own.node(hold.claim.id).unwrap_or_default();
        self.try_downgrade(&own, hold, &name, sent)
            .await
            .map_err(|failure| trouble::of(failure, Op::Downgrade))
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        if answered == Answered::InDoubt {
            self.mine.bury(claim.id);
        }
        let Some(own) = self.mine.find(claim.id) else { return Ok(Released::NotHeld) };
        let _gate = own.gate.lock().await;
        match self.try_release(&own, claim).await {
            Ok(released) => {
                self.mine.forget(claim.id);
                Ok(released)
            }
            // The place went with its session.
            Err(Failure::Ended) => {
                self.mine.forget(claim.id);
                Ok(Released::NotHeld)
            }
            Err(failure) => Err(trouble::of(failure, Op::Release).with_key(&claim.key)),
        }
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.mine.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.show(filter).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.remove(eviction).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        facts::examine(&self.dial, self.access, &self.guarantees).await
    }
}

impl fmt::Debug for ZookeeperEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZookeeperEngine").field("dial", &self.dial).finish_non_exhaustive()
    }
}
