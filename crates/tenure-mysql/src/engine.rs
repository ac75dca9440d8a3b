//! The verbs, each one transaction in one round trip.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Grant, Guarantees, Held, Incarnation, Key, Mode, Note, Op, Patience, Permits, Place, Released, Renewal,
    Result, Seat, Seq, Standing, Turn, When, line,
};

use crate::{
    ENGINE,
    answer::{Answer, Fields, nonsense},
    facts::{Found, Kind, guarantees_of},
    link::Link,
    links::{Links, Use},
    script::{COMMIT, Script, Scripts, Value},
    trouble::is_missing_table,
    url::MysqlOptions,
};

/// The most holds that one transaction renews: their rows are locked until it ends.
const RENEWALS: usize = 100;
/// After how many releases a client looks for keys that the dead have left behind.
const SWEEP: u32 = 10_000;
/// The most such keys that it forgets at a time.
const SWEPT: u64 = 20;
/// The most places that are shown at once.
const MOST_SHOWN: usize = 100_000;

/// Locks in MySQL and MariaDB.
pub struct MysqlEngine {
    links: Links,
    scripts: Scripts,
    identity: EngineId,
    guarantees: Guarantees,
    /// Whether a crash of the machine may forget a grant.
    kind: Kind,
    releases: AtomicU32,
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
        let scripts = Scripts::new(&options.table);
        let links = Links::new(options);
        let link = links.get(Use::Key(0)).await?;
        // The first renewal of a short lease has no time for a connection to be made.
        links.get(Use::Renewals).await?;
        prepare(&link, &scripts, &links.options).await?;
        let identity = identity(&link, &scripts).await?;
        let kind = link.found.kind();
        let guarantees = guarantees_of(kind);
        let engine = Self { links, scripts, identity, guarantees, kind, releases: AtomicU32::new(0) };
        // What the dead have left is a matter of room only: nothing fails for it.
        let _ = engine.sweep(&link).await;
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
    async fn link(&self, op: Op, key: &Hash) -> Result<Arc<Link>> {
        self.links.get(Use::Key(key.0[1])).await.map_err(|err| err.in_op(op))
    }

    /// Carries out scripts as one transaction.
    async fn run(
        &self,
        op: Op,
        link: &Link,
        scripts: &[&Script],
        values: &[(&str, Value<'_>)],
    ) -> Result<Answer> {
        let mut sql = String::with_capacity(4096);
        for script in scripts {
            script.write(&mut sql, values);
        }
        sql.push_str(COMMIT);
        link.send(op, sql).await
    }

    async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        let hash = Hash::of(&claim.key);
        let link = self.link(Op::Attempt, &hash).await?;
        let (mode, take, total) = mode_numbers(claim.mode);
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("name", Value::Bytes(claim.key.as_str().as_bytes())),
            ("life", Value::Bytes(&life)),
            ("shard", Value::Number(hash.shard())),
            ("id", Value::Bytes(&id)),
            ("mode", Value::Number(mode)),
            ("take", Value::Number(take.into())),
            ("total", Value::Number(total.into())),
            ("ttl", Value::Number(micros(claim.ttl.get()))),
            ("queue", Value::Number((claim.patience == Patience::Queue).into())),
            ("floor", Value::Number(claim.floor.get())),
            ("who", Value::Bytes(claim.note.who().as_bytes())),
            ("label", Value::Bytes(claim.note.label().as_bytes())),
        ];
        let all = &self.scripts;
        let mut scripts = vec![&all.create, &all.purge, &all.attempt];
        if claim.floor > Seq::ZERO {
            // The one case that may take no place in a line that nobody else is in.
            scripts.push(&all.tidy);
        }
        let answer = self.run(Op::Attempt, &link, &scripts, &values).await?;
        self.read_attempt(claim, &link.found, answer.row(Op::Attempt)?)
    }

