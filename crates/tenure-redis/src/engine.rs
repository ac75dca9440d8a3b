//! The verbs, each a script run where the key lives.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{FromRedisValue, Value};
use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Grant, Guarantees, Held, Incarnation, Key, Op, Patience, Place, Released, Renewal, Result, Seat, Seq,
    Standing, Turn, When, line,
};

use crate::{
    ENGINE,
    facts::{Memory, guarantees_of},
    link::{Arg, Link},
    links::{Call, First, Links, Replicas, Use},
    names::Names,
    news::News,
    script,
    sent::Sent,
    slot::slot_of,
    trouble::{is_being_moved, verb_failed},
    url::{RedisOptions, Topology},
    words::{
        absurd_floor, duration, granted, kept_for, micros, mode_of, nonsense, number, numbers, place,
        place_words, renewal, takes_place,
    },
};

/// The most holds that one script renews: a server does nothing else meanwhile.
const RENEWALS: usize = 100;
/// How many keys one step of a search looks at.
const SCAN: usize = 1000;
/// The most keys that a search collects.
const MOST_KEYS: usize = 100_000;
/// The longest an attempt waits for replicas.
const REPLICAS: Duration = Duration::from_secs(1);

/// Locks in Redis.
pub struct RedisEngine {
    links: Links,
    news: Arc<News>,
    sent: Sent,
    names: Names,
    /// This client's channel.
    channel: String,
    identity: EngineId,
    guarantees: Guarantees,
}

