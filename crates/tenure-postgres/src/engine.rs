//! The verbs, each a function of the database.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Grant, Guarantees, Held, Incarnation, Key, Mode, Note, Op, Patience, Permits, Place, Released, Renewal,
    Result, Seat, Seq, Standing, Ttl, Turn, When, line,
};
use tokio_postgres::SimpleQueryRow;

use crate::{
    ENGINE,
    facts::guarantees_of,
    link::Limits,
    links::{LONGEST, Links, SHORT_WAIT, Use},
    news::News,
    schema::{Names, VERSION, create},
    sweep::{STEP, Sweep},
    text::{self, Bytes, Id, array, numbers},
    trouble::{is_locked, is_missing, verb_failed},
    url::PostgresOptions,
};

/// The most holds that one transaction renews: their rows are locked until it is on disk.
const RENEWALS: usize = 200;
/// For what is asked by people, or when connecting.
const UNHURRIED: Limits = Limits { wait: Duration::from_secs(5), all: Duration::from_secs(10) };
/// What a newcomer waits for who finds others creating the tables.
const CREATION: &str = "SELECT pg_advisory_xact_lock(hashtext('tenure'), hashtext(";

/// Locks in PostgreSQL.
pub struct PostgresEngine {
    links: Links,
    news: Arc<News>,
    sweep: Arc<Sweep>,
    identity: EngineId,
    guarantees: Guarantees,
}

impl PostgresEngine {
    /// Connects, looks at what kind of server it is, and creates the tables if there are none.
    ///
    /// # Errors
    /// `Unavailable` if nobody answers, `Denied` for a wrong password or a user who lacks rights, `Invalid` for a
    /// standby or a database that is not there.
    pub async fn open(options: PostgresOptions) -> Result<Arc<Self>> {
        let names = Names::new(&options);
        let news = Arc::new(News::default());
        let client: String =
            EngineId::fresh().to_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let links = Links::new(options, names, news.clone(), &client);
        let found = futures_util::try_join!(links.at(Use::Attempt), links.at(Use::Keep));
        let (link, _) = found?;
        let kind = link.found.kind(links.options.hosts.len());
        let identity = identity(&links).await?;
        let wake = links.find_wake().await?;
        let guarantees = guarantees_of(kind, wake);
        Ok(Arc::new(Self { links, news, sweep: Arc::default(), identity, guarantees }))
    }

    /// Asks the server for nothing: the bare round trip that every verb can be compared with.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer.
    pub async fn ping(&self) -> Result<()> {
        let link = self.links.at(Use::Attempt).await?;
        link.send("SELECT 1").await.map_err(|err| verb_failed(Op::Examine, &link.address, err))?;
        Ok(())
    }

    /// Calls a verb's function and takes its one value.
    async fn call(&self, op: Op, purpose: Use, limits: Limits, verb: &str, args: &str) -> Result<String> {
        let sql = format!("SELECT {}({args})", self.links.names.function(verb));
        let rows = self.links.run(op, purpose, limits, &sql).await?;
        rows.first().and_then(|row| row.get(0)).map(str::to_owned).ok_or_else(|| nonsense(op))
    }

    /// The same for a verb that others wait for: first where nothing waits long, then where it may.
    async fn call_soon(&self, op: Op, ttl: Ttl, verb: &str, args: &str) -> Result<i64> {
        let limits = limits(ttl);
        let short = Limits { wait: limits.wait.min(SHORT_WAIT), ..limits };
        let answer = match self.call(op, Use::Keep, short, verb, args).await {
            Err(err) if is_locked(&err) => self.call(op, Use::Attempt, limits, verb, args).await,
            answer => answer,
        };
        answer?.parse().map_err(|_| nonsense(op))
    }