    fn read_attempt(&self, claim: &Claim, found: &Found, row: &Fields) -> Result<Attempt> {
        let lost = |why: &'static str| Error::new(ErrorKind::Lost, Op::Attempt, why).not_applied();
        match row.number(1) {
            Some(1 | 3) => return Err(lost("an operator evicted this claim from the line")),
            Some(2) => return Err(lost("this claim was released before")),
            _ => {}
        }
        if row.is(0) {
            return Err(absurd_floor(Op::Attempt));
        }
        let (Some(now), Some(ahead)) = (row.number(4), row.number(5)) else {
            return Err(nonsense(Op::Attempt));
        };
        let incarnation = Incarnation(found.incarnation());
        let seat = match row.number(3) {
            Some(seq) => Some(Seat { seq: number(Op::Attempt, seq)?, incarnation }),
            None => None,
        };
        if let Some(seat) = seat.filter(|_| row.is(6)) {
            let remembers = match self.kind {
                Kind::Durable | Kind::Replicated => None,
                // It may have forgotten the last second before it was started.
                Kind::Forgetful => Some(duration(now - (found.started() + 1) * 1_000_000)),
            };
            return Ok(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers }));
        }
        if seat.is_none() && claim.patience == Patience::Queue {
            return Err(Error::unavailable(Op::Attempt, "10,000 are in line already").not_applied());
        }
        Ok(Attempt::Busy(Busy {
            seat,
            ttl: seat.map(|_| claim.ttl.get()),
            ahead: u32::try_from(ahead).ok(),
            blocker: row.bytes(8).and_then(|_| blocker(row.text(8))),
            lapses_in: row.number(7).map(|deadline| duration(deadline - now)),
        }))
    }

    async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let mut order: Vec<(Hash, usize)> =
            holds.iter().enumerate().map(|(at, hold)| (Hash::of(&hold.claim.key), at)).collect();
        order.sort_unstable();
        let mut renewals = vec![Renewal::Lost; holds.len()];
        for chunk in order.chunks(RENEWALS) {
            let link = self.links.get(Use::Renewals).await.map_err(|err| err.in_op(Op::Renew))?;
            let answer = link.send(Op::Renew, self.renewal(&link, chunk, holds)).await?;
            let mut rows = answer.rows();
            if rows.next().ok_or_else(|| nonsense(Op::Renew))?.is(0) {
                return Err(absurd_floor(Op::Renew));
            }
            for row in rows {
                let at = row.number(0).and_then(|at| usize::try_from(at).ok());
                let at = at.filter(|&at| at < holds.len()).ok_or_else(|| nonsense(Op::Renew))?;
                renewals[at] = Renewal::Renewed(Some(holds[at].claim.ttl.get()));
            }
        }
        Ok(renewals)
    }

    /// The statements that renew some holds, in the order of their keys.
    fn renewal(&self, link: &Link, chunk: &[(Hash, usize)], holds: &[Held<'_>]) -> String {
        let (mut keys, mut wanted) = (String::new(), String::new());
        let mut floors = std::collections::BTreeMap::new();
        for (hash, at) in chunk {
            let hold = &holds[*at];
            if !keys.is_empty() {
                keys.push(',');
                wanted.push_str(" UNION ALL ");
            }
            Value::Bytes(&hash.0).write(&mut keys);
            // Written out, because hundreds of these are put together at a time.
            for (before, value) in [
                ("SELECT ", Value::Number(*at as u64)),
                (" AS i, ", Value::Bytes(&hash.0)),
                (" AS h, ", Value::Bytes(&hold.claim.id.to_bytes())),
                (" AS id, ", Value::Number(hold.seq.get())),
                (" AS seq, ", Value::Number(micros(hold.claim.ttl.get()))),
            ] {
                wanted.push_str(before);
                value.write(&mut wanted);
            }
            wanted.push_str(" AS t");
            if hold.claim.floor > Seq::ZERO {
                let floor = floors.entry(hash.shard()).or_insert(hold.claim.floor);
                *floor = (*floor).max(hold.claim.floor);
            }
        }
        let most = floors.values().copied().max().unwrap_or(Seq::ZERO);
        let life = link.found.incarnation().to_be_bytes();
        let mut sql = self.scripts.renew.text(&[
            ("keys", Value::Sql(&keys)),
            ("wanted", Value::Sql(&wanted)),
            ("life", Value::Bytes(&life)),
            ("floor", Value::Number(most.get())),
        ]);
        for (shard, floor) in floors {
            let values = [("shard", Value::Number(shard)), ("floor", Value::Number(floor.get()))];
            self.scripts.raise.write(&mut sql, &values);
        }
        sql.push_str(COMMIT);
        sql
    }

    async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let hash = Hash::of(&hold.claim.key);
        let link = self.link(Op::Downgrade, &hash).await?;
        let (id, life) = (hold.claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("life", Value::Bytes(&life)),
            ("id", Value::Bytes(&id)),
            ("seq", Value::Number(hold.seq.get())),
            ("ttl", Value::Number(micros(hold.claim.ttl.get()))),
        ];
        let all = &self.scripts;
        let scripts = [&all.find, &all.purge, &all.downgrade, &all.tidy];
        let answer = self.run(Op::Downgrade, &link, &scripts, &values).await?;
        match answer.row(Op::Downgrade)?.number(0) {
            None => Ok(Renewal::Lost),
            Some(0 | 1) => Ok(Renewal::Renewed(Some(hold.claim.ttl.get()))),
            Some(_) => {
                Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade))
            }
        }
    }

    async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        let hash = Hash::of(&claim.key);
        let link = self.link(Op::Release, &hash).await?;
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("name", Value::Bytes(claim.key.as_str().as_bytes())),
            ("life", Value::Bytes(&life)),
            ("id", Value::Bytes(&id)),
            ("ttl", Value::Number(micros(claim.ttl.get()))),
        ];
        let all = &self.scripts;
        let answer = match answered {
            Answered::All => {
                let scripts = [&all.find, &all.purge, &all.release, &all.tidy];
                self.run(Op::Release, &link, &scripts, &values).await?
            }
            Answered::InDoubt => {
                let scripts = [&all.create, &all.purge, &all.release, &all.bury];
                self.run(Op::Release, &link, &scripts, &values).await?
            }
        };
        let freed = answer.row(Op::Release)?.is(0);
        if self.releases.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
            let _ = self.sweep(&link).await;
        }
        Ok(if freed { Released::Freed } else { Released::NotHeld })
    }

    async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let hash = Hash::of(&eviction.key);
        let link = self.link(Op::Evict, &hash).await?;
        let (id, life) = (eviction.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("life", Value::Bytes(&life)),
            ("id", Value::Bytes(&id)),
            ("seq", Value::Number(eviction.seq.get())),
            ("gently", Value::Number((eviction.when == When::Gently).into())),
        ];
        let all = &self.scripts;
        let scripts = [&all.find, &all.purge, &all.evict, &all.tidy];
        let answer = self.run(Op::Evict, &link, &scripts, &values).await?;
        match answer.row(Op::Evict)?.number(0) {
            Some(0) => Ok(Evicted::Gone),
            Some(1) => Ok(Evicted::Stopped),
            Some(2) => Ok(Evicted::Freed),
            _ => Err(nonsense(Op::Evict)),
        }
    }

    async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        let limit = filter.limit().min(MOST_SHOWN);
        let mut which = String::new();
        let hash = match filter {
            Filter::Key(key) => {
                let hash = Hash::of(key);
                which.push_str("l.h = ");
                Value::Bytes(&hash.0).write(&mut which);
                hash
            }
            Filter::Prefix(prefix, _) => {
                which = format!("LEFT(l.name, {}) = ", prefix.len());
                Value::Bytes(prefix.as_bytes()).write(&mut which);
                Hash::default()
            }
        };
        let link = self.links.get(Use::Key(hash.0[1])).await.map_err(|err| err.in_op(Op::Line))?;
        let life = link.found.incarnation().to_be_bytes();
        let sql = self.scripts.show.text(&[
            ("which", Value::Sql(&which)),
            ("limit", Value::Number(limit as u64)),
            ("life", Value::Bytes(&life)),
        ]);
        let answer = link.send(Op::Line, sql).await?;
        let places: Option<Vec<_>> = answer.rows().map(place).collect();
        let mut places = places.ok_or_else(|| nonsense(Op::Line))?;
        for line in places.chunk_by_mut(|one, two| one.key == two.key) {
            let holders = line::holders(line.iter().map(|place| place.mode));
            line[..holders].iter_mut().for_each(|place| place.standing = Standing::Holds);
        }
        Ok(places)
    }

    /// Forgets some keys that everybody left without letting go.
    async fn sweep(&self, link: &Link) -> Result<()> {
        let sql = self.scripts.lapsed.text(&[("limit", Value::Number(SWEPT))]);
        let lapsed = link.send(Op::Connect, sql).await?;
        let life = link.found.incarnation().to_be_bytes();
        for hash in lapsed.rows().filter_map(|row| row.bytes(0)) {
            let values = [("h", Value::Bytes(hash)), ("life", Value::Bytes(&life))];
            let all = &self.scripts;
            self.run(Op::Connect, link, &[&all.find, &all.purge, &all.tidy], &values).await?;
        }
        Ok(())
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

    async fn turn(&self, _: &Claim) -> Turn {
        // The library asks again, with growing pauses.
        std::future::pending().await
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
        Ok(found.facts(&self.links.options))
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

/// The SHA-256 of a key: what its rows are found by, since an index takes no name of 1 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Hash([u8; 32]);

impl Hash {
    fn of(key: &Key) -> Self {
        Self(key.digest())
    }

    /// Which mark the key's numbers are above.
    fn shard(&self) -> u64 {
        self.0[0].into()
    }
}

fn place(row: &Fields) -> Option<Place> {
    let text = |at| Some(String::from_utf8_lossy(row.bytes(at)?));
    Some(Place {
        key: Key::new(&*text(0)?).ok()?,
        id: ClaimId::from_bytes(row.bytes(1)?.try_into().ok()?),
        seq: Seq::new(u64::try_from(row.number(2)?).ok()?)?,
        mode: mode_of(row.number(3)?, row.number(4)?, row.number(5)?)?,
        standing: Standing::Waits,
        lease_left: Some(duration(row.number(6)?)),
        age: duration(row.number(7)?),
        note: Note::new(&text(8)?, &text(9)?),
    })
}

fn blocker(words: &str) -> Option<Mode> {
    let mut numbers = words.split(' ').map(|word| word.parse().ok());
    mode_of(numbers.next()??, numbers.next()??, numbers.next()??)
}

fn mode_numbers(mode: Mode) -> (u64, u32, u32) {
    match mode {
        Mode::Exclusive => (0, 0, 0),
        Mode::Shared => (1, 0, 0),
        Mode::Permits(permits) => (2, permits.take(), permits.of()),
    }
}

fn mode_of(mode: i64, take: i64, total: i64) -> Option<Mode> {
    match mode {
        0 => Some(Mode::Exclusive),
        1 => Some(Mode::Shared),
        2 => Permits::new(u32::try_from(take).ok()?, u32::try_from(total).ok()?).ok().map(Mode::Permits),
        _ => None,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn number(op: Op, seq: i64) -> Result<Seq> {
    u64::try_from(seq).ok().and_then(Seq::new).ok_or_else(|| nonsense(op))
}

fn absurd_floor(op: Op) -> Error {
    Error::invalid("the least number asked for is more than a day ahead of the server's clock").in_op(op)
}

impl fmt::Debug for MysqlEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}
