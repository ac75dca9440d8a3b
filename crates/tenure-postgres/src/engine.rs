//! The verbs, each one statement: a function of the database, or what saves its call.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Grant, Guarantees, Held, Hunch, Op, Patience, Place, Released, Renewal, Result, Seq, Ttl, Turn, When,
};

use crate::{
    ENGINE,
    answer::{duration, micros, mode_numbers, mode_of, nonsense, number, seat},
    arg::{self, Arg},
    facts::guarantees_of,
    identity::identity,
    limits::Limits,
    links::{LONGEST, Links, SHORT_WAIT, Use},
    look::places,
    news::News,
    schema::Names,
    sweep::{STEP, Sweep},
    text::{self, numbers},
    tls::Trust,
    trouble::{is_locked, verb_failed},
    url::PostgresOptions,
};

/// The most holds that one transaction renews: their rows are locked until it is on disk.
const RENEWALS: usize = 200;

/// What a release answers, that nobody else was there.
const ALONE: i64 = 2;

/// Locks in PostgreSQL.
pub struct PostgresEngine {
    links: Links,
    news: Arc<News>,
    sweep: Arc<Sweep>,
    /// Which keys were alone when this client last gave them back: the shortest way to take and leave them is tried first.
    quiet: Hunch,
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
        let trust = match &options.tls {
            Some(tls) => Some(Trust::load(tls.ca.as_deref()).await?),
            None => None,
        };
        let news = Arc::new(News::default());
        let client: String =
            EngineId::fresh().to_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let links = Links::new(options, trust, names, news.clone(), &client);
        let found = futures_util::try_join!(links.at(Use::Attempt), links.at(Use::Keep));
        let (link, _) = found?;
        let kind = link.found.kind(links.options.hosts.len());
        let identity = identity(&links).await?;
        let wake = links.find_wake().await?;
        let guarantees = guarantees_of(kind, wake);
        Ok(Arc::new(Self {
            links,
            news,
            sweep: Arc::default(),
            quiet: Hunch::default(),
            identity,
            guarantees,
        }))
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