    async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        const OP: Op = Op::Attempt;
        if claim.patience == Patience::Queue {
            // Before anything is sent: a push must find its listener.
            self.news.expect(claim.id);
        }
        let (mode, take, of) = mode_numbers(claim.mode);
        let note = format!("{}\n{}", claim.note.who(), claim.note.label());
        let args = format!(
            "{},{},{mode}::smallint,{take},{of},{},{},'{}',{}",
            Bytes(claim.key.as_str().as_bytes()),
            Id(claim.id),
            micros(claim.ttl.get()),
            claim.patience == Patience::Queue,
            self.links.channel(),
            Bytes(note.as_bytes()),
        );
        let answer = self.call(OP, Use::Attempt, limits(claim.ttl), "attempt", &args).await?;
        let refused = |kind, message: &'static str| Err(Error::new(kind, OP, message).not_applied());
        match numbers(&answer).as_deref() {
            Some(&[1, seq, life]) => {
                self.news.forget(claim.id);
                let seat = seat(seq, life).ok_or_else(|| nonsense(OP))?;
                // It never forgets what it has acknowledged; where it might, its grade says so.
                Ok(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None }))
            }
            Some(&[0, seq, life, ahead, mode, take, of, lapses]) => {
                let seat = if seq < 0 { None } else { Some(seat(seq, life).ok_or_else(|| nonsense(OP))?) };
                Ok(Attempt::Busy(Busy {
                    seat,
                    ttl: seat.map(|_| claim.ttl.get()),
                    ahead: u32::try_from(ahead).ok(),
                    blocker: mode_of(mode, take, of),
                    lapses_in: Some(duration(lapses)),
                }))
            }
            Some([-1]) => refused(ErrorKind::Lost, "an operator evicted this claim from the line"),
            Some([-2]) => refused(ErrorKind::Lost, "this claim was released before"),
            Some([-3]) => refused(ErrorKind::Unavailable, "10,000 are in line already"),
            _ => Err(nonsense(OP)),
        }
    }

    async fn renew_chunk(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let ttl = holds.iter().map(|hold| hold.claim.ttl).min().unwrap_or_default();
        let limits = limits(ttl);
        let mut answers =
            self.renew_on(Use::Keep, Limits { wait: SHORT_WAIT, ..limits }, holds, false).await?;
        let locked: Vec<usize> = (0..holds.len()).filter(|&at| answers[at] > 0).collect();
        if !locked.is_empty() {
            let some: Vec<Held<'_>> = locked.iter().map(|&at| holds[at]).collect();
            let wait = limits.wait / 2;
            match self.renew_on(Use::Attempt, Limits { wait, ..limits }, &some, true).await {
                Ok(renewed) => locked.iter().zip(renewed).for_each(|(&at, answer)| answers[at] = answer),
                // They live on for as long as they did, and are asked for again before that ends.
                Err(err) if is_locked(&err) => {}
                Err(err) => return Err(err),
            }
        }
        let renewal = |(answer, hold): (i64, &Held<'_>)| match answer {
            0 => Renewal::Renewed(Some(hold.claim.ttl.get())),
            1.. => Renewal::Renewed(Some(duration(answer).min(hold.claim.ttl.get()))),
            _ => Renewal::Lost,
        };
        Ok(answers.into_iter().zip(holds).map(renewal).collect())
    }

    async fn renew_on(
        &self,
        purpose: Use,
        limits: Limits,
        holds: &[Held<'_>],
        waits: bool,
    ) -> Result<Vec<i64>> {
        let args = format!(
            "{},{},{},{},{waits}",
            array("bytea", holds.iter().map(|hold| Bytes(hold.claim.key.as_str().as_bytes()))),
            array("uuid", holds.iter().map(|hold| Id(hold.claim.id))),
            array("bigint", holds.iter().map(|hold| hold.seq.get())),
            array("bigint", holds.iter().map(|hold| micros(hold.claim.ttl.get()))),
        );
        let answer = self.call(Op::Renew, purpose, limits, "renew", &args).await?;
        numbers(&answer).filter(|answers| answers.len() == holds.len()).ok_or_else(|| nonsense(Op::Renew))
    }

    async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let args = format!(
            "{},{},{},{}",
            Bytes(hold.claim.key.as_str().as_bytes()),
            Id(hold.claim.id),
            hold.seq.get(),
            micros(hold.claim.ttl.get()),
        );
        match self.call_soon(Op::Downgrade, hold.claim.ttl, "downgrade", &args).await? {
            1 => Ok(Renewal::Renewed(Some(hold.claim.ttl.get()))),
            0 => Ok(Renewal::Lost),
            -1 => Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade)),
            _ => Err(nonsense(Op::Downgrade)),
        }
    }

    async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.news.forget(claim.id);
        let args = format!(
            "{},{},{},{}",
            Bytes(claim.key.as_str().as_bytes()),
            Id(claim.id),
            micros(claim.ttl.get()),
            answered == Answered::InDoubt,
        );
        let released = self.call_soon(Op::Release, claim.ttl, "release", &args).await?;
        self.sweep().await;
        match released {
            1 => Ok(Released::Freed),
            0 => Ok(Released::NotHeld),
            _ => Err(nonsense(Op::Release)),
        }
    }

    /// Takes a step of the walk over all keys, if it is time for one, beside whatever else goes on.
    async fn sweep(&self) {
        let Some(after) = self.sweep.due() else { return };
        let Ok(link) = self.links.at(Use::Keep).await else { return };
        let sql =
            format!("SELECT encode({}({},{STEP}),'hex')", self.links.names.function("sweep"), Bytes(&after));
        let sweep = self.sweep.clone();
        tokio::spawn(async move {
            // If it fails, the next step starts at the same key.
            if let Ok(rows) = link.run(Limits { wait: SHORT_WAIT, all: LONGEST.all }, &sql).await {
                sweep.went_to(rows.first().and_then(|row| text::unhex(row.get(0)?)).unwrap_or_default());
            }
        });
    }

    async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let args = format!(
            "{},{},{},{}",
            Bytes(eviction.key.as_str().as_bytes()),
            Id(eviction.id),
            eviction.seq.get(),
            eviction.when == When::Now,
        );
        let answer = self.call(Op::Evict, Use::Attempt, LONGEST, "evict", &args).await?;
        match answer.as_str() {
            "2" => Ok(Evicted::Freed),
            "1" => Ok(Evicted::Stopped),
            "0" => Ok(Evicted::Gone),
            _ => Err(nonsense(Op::Evict)),
        }
    }

    async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        let which = match filter {
            Filter::Key(key) => format!("place.key = {}", Bytes(key.as_str().as_bytes())),
            Filter::Prefix(prefix, _) => starts_with(prefix.as_bytes()),
        };
        let limit = i64::try_from(filter.limit()).unwrap_or(i64::MAX);
        // If another clock wrote a line, the first verb will give it a whole lease.
        let sql = format!(
            "SELECT encode(place.key,'hex'),place.id,place.seq,place.mode,place.take,place.total,\
             CASE WHEN place.life = clock.life THEN least(place.deadline - clock.now, place.ttl) ELSE place.ttl END,\
             greatest(0, clock.now - place.taken),encode(place.note,'hex') \
             FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,\
             (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS life OFFSET 0) AS clock,\
             {} AS place WHERE {which} AND place.state <= 1 \
             AND (place.life <> clock.life OR clock.now < place.deadline) \
             ORDER BY place.key,place.seq LIMIT {limit}",
            self.links.names.places
        );
        let rows = self.links.run(Op::Line, Use::Attempt, UNHURRIED, &sql).await?;
        let places: Option<Vec<Place>> = rows.iter().map(place).collect();
        let mut places = places.ok_or_else(|| nonsense(Op::Line))?;
        for line in places.chunk_by_mut(|one, next| one.key == next.key) {
            let holders = line::holders(line.iter().map(|place| place.mode));
            line[..holders].iter_mut().for_each(|place| place.standing = Standing::Holds);
        }
        Ok(places)
    }
}

