//! The engine: how it is opened, and which verb is where.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU32},
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Guarantees, Held, Op, Place, Released, Renewal, Result, Seq, Turn, Wake,
};

use crate::{
    ENGINE,
    alone::Alone,
    answer::{Answer, nonsense},
    bell,
    facts::{Kind, guarantees_of},
    link::Link,
    links::{Links, Use},
    script::{COMMIT, Script, Scripts, Value},
    trouble::is_missing_table,
    url::MysqlOptions,
    waits::Waits,
    words::Hash,
};

/// Locks in MySQL and MariaDB.
pub struct MysqlEngine {
    pub(crate) links: Links,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) alone: Alone,
    identity: EngineId,
    guarantees: Guarantees,
    /// Whether a crash of the machine may forget a grant.
    pub(crate) kind: Kind,
    pub(crate) releases: AtomicU32,
}

impl MysqlEngine {
    /// Connects, creates the tables if they are not there, and looks at what kind of server it is.
    ///
    /// # Errors
    /// `Unavailable` if nobody answers or the server is read-only, `Denied` for a wrong password or a user who may
    /// neither use nor create the tables, `Invalid` for a database that is not there.
    ///
    /// # Panics
    /// If the operating system has no randomness to give, or outside a tokio runtime.
    pub async fn open(options: MysqlOptions) -> Result<Arc<Self>> {
        let scripts = Arc::new(Scripts::new(&options.table));
        let links = Links::new(options);
        let link = links.get(Use::Key(0)).await?;
        // The first renewal of a short lease has no time for a connection to be made.
        let other = links.get(Use::Renewals).await?;
        prepare(&link, &scripts, &links.options).await?;
        let identity = identity(&link, &scripts).await?;
        let kind = link.found.kind();
        // A server that refuses to try doorbells has none.
        let rings =
            link.found.may_ring() && !links.options.poll && bell::work(&link, &other).await.unwrap_or(false);
        let guarantees = guarantees_of(kind, if rings { Wake::Push } else { Wake::Poll });
        let waits = Waits::new(links.options.clone(), links.way.clone(), scripts.clone());
        let releases = AtomicU32::new(0);
        let alone = Alone::default();
        let engine = Self { links, scripts, waits, alone, identity, guarantees, kind, releases };
        // What the dead have left is a matter of room only: nothing fails for it.
        let _ = engine.sweep(&link, None).await;
        Ok(Arc::new(engine))
    }

    /// Asks the server for nothing: the bare round trip that every verb can be compared with.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer.
    pub async fn ping(&self) -> Result<()> {
        self.links.get(Use::Key(0)).await?.send(Op::Examine, "DO 0".to_owned()).await.map(drop)
    }

    /// The connection for a key's verbs.
    pub(crate) async fn link(&self, op: Op, key: &Hash) -> Result<Arc<Link>> {
        self.links.get(Use::Key(key.0[1])).await.map_err(|err| err.in_op(op))
    }

    /// Whether claims have doorbells on this connection.
    pub(crate) fn rings(&self, link: &Link) -> bool {
        self.guarantees.wake == Wake::Push && link.found.may_ring()
    }

    /// Carries out scripts as one transaction, and something after it.
    pub(crate) async fn run(
        &self,
        op: Op,
        link: &Link,
        scripts: &[&Script],
        values: &[(&str, Value<'_>)],
        after: &str,
    ) -> Result<Answer> {
        let mut sql = String::with_capacity(4096);
        for script in scripts {
            script.write(&mut sql, values);
        }
        sql.push_str(COMMIT);
        sql.push_str(after);
        link.send(op, sql).await
    }
}

impl Drop for MysqlEngine {
    fn drop(&mut self) {
        self.waits.close();
    }
}

#[async_trait]
impl tenure_core::Engine for MysqlEngine {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.attempt_(claim).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        match self.guarantees.wake {
            Wake::Push => self.waits.turn(claim.id).await,
            // The library asks again, with growing pauses.
            Wake::Poll => std::future::pending().await,
        }
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
        // A holder learns of an eviction at its next renewal.
        std::future::pending().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.places(filter).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.evict_(eviction).await.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        let link = self.links.get(Use::Key(0)).await.map_err(|err| err.in_op(Op::Examine))?;
        let found = link.examine().await?;
        Ok(found.facts(&self.links.options, self.guarantees.wake))
    }
}

/// Creates the tables if one is missing. Only then: a user who may not create anything can use what is there.
async fn prepare(link: &Link, scripts: &Scripts, options: &MysqlOptions) -> Result<()> {
    let Err(missing) = link.send(Op::Connect, scripts.there.text(&[])).await else { return Ok(()) };
    // A user without any right on a table is not told whether it is there.
    if !is_missing_table(&missing) {
        return Err(missing);
    }
    match link.send(Op::Connect, options.schema()).await {
        Ok(_) => Ok(()),
        Err(err) if err.kind() == ErrorKind::Denied => {
            let message = format!(
                "{} does not have the tables `{}_…`, and this user may not create them; run what \
                 `tenure schema mysql` prints as one who may",
                options.address, options.table
            );
            Err(Error::new(ErrorKind::Denied, Op::Connect, message).with_engine(ENGINE).not_applied())
        }
        Err(err) => Err(err),
    }
}

/// The identity that is kept in the tables: whoever comes first draws it.
async fn identity(link: &Link, scripts: &Scripts) -> Result<EngineId> {
    let read = |answer: &Answer| {
        let bytes: [u8; 16] = answer.rows().next()?.bytes(0)?.try_into().ok()?;
        Some(EngineId::from_bytes(bytes))
    };
    let ask = || link.send(Op::Connect, scripts.identity.text(&[]));
    if let Some(identity) = read(&ask().await?) {
        return Ok(identity);
    }
    let fresh = EngineId::fresh().to_bytes();
    link.send(Op::Connect, scripts.identify.text(&[("identity", Value::Bytes(&fresh))])).await?;
    read(&ask().await?).ok_or_else(|| nonsense(Op::Connect))
}

impl fmt::Debug for MysqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}