    /// Carries out a verb's statement and takes its one value.
    async fn call(
        &self,
        op: Op,
        purpose: Use,
        limits: Limits,
        verb: &'static str,
        args: &[Arg<'_>],
    ) -> Result<String> {
        self.links.call(op, purpose, limits, verb, args).await?.ok_or_else(|| nonsense(op))
    }

    /// The same for a verb that others wait for: where it may wait, if nobody else is there; else first where nothing
    /// waits long. (Two sessions in turn cost the server a tenth more than one.)
    async fn soon<T, F: Future<Output = Result<T>>>(
        &self,
        ttl: Ttl,
        call: impl Fn(Use, Limits) -> F,
    ) -> Result<T> {
        let limits = limits(ttl);
        if self.links.may_wait_at_once() {
            return call(Use::Attempt, limits).await;
        }
        let short = Limits { wait: limits.wait.min(SHORT_WAIT), ..limits };
        match call(Use::Keep, short).await {
            Err(err) if is_locked(&err) => call(Use::Attempt, limits).await,
            answer => answer,
        }
    }

    async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        const OP: Op = Op::Attempt;
        let (mode, take, of) = mode_numbers(claim.mode);
        let note = [claim.note.who(), claim.note.label()].join("\n");
        let args = [
            Arg::Bytes(claim.key.as_str().as_bytes()),
            Arg::Id(claim.id),
            Arg::Small(mode),
            Arg::Number(take),
            Arg::Number(of),
            Arg::Number(micros(claim.ttl.get())),
            Arg::Flag(claim.patience == Patience::Queue),
            Arg::Name(self.links.channel()),
            Arg::Bytes(note.as_bytes()),
        ];
        let limits = limits(claim.ttl);
        let granted = |seq, life| {
            self.news.forget(claim.id);
            let seat = seat(seq, life).ok_or_else(|| nonsense(OP))?;
            // It never forgets what it has acknowledged; where it might, its grade says so.
            Ok(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None }))
        };
        if self.quiet.of(claim.key.as_str())
            && let Some((seq, life)) = self.links.again(limits, &args).await?
        {
            return granted(seq, life);
        }
        if claim.patience == Patience::Queue {
            // Before anything is sent that may wait in line: a push must find its listener.
            self.news.expect(claim.id);
        }
        let answer = self.call(OP, Use::Attempt, limits, "attempt", &args).await?;
        let refused = |kind, message: &'static str| Err(Error::new(kind, OP, message).not_applied());
        match numbers(&answer).as_deref() {
            Some(&[1, seq, life]) => granted(seq, life),
            Some(&[0, seq, life, ahead, mode, take, of, lapses]) => {
                self.quiet.note(claim.key.as_str(), false);
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
        let args = [
            Arg::ManyBytes(holds.iter().map(|hold| hold.claim.key.as_str().as_bytes()).collect()),
            Arg::Ids(holds.iter().map(|hold| hold.claim.id).collect()),
            Arg::Numbers(holds.iter().map(|hold| number(hold.seq)).collect()),
            Arg::Numbers(holds.iter().map(|hold| micros(hold.claim.ttl.get())).collect()),
            Arg::Flag(waits),
        ];
        let answer = self.call(Op::Renew, purpose, limits, "renew", &args).await?;
        numbers(&answer).filter(|answers| answers.len() == holds.len()).ok_or_else(|| nonsense(Op::Renew))
    }

    async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let args = [
            Arg::Bytes(hold.claim.key.as_str().as_bytes()),
            Arg::Id(hold.claim.id),
            Arg::Number(number(hold.seq)),
            Arg::Number(micros(hold.claim.ttl.get())),
        ];
        let call = |purpose, limits| self.call(Op::Downgrade, purpose, limits, "downgrade", &args);
        match self.soon(hold.claim.ttl, call).await?.as_str() {
            "1" => Ok(Renewal::Renewed(Some(hold.claim.ttl.get()))),
            "0" => Ok(Renewal::Lost),
            "-1" => Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade)),
            _ => Err(nonsense(Op::Downgrade)),
        }
    }

    async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.news.forget(claim.id);
        let args = [
            Arg::Bytes(claim.key.as_str().as_bytes()),
            Arg::Id(claim.id),
            Arg::Number(micros(claim.ttl.get())),
            Arg::Flag(answered == Answered::InDoubt),
        ];
        let key = claim.key.as_str();
        let quiet = self.quiet.of(key);
        let call = async |purpose, limits| {
            if quiet && self.links.leave(purpose, limits, &args).await? {
                return Ok(ALONE);
            }
            let answer = self.call(Op::Release, purpose, limits, "release", &args).await?;
            answer.parse().map_err(|_| nonsense(Op::Release))
        };
        let released = self.soon(claim.ttl, call).await?;
        self.quiet.note(key, released == ALONE);
        self.sweep().await;
        match released {
            1 | ALONE => Ok(Released::Freed),
            0 => Ok(Released::NotHeld),
            _ => Err(nonsense(Op::Release)),
        }
    }

    /// Takes a step of the walk over all keys, if it is time for one, beside whatever else goes on.
    async fn sweep(&self) {
        let Some(after) = self.sweep.due() else { return };
        let Ok(link) = self.links.at(Use::Keep).await else { return };
        let args = [Arg::Bytes(&after), Arg::Small(STEP)];
        let sql = arg::text(&self.links.names.call("sweep", args.len()), &args);
        let sweep = self.sweep.clone();
        tokio::spawn(async move {
            // If it fails, the next step starts at the same key.
            if let Ok(rows) = link.run(Limits { wait: SHORT_WAIT, all: LONGEST.all }, &sql).await {
                sweep.went_to(
                    rows.first().and_then(|row| text::unhex(text::field(row, 0)?)).unwrap_or_default(),
                );
            }
        });
    }

    async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let args = [
            Arg::Bytes(eviction.key.as_str().as_bytes()),
            Arg::Id(eviction.id),
            Arg::Number(number(eviction.seq)),
            Arg::Flag(eviction.when == When::Now),
        ];
        let answer = self.call(Op::Evict, Use::Attempt, LONGEST, "evict", &args).await?;
        match answer.as_str() {
            "2" => Ok(Evicted::Freed),
            "1" => Ok(Evicted::Stopped),
            "0" => Ok(Evicted::Gone),
            _ => Err(nonsense(Op::Evict)),
        }
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
        places(&self.links, filter).await.map_err(|err| err.with_engine(ENGINE))
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

/// A third of the ttl is all that a verb has.
fn limits(ttl: Ttl) -> Limits {
    Limits { wait: (ttl.get() / 4).min(LONGEST.wait), all: (ttl.get() / 3).min(LONGEST.all) }
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}