#[async_trait]
impl tenure_core::Engine for PostgresEngine {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.attempt_(claim).await.map_err(|err| {
            if !err.may_have_applied() {
                // Nobody need release it, so nobody else would stop listening.
                self.news.forget(claim.id);
            }
            err.with_key(&claim.key).with_engine(ENGINE)
        })
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.news.turn(claim.id).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let chunks = holds.chunks(RENEWALS).map(|chunk| self.renew_chunk(chunk));
        let answers = futures_util::future::try_join_all(chunks).await;
        Ok(answers.map_err(|err| err.with_engine(ENGINE))?.concat())
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.downgrade_(hold).await.map_err(|err| err.with_key(&hold.claim.key).with_engine(ENGINE))
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.release_(claim, answered).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.news.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.places(filter).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.evict_(eviction).await.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        let link = self.links.at(Use::Attempt).await.map_err(|err| err.in_op(Op::Examine))?;
        let found = link.examine().await.map_err(|err| verb_failed(Op::Examine, &link.address, err))?;
        let mut facts = vec![Fact::good("server", link.address.to_string())];
        facts.extend(found.facts(link.direct, self.guarantees.wake));
        Ok(facts)
    }
}

/// The identity that is kept in the database, with tables made if there are none, or only older ones.
async fn identity(links: &Links) -> Result<EngineId> {
    let op = Op::Connect;
    let question = format!("SELECT version,identity FROM {}", links.names.about);
    let ask = async || links.run(op, Use::Attempt, UNHURRIED, &question).await;
    let read = |rows: &[SimpleQueryRow]| -> Option<(i32, EngineId)> {
        let row = rows.first()?;
        let id = EngineId::from_bytes(text::id(row.get(1)?)?.to_bytes());
        Some((row.get(0)?.parse().ok()?, id))
    };
    let found = match ask().await {
        Ok(rows) => read(&rows),
        Err(err) if is_missing(&err) => None,
        Err(err) => return Err(err.not_applied()),
    };
    if let Some((version, id)) = found
        && version >= VERSION
    {
        return Ok(id);
    }
    // One after the other: to create the same thing twice at once is an error even where it may be there already.
    let sql = format!("{CREATION}'{}'));{}", links.names.about.replace('"', ""), create(&links.names));
    links.run(op, Use::Attempt, UNHURRIED, &sql).await.map_err(|err| {
        if err.kind() == ErrorKind::Denied {
            let message = format!(
                "there are no tables of tenure in schema {} and this user may not create them; let somebody who may \
                 run what `tenure schema postgres` prints",
                links.names.schema
            );
            return Error::new(ErrorKind::Denied, op, message).with_engine(ENGINE).with_source(err).not_applied();
        }
        err.not_applied()
    })?;
    read(&ask().await.map_err(Error::not_applied)?).map(|(_, id)| id).ok_or_else(|| nonsense(op))
}

