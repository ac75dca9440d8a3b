//! The verbs, each a few meta commands on the server that has the key.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, EngineId, Error, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Key, Op, Place, Released, Renewal, Result, Seq, Turn,
};

use crate::{
    ENGINE,
    attempt::Read,
    commands::Commands,
    facts::{MIN_TTL, guarantees},
    line::Line,
    link::Link,
    links::Links,
    names::Names,
    reply::Reply,
    seats::Seats,
    trouble::{foreign, nonsense, refused},
    url::MemcachedOptions,
};

/// How long a line is kept after it was last written or renewed, in seconds: twice the longest lease.
pub(crate) const KEPT: u64 = 2 * 24 * 60 * 60;
/// How often a verb tries again when somebody else was faster.
pub(crate) const ROUNDS: usize = 64;
/// The longest any verb takes.
const LONGEST: Duration = Duration::from_secs(5);

/// Locks in memcached.
pub struct MemcachedEngine {
    pub(crate) links: Links,
    pub(crate) names: Names,
    pub(crate) seats: Seats,
    identity: EngineId,
}

impl MemcachedEngine {
    /// Connects to every server, and looks at what they are.
    ///
    /// # Errors
    /// `Unavailable` if one does not answer, `Denied` for a wrong password, `Unsupported` for a server that is too old
    /// or that gives no unique numbers (`-C`).
    pub async fn open(options: MemcachedOptions) -> Result<Arc<Self>> {
        let names = Names::new(&options.ns);
        let links = Links::new(options, names.probe());
        let all = links.all().await?;
        // On one server for all clients, whatever the order in which they name them.
        let first = all
            .iter()
            .min_by_key(|link| link.address.to_string())
            .ok_or_else(|| Error::invalid("no host"))?;
        let identity = identity(first, &names.identity()).await?;
        Ok(Arc::new(Self { links, names, seats: Seats::default(), identity }))
    }

    /// Asks every server for something that is not there: the bare round trip that every verb can be compared with.
    ///
    /// # Errors
    /// `Unavailable` if one does not answer.
    pub async fn ping(&self) -> Result<()> {
        for link in self.links.all().await? {
            let mut ask = Commands::default();
            ask.look(&self.names.probe());
            link.ask(Op::Examine, ask).await?;
        }
        Ok(())
    }

    /// Reads the answer to a question for the line of this key.
    pub(crate) fn read(&self, op: Op, link: &Link, key: &Key, reply: &Reply) -> Result<Read> {
        match reply {
            Reply::Missing => Ok(Read { line: Line::empty(key), cas: None }),
            Reply::Found(item) => {
                let line = Line::read(&item.value, item.cas).filter(|line| line.key == *key);
                let line = line.ok_or_else(|| foreign(op, &link.address))?;
                Ok(Read { line, cas: Some(link.cas(item.cas)) })
            }
            Reply::Refused(said) => Err(refused(op, &link.address, said)),
            _ => Err(nonsense(op, &link.address)),
        }
    }
}

/// Which engine this is: kept in the server, and drawn by whoever comes first.
async fn identity(link: &Link, item: &str) -> Result<EngineId> {
    let mut ask = Commands::default();
    ask.add(item, 0, &EngineId::fresh().to_bytes());
    ask.get(item);
    let replies = link.ask(Op::Connect, ask).await.map_err(Error::not_applied)?;
    match &replies[..] {
        [_, Reply::Found(item)] => match <[u8; 16]>::try_from(item.value.as_slice()) {
            Ok(bytes) => Ok(EngineId::from_bytes(bytes)),
            Err(_) => Err(foreign(Op::Connect, &link.address)),
        },
        [Reply::Refused(said), _] => Err(refused(Op::Connect, &link.address, said)),
        _ => Err(nonsense(Op::Connect, &link.address).not_applied()),
    }
}

#[async_trait]
impl tenure_core::Engine for MemcachedEngine {
    fn guarantees(&self) -> Guarantees {
        guarantees()
    }

    fn identity(&self) -> EngineId {
        self.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        if claim.ttl.get() < MIN_TTL {
            let message = format!("memcached counts in seconds: the ttl must be {MIN_TTL:?} or more");
            return Err(Error::invalid(message).in_op(Op::Attempt).with_key(&claim.key).with_engine(ENGINE));
        }
        let attempt = within(Op::Attempt, claim.ttl.get(), self.attempt_(claim)).await;
        attempt.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn turn(&self, _: &Claim) -> Turn {
        // Nobody tells; the library asks again.
        std::future::pending().await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let ttl = holds.iter().map(|hold| hold.claim.ttl.get()).min().unwrap_or(LONGEST);
        within(Op::Renew, ttl, self.renew_(holds)).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        let downgrade = within(Op::Downgrade, hold.claim.ttl.get(), self.downgrade_(hold)).await;
        downgrade.map_err(|err| err.with_key(&hold.claim.key).with_engine(ENGINE))
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        let release = within(Op::Release, claim.ttl.get(), self.release_(claim, answered)).await;
        release.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        // What is lost shows at the next renewal.
        std::future::pending().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        within(Op::Line, 3 * LONGEST, self.places(filter)).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        let evict = within(Op::Evict, 3 * LONGEST, self.evict_(eviction)).await;
        evict.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        within(Op::Examine, 3 * LONGEST, self.examine_()).await.map_err(|err| err.with_engine(ENGINE))
    }
}

/// A third of the ttl is all that a verb has.
async fn within<T>(op: Op, ttl: Duration, verb: impl Future<Output = Result<T>>) -> Result<T> {
    let limit = (ttl / 3).min(LONGEST);
    tokio::time::timeout(limit, verb)
        .await
        .unwrap_or_else(|_| Err(Error::unavailable(op, format!("no answer within {limit:?}"))))
}

impl fmt::Debug for MemcachedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemcachedEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}