impl RedisEngine {
    /// Connects, and looks at what kind of server it is.
    ///
    /// # Errors
    /// `Unavailable` if nobody answers, `Denied` for a wrong password, `Invalid` for a server that is not what the
    /// options say or that forgets locks when its memory is full.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub async fn open(options: RedisOptions) -> Result<Arc<Self>> {
        let names = Names::new(&options.ns, options.topology == Topology::Cluster);
        let news = Arc::new(News::default());
        let mut id = [0; 8];
        getrandom::fill(&mut id).expect("the operating system gives random bytes");
        let channel = names.channel(u64::from_be_bytes(id));
        let links = Links::new(options, news.clone(), channel.clone());
        let link = links.at_key(names.identity.as_bytes(), Use::All).await?;
        let guarantees = guarantees_of(link.found.kind(&links.options.topology));
        let identity = identity(&link, &names.identity).await?;
        Ok(Arc::new(Self { links, news, sent: Sent::default(), names, channel, identity, guarantees }))
    }

    /// Asks the server for nothing: the bare round trip that every verb can be compared with.
    ///
    /// # Errors
    /// `Unavailable` if it does not answer.
    pub async fn ping(&self) -> Result<()> {
        let link = self.links.at_key(self.names.identity.as_bytes(), Use::All).await?;
        link.send(&redis::cmd("PING")).await.map_err(|err| verb_failed(Op::Examine, &link.address, err))?;
        Ok(())
    }

    async fn run(
        &self,
        op: Op,
        script: &script::Script,
        id: Option<ClaimId>,
        keys: &[Vec<u8>],
        args: &[Arg<'_>],
    ) -> Result<(Arc<Link>, Value)> {
        self.links.run(Call { op, script, id, keys, args, first: First::Caller }).await
    }

    async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        let line = self.names.line(&claim.key);
        let mark = self.names.mark(&line);
        // Before anything is sent: a push must find its listener.
        let here = self.links.at_key(&line, Use::All).await.map_err(|err| err.in_op(Op::Attempt))?;
        self.links.listen(&here).await?;
        if claim.patience == Patience::Queue {
            self.news.expect(claim.id);
        }
        let place = place_words(claim, &self.channel);
        let args = [
            Arg::Bytes(&place),
            Arg::Number(kept_for(claim.ttl)),
            Arg::Number(claim.floor.get()),
            Arg::Number(u64::from(here.memory == Memory::Durable)),
            Arg::Number(u64::from(claim.patience == Patience::Try)),
        ];
        // What is zero at the end is left out.
        let used = args.iter().rposition(|arg| !matches!(arg, Arg::Number(0))).map_or(0, |last| last + 1);
        let args = &args[..used];
        let keys = [line, mark];
        let call = Call {
            op: Op::Attempt,
            script: &script::ATTEMPT,
            id: Some(claim.id),
            keys: &keys,
            args,
            first: First::Caller,
        };
        let (link, answer) = match self.links.options.replicas {
            0 => {
                // A cluster may send it on to another node.
                if self.links.options.topology != Topology::Cluster {
                    self.sent.on(claim.id, &here);
                }
                self.links.run_on(here, call).await?
            }
            count => {
                let within = REPLICAS.min(claim.ttl.get() / 10);
                let (link, answer, had) = self.links.run_replicated(call, Replicas { count, within }).await?;
                if had < count && takes_place(&answer) {
                    // It may have a place on this server. The library asks again, or gives it back for good.
                    let message = format!(
                        "{had} of {count} replicas had the place after {within:?}; it is given back unless they follow"
                    );
                    return Err(Error::unavailable(Op::Attempt, message));
                }
                (link, answer)
            }
        };
        self.sent.answered(claim.id, &link);
        let seat = |seq| {
            Ok::<_, Error>(Seat {
                seq: number(Op::Attempt, seq)?,
                incarnation: Incarnation(link.incarnation),
            })
        };
        if let Some([seq, remembers]) = granted(&answer) {
            self.news.forget(claim.id);
            let remembers = match link.memory {
                Memory::Durable => None,
                Memory::UntilRestart => Some(duration(remembers)),
                // It may have forgotten a lock a moment ago, and would not know.
                Memory::UntilFull => Some(Duration::ZERO),
            };
            return Ok(Attempt::Granted(Grant { seat: seat(seq)?, ttl: Some(claim.ttl.get()), remembers }));
        }
        match numbers(Op::Attempt, answer)?[..] {
            [0, seq, ahead, mode, take, of, lapses] => {
                let seat = if seq < 0 { None } else { Some(seat(seq)?) };
                Ok(Attempt::Busy(Busy {
                    seat,
                    ttl: seat.map(|_| claim.ttl.get()),
                    ahead: u32::try_from(ahead).ok(),
                    blocker: mode_of(mode, take, of),
                    lapses_in: Some(duration(lapses)),
                }))
            }
            [-1] => {
                Err(Error::new(ErrorKind::Lost, Op::Attempt, "an operator evicted this claim from the line")
                    .not_applied())
            }
            [-2] => {
                Err(Error::new(ErrorKind::Lost, Op::Attempt, "this claim was released before").not_applied())
            }
            [-3] => {
                Err(Error::new(ErrorKind::Unavailable, Op::Attempt, "10,000 are in line already")
                    .not_applied())
            }
            [-4] => Err(absurd_floor(Op::Attempt)),
            _ => Err(nonsense(Op::Attempt)),
        }
    }

    async fn renew_(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        // One script for the holds of a slot, which lie on one server; without a cluster there is one slot.
        let mut groups: BTreeMap<(u16, Seq), Vec<usize>> = BTreeMap::new();
        let lines: Vec<Vec<u8>> = holds.iter().map(|hold| self.names.line(&hold.claim.key)).collect();
        for (at, (line, hold)) in lines.iter().zip(holds).enumerate() {
            let slot = if self.links.options.topology == Topology::Cluster { slot_of(line) } else { 0 };
            groups.entry((slot, hold.claim.floor)).or_default().push(at);
        }
        let calls = groups.iter().flat_map(|((_, floor), group)| {
            group.chunks(RENEWALS).map(|chunk| self.renew_group(*floor, chunk, holds, &lines))
        });
        let mut renewals = vec![Renewal::Lost; holds.len()];
        for answers in futures_util::future::try_join_all(calls).await? {
            for (at, renewal) in answers {
                renewals[at] = renewal;
            }
        }
        Ok(renewals)
    }

    /// Renews one by one while their slot is being moved and some are here, some there.
    async fn renew_group(
        &self,
        floor: Seq,
        chunk: &[usize],
        holds: &[Held<'_>],
        lines: &[Vec<u8>],
    ) -> Result<Vec<(usize, Renewal)>> {
        match self.renew_chunk(floor, chunk, holds, lines).await {
            Err(err) if chunk.len() > 1 && is_being_moved(&err) => {
                let each = chunk.chunks(1).map(|one| self.renew_chunk(floor, one, holds, lines));
                Ok(futures_util::future::try_join_all(each).await?.concat())
            }
            answers => answers,
        }
    }

    async fn renew_chunk(
        &self,
        floor: Seq,
        chunk: &[usize],
        holds: &[Held<'_>],
        lines: &[Vec<u8>],
    ) -> Result<Vec<(usize, Renewal)>> {
        let mut keys: Vec<Vec<u8>> = chunk.iter().map(|&at| lines[at].clone()).collect();
        if floor > Seq::ZERO {
            keys.push(self.names.mark(&keys[0]));
        }
        let ids: Vec<_> = chunk.iter().map(|&at| holds[at].claim.id.to_bytes()).collect();
        let mut args = vec![Arg::Number(floor.get())];
        for (&at, id) in chunk.iter().zip(&ids) {
            let hold = &holds[at];
            args.extend([
                Arg::Bytes(id),
                Arg::Number(hold.seq.get()),
                Arg::Number(micros(hold.claim.ttl.get())),
                Arg::Number(kept_for(hold.claim.ttl)),
            ]);
        }
        let (_, answer) = self.run(Op::Renew, &script::RENEW, None, &keys, &args).await?;
        let answers = Vec::<i64>::from_redis_value(answer).map_err(|_| nonsense(Op::Renew))?;
        if answers == [-4] {
            return Err(absurd_floor(Op::Renew));
        }
        if answers.len() != chunk.len() {
            return Err(nonsense(Op::Renew));
        }
        let renewal = |(&at, answer): (&usize, i64)| (at, renewal(answer, &holds[at]));
        Ok(chunk.iter().zip(answers).map(renewal).collect())
    }

    async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let (line, id) = (self.names.line(&hold.claim.key), Some(hold.claim.id));
        let args = [Arg::Number(hold.seq.get()), Arg::Number(micros(hold.claim.ttl.get()))];
        let (_, answer) = self.run(Op::Downgrade, &script::DOWNGRADE, id, &[line], &args).await?;
        match i64::from_redis_value(answer) {
            Ok(-1) => Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade)),
            Ok(answer) => Ok(renewal(answer, &hold)),
            Err(_) => Err(nonsense(Op::Downgrade)),
        }
    }

    async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        // Where it had to wait, others are likely to wait now.
        let first = if self.news.forget(claim.id) { First::Next } else { First::Caller };
        let keys = [self.names.line(&claim.key)];
        let link = self.links.at_key(&keys[0], Use::All).await.map_err(|err| err.in_op(Op::Release))?;
        let ttl = [Arg::Number(micros(claim.ttl.get()))];
        let in_order = self.sent.all_before(claim.id, &link);
        let args = match answered {
            Answered::InDoubt if !in_order => &ttl[..],
            Answered::All | Answered::InDoubt => &[],
        };
        // Once only: if this one is not answered, the next may overtake it.
        self.sent.forget(claim.id);
        let call =
            Call { op: Op::Release, script: &script::RELEASE, id: Some(claim.id), keys: &keys, args, first };
        let (_, answer) = self.links.run_on(link, call).await?;
        match i64::from_redis_value(answer) {
            Ok(1) => Ok(Released::Freed),
            Ok(0) => Ok(Released::NotHeld),
            _ => Err(nonsense(Op::Release)),
        }
    }

    async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let (line, id) = (self.names.line(&eviction.key), Some(eviction.id));
        let at_once = u64::from(eviction.when == When::Now);
        let args = [Arg::Number(eviction.seq.get()), Arg::Number(at_once)];
        let (_, answer) = self.run(Op::Evict, &script::EVICT, id, &[line], &args).await?;
        match i64::from_redis_value(answer) {
            Ok(2) => Ok(Evicted::Freed),
            Ok(1) => Ok(Evicted::Stopped),
            Ok(0) => Ok(Evicted::Gone),
            _ => Err(nonsense(Op::Evict)),
        }
    }

    async fn places(&self, filter: &Filter) -> Result<Vec<Place>> {
        match filter {
            Filter::Key(key) => self.show(key.clone()).await,
            Filter::Prefix(prefix, limit) => {
                let mut keys = Vec::new();
                for link in self.links.owners().await.map_err(|err| err.in_op(Op::Line))? {
                    self.search(&link, &self.names.pattern(prefix), &mut keys).await?;
                }
                keys.sort_unstable();
                keys.dedup();
                let mut places = Vec::new();
                for some in keys.chunks(RENEWALS) {
                    let lines = some.iter().map(async |key| match self.show(key.clone()).await {
                        // Somebody else's key, for all that its name looks like ours.
                        Err(err) if err.kind() == ErrorKind::Invalid => Ok(Vec::new()),
                        line => line,
                    });
                    places.extend(futures_util::future::try_join_all(lines).await?.into_iter().flatten());
                    if places.len() >= *limit {
                        break;
                    }
                }
                places.truncate(*limit);
                Ok(places)
            }
        }
    }

    /// Goes over all keys of a server in small steps, and collects those of lines.
    async fn search(&self, link: &Link, pattern: &[u8], keys: &mut Vec<Key>) -> Result<()> {
        let mut cursor = 0u64;
        loop {
            let mut cmd = redis::cmd("SCAN");
            // Keys of another type are not ours, whatever they are called.
            cmd.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN).arg("TYPE").arg("hash");
            let answer = link.send(&cmd).await.map_err(|err| verb_failed(Op::Line, &link.address, err))?;
            let (next, found) =
                <(u64, Vec<Vec<u8>>)>::from_redis_value(answer).map_err(|_| nonsense(Op::Line))?;
            keys.extend(found.iter().filter_map(|line| self.names.key(line)));
            if next == 0 || keys.len() >= MOST_KEYS {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn show(&self, key: Key) -> Result<Vec<Place>> {
        let (_, answer) = self.run(Op::Line, &script::SHOW, None, &[self.names.line(&key)], &[]).await?;
        let Value::Array(fields) = answer else { return Err(nonsense(Op::Line)) };
        let mut places = Vec::with_capacity(fields.len() / 8);
        for fields in fields.chunks_exact(8) {
            places.push(place(&key, fields).ok_or_else(|| nonsense(Op::Line))?);
        }
        let holders = line::holders(places.iter().map(|place| place.mode));
        places[..holders].iter_mut().for_each(|place| place.standing = Standing::Holds);
        Ok(places)
    }
}

#[async_trait]
impl tenure_core::Engine for RedisEngine {
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
                self.sent.forget(claim.id);
            }
            err.with_key(&claim.key).with_engine(ENGINE)
        })
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.news.turn(claim.id).await
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
        self.news.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.places(filter).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.evict_(eviction).await.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        let mut facts = Vec::new();
        for link in self.links.owners().await.map_err(|err| err.in_op(Op::Examine))? {
            let found = link.examine().await.map_err(|err| verb_failed(Op::Examine, &link.address, err))?;
            facts.push(Fact::good("server", link.address.to_string()));
            facts.extend(found.facts(&self.links.options));
        }
        Ok(facts)
    }
}

/// The identity that is kept in the server: whoever comes first draws it.
async fn identity(link: &Link, name: &str) -> Result<EngineId> {
    let failed = |err| verb_failed(Op::Connect, &link.address, err);
    let mut set = redis::cmd("SET");
    set.arg(name).arg(&EngineId::fresh().to_bytes()).arg("NX");
    let mut get = redis::cmd("GET");
    get.arg(name);
    // Sent one after the other, on one connection.
    let (set, get) = futures_util::join!(link.send(&set), link.send(&get));
    set.map_err(failed)?;
    match get.map_err(failed)? {
        Value::BulkString(bytes) => match bytes.try_into() {
            Ok(bytes) => Ok(EngineId::from_bytes(bytes)),
            Err(_) => Err(Error::invalid(format!(
                "the key `{name}` of the server is not tenure's; choose another ns="
            ))
            .in_op(Op::Connect)
            .with_engine(ENGINE)),
        },
        _ => Err(nonsense(Op::Connect)),
    }
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEngine").field("options", &self.links.options).finish_non_exhaustive()
    }
}