/// A third of the ttl is all that a verb has.
fn limits(ttl: Ttl) -> Limits {
    Limits { wait: (ttl.get() / 4).min(LONGEST.wait), all: (ttl.get() / 3).min(LONGEST.all) }
}

/// The condition for keys that start so.
fn starts_with(prefix: &[u8]) -> String {
    let from = format!("place.key >= {}", Bytes(prefix));
    // The first key after all those: with the last byte that can be raised, raised.
    match prefix.iter().rposition(|&byte| byte < 0xff) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            format!("{from} AND place.key < {}", Bytes(&end))
        }
        None => from,
    }
}

fn place(row: &SimpleQueryRow) -> Option<Place> {
    let number = |at: usize| row.get(at)?.parse::<i64>().ok();
    let note = text::unhex(row.get(8)?)?;
    let note = String::from_utf8_lossy(&note);
    let (who, label) = note.split_once('\n').unwrap_or((&note, ""));
    Some(Place {
        key: Key::new(String::from_utf8(text::unhex(row.get(0)?)?).ok()?).ok()?,
        id: text::id(row.get(1)?)?,
        seq: Seq::new(u64::try_from(number(2)?).ok()?)?,
        mode: mode_of(number(3)?, number(4)?, number(5)?)?,
        standing: Standing::Waits,
        note: Note::new(who, label),
        age: duration(number(7)?),
        lease_left: Some(duration(number(6)?)),
    })
}

fn mode_numbers(mode: Mode) -> (i64, u32, u32) {
    match mode {
        Mode::Exclusive => (0, 0, 0),
        Mode::Shared => (1, 0, 0),
        Mode::Permits(permits) => (2, permits.take(), permits.of()),
    }
}

fn mode_of(number: i64, take: i64, of: i64) -> Option<Mode> {
    match number {
        0 => Some(Mode::Exclusive),
        1 => Some(Mode::Shared),
        2 => Permits::new(u32::try_from(take).ok()?, u32::try_from(of).ok()?).ok().map(Mode::Permits),
        _ => None,
    }
}

fn seat(seq: i64, life: i64) -> Option<Seat> {
    let seq = Seq::new(u64::try_from(seq).ok()?)?;
    Some(Seat { seq, incarnation: Incarnation(u64::try_from(life).ok()?) })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn nonsense(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the server's answer is not one of tenure's functions")
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_no_key_starts_so_any_more() {
        assert_eq!(
            starts_with(b"ab"),
            "place.key >= E'\\\\x6162'::bytea AND place.key < E'\\\\x6163'::bytea"
        );
        assert_eq!(
            starts_with(b"a\xff"),
            "place.key >= E'\\\\x61ff'::bytea AND place.key < E'\\\\x62'::bytea"
        );
        assert_eq!(starts_with(b""), "place.key >= E'\\\\x'::bytea");
    }
}
