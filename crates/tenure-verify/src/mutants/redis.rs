//! Wrong ways on Redis: one right way, each time with one step that is not.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisResult, Script, aio::MultiplexedConnection};
use tenure_core::ClaimId;
use tokio::time::{Instant, sleep, timeout};

use super::Mutant;
use crate::{
    clock::{nanos, now},
    history::{Freed, Nanos},
    locks::{Held, Locks, Look, Unanswered, Wish},
    wire::{KeySpec, Point, Proof, Spec},
    worker::Orders,
};

/// How often whoever waits asks again.
const POLL: Duration = Duration::from_millis(8);

const TAKE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                    return redis.call('INCR', KEYS[2]) else return 0 end";
const GIVE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                     return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end";

/// A way to lock on one or several servers.
struct Way {
    inner: Arc<Inner>,
    client: redis::Client,
    orders: Arc<Orders>,
}

/// What a hold needs of it.
struct Inner {
    mutant: Mutant,
    servers: Vec<MultiplexedConnection>,
    ttl: Duration,
}

pub(super) async fn open(mutant: Mutant, spec: &Spec, orders: Arc<Orders>) -> Result<Arc<dyn Locks>, String> {
    let hosts = spec.url.split_once("://").map_or("", |(_, hosts)| hosts);
    let (mut servers, mut first) = (Vec::new(), None);
    for host in hosts.split(',') {
        let client = redis::Client::open(format!("redis://{host}")).map_err(|err| err.to_string())?;
        servers.push(connected(&client).await.map_err(|err| err.to_string())?);
        first.get_or_insert(client);
    }
    let client = first.ok_or("no server is named")?;
    let inner = Arc::new(Inner { mutant, servers, ttl: spec.ttl });
    Ok(Arc::new(Way { inner, client, orders }))
}

/// A connection on which an answer is waited for, however late: most drivers do.
async fn connected(client: &redis::Client) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&patient).await
}

impl Inner {
    async fn run<T: FromRedisValue>(&self, server: usize, words: &[&str]) -> RedisResult<T> {
        let mut cmd: Cmd = redis::cmd(words[0]);
        for word in &words[1..] {
            cmd.arg(*word);
        }
        cmd.query_async(&mut self.servers[server].clone()).await
    }

    async fn script(
        &self,
        server: usize,
        script: &str,
        keys: [&str; 2],
        args: [&str; 2],
    ) -> RedisResult<u64> {
        let script = Script::new(script);
        let mut call = script.prepare_invoke();
        call.key(keys[0]).key(keys[1]).arg(args[0]).arg(args[1]);
        call.invoke_async(&mut self.servers[server].clone()).await
    }

    fn millis(&self) -> String {
        self.ttl.as_millis().to_string()
    }

    fn safe_from(&self, from: Nanos) -> Nanos {
        from + nanos(self.ttl.mul_f64(0.95))
    }
}

/// What a holder knows.
struct Hold {
    inner: Arc<Inner>,
    id: String,
    fence: Option<u64>,
    until: Mutex<Option<Nanos>>,
    key: String,
}

#[async_trait]
impl Locks for Way {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let deadline = Instant::now() + wish.patience.unwrap_or_default();
        if self.inner.mutant == Mutant::VolatileFence {
            // Its server comes back, so it must be found again.
            let server = connected(&self.client).await;
            let no = |err: redis::RedisError| Unanswered { maybe: false, why: err.to_string() };
            let (mutant, ttl) = (self.inner.mutant, self.inner.ttl);
            let inner = Arc::new(Inner { mutant, servers: vec![server.map_err(no)?], ttl });
            let again = Self { inner, client: self.client.clone(), orders: self.orders.clone() };
            return again.hold(key, wish, deadline).await;
        }
        self.hold(key, wish, deadline).await
    }

    async fn close(&self) {}
}

/// A fence and a deadline, where there is such a thing.
type Got = Option<(Option<u64>, Option<Nanos>)>;

impl Way {
    async fn hold(
        &self,
        key: &KeySpec,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let id = match self.inner.mutant {
            Mutant::SameOwner => "app:1".to_owned(),
            _ => ClaimId::fresh().to_string(),
        };
        let got = match self.inner.mutant {
            Mutant::NoLock => Some((None, None)),
            Mutant::NoRecheck => self.in_line(key, &id, deadline).await?,
            Mutant::Ghost => self.ticket(key, deadline).await?,
            _ => self.until_granted(key, &id, wish, deadline).await?,
        };
        Ok(got.map(|(fence, until)| {
            let (inner, until) = (self.inner.clone(), Mutex::new(until));
            Box::new(Hold { inner, id, fence, until, key: key.name.clone() }) as Box<dyn Held>
        }))
    }

    async fn until_granted(
        &self,
        key: &KeySpec,
        id: &str,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<Got, Unanswered> {
        let mutant = self.inner.mutant;
        loop {
            let sent = now();
            if let Some(fence) = self.attempt(key, id, wish).await? {
                let from = if mutant == Mutant::DeadlineFromReply { now() } else { sent };
                let until = (mutant != Mutant::NoDeadline).then(|| self.inner.safe_from(from));
                return Ok(Some(((fence > 0).then_some(fence << 10), until)));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            match mutant {
                Mutant::WakeOnly => self.wait_for_word(key, deadline).await,
                _ => sleep(POLL).await,
            }
        }
    }

    /// Asks once; the fence if it is granted, 0 where there is none.
    async fn attempt(&self, key: &KeySpec, id: &str, wish: &Wish) -> Result<Option<u64>, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (fences, ttl) = (format!("{name}:fence"), inner.millis());
        let take = inner.script(0, TAKE, [name, &fences], [id, &ttl]);
        match inner.mutant {
            Mutant::ReadThenSet => {
                let found: Option<String> = inner.run(0, &["GET", name]).await.map_err(Unanswered::maybe)?;
                if found.is_some() {
                    return Ok(None);
                }
                inner.run::<()>(0, &["SET", name, id, "PX", &ttl]).await.map_err(Unanswered::maybe)?;
                Ok(Some(0))
            }
            Mutant::SetnxExpire => {
                let set: u64 = inner.run(0, &["SETNX", name, id]).await.map_err(Unanswered::maybe)?;
                if set == 0 {
                    return Ok(None);
                }
                self.orders.pass(Point::Halfway, wish.who);
                inner.run::<()>(0, &["PEXPIRE", name, &ttl]).await.map_err(Unanswered::maybe)?;
                Ok(Some(0))
            }
            Mutant::SameOwner => {
                let got = take.await.map_err(Unanswered::maybe)?;
                let owner: Option<String> = inner.run(0, &["GET", name]).await.map_err(Unanswered::maybe)?;
                Ok((got > 0 || owner.as_deref() == Some(id)).then_some(0))
            }
            Mutant::NotCleaned => {
                // Kept alive from the first moment, so that a slow answer does not find it expired.
                let keeping = tokio::spawn(keep(inner.clone(), name.to_owned(), id.to_owned()));
                let Ok(answer) = timeout(inner.ttl / 2, take).await else {
                    return Err(Unanswered::maybe("no answer in time"));
                };
                keeping.abort();
                Ok(Some(answer.map_err(Unanswered::maybe)?).filter(|got| *got > 0))
            }
            Mutant::MaxWithoutWriteBack => Ok(self.majority(name, id).await),
            _ => Ok(Some(take.await.map_err(Unanswered::maybe)?).filter(|got| *got > 0)),
        }
    }

    async fn majority(&self, name: &str, id: &str) -> Option<u64> {
        let (inner, fences, ttl) = (&self.inner, format!("{name}:fence"), self.inner.millis());
        let asked = (0..inner.servers.len()).map(|server| {
            let (fences, ttl) = (fences.as_str(), ttl.as_str());
            async move {
                let answer = inner.script(server, TAKE, [name, fences], [id, ttl]);
                timeout(Duration::from_millis(50), answer).await.ok()?.ok()
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let granted: Vec<u64> = answers.into_iter().flatten().filter(|got| *got > 0).collect();
        if granted.len() > inner.servers.len() / 2 {
            return granted.into_iter().max();
        }
        give(inner, name, id).await;
        sleep(POLL.mul_f64(fastrand::f64())).await;
        None
    }

    async fn wait_for_word(&self, key: &KeySpec, deadline: Instant) {
        // A connection of its own: it blocks. And one that does not give up by itself after a while, as drivers do: that would
        // be to ask again.
        let blocking = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let Ok(mut own) = self.client.get_multiplexed_async_connection_with_config(&blocking).await else {
            return sleep(POLL).await;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let mut word = redis::cmd("BLPOP");
        word.arg(format!("{}:word", key.name)).arg(0);
        let _ = timeout(left, word.query_async::<redis::Value>(&mut own)).await;
    }

    /// Takes a place in a line, waits for who is before it, and does not look at its own place again.
    async fn in_line(&self, key: &KeySpec, id: &str, deadline: Instant) -> Result<Got, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (line, fences, ttl) = (format!("{name}:line"), format!("{name}:fence"), inner.millis());
        let place = |id: &str| format!("{name}:place:{id}");
        let number: u64 = inner.run(0, &["INCR", &fences]).await.map_err(Unanswered::maybe)?;
        inner.run::<()>(0, &["SET", &place(id), "1", "PX", &ttl]).await.map_err(Unanswered::maybe)?;
        let join = ["ZADD", &line, &number.to_string(), id];
        inner.run::<()>(0, &join).await.map_err(Unanswered::maybe)?;
        loop {
            let (sent, below) = (now(), format!("({number}"));
            let before: Vec<String> =
                inner.run(0, &["ZRANGEBYSCORE", &line, "-inf", &below]).await.map_err(Unanswered::maybe)?;
            let mut waits = false;
            for other in before {
                let lives: u64 =
                    inner.run(0, &["EXISTS", &place(&other)]).await.map_err(Unanswered::maybe)?;
                waits |= lives > 0;
            }
            if !waits {
                return Ok(Some((Some(number << 10), Some(inner.safe_from(sent)))));
            }
            if Instant::now() >= deadline {
                give(inner, name, id).await;
                return Ok(None);
            }
            sleep(POLL).await;
            inner.run::<()>(0, &["PEXPIRE", &place(id), &ttl]).await.map_err(Unanswered::maybe)?;
        }
    }

    /// Draws a number, and another one if nobody answers; then waits until it is called.
    async fn ticket(&self, key: &KeySpec, deadline: Instant) -> Result<Got, Unanswered> {
        let (inner, name) = (&self.inner, key.name.as_str());
        let (drawn, served) = (format!("{name}:drawn"), format!("{name}:served"));
        let mut number = None;
        while number.is_none() {
            let draw = ["INCR", drawn.as_str()];
            number = timeout(inner.ttl / 2, inner.run::<u64>(0, &draw)).await.ok().and_then(Result::ok);
        }
        let number = number.unwrap_or_default();
        loop {
            let last: Option<u64> = inner.run(0, &["GET", &served]).await.map_err(Unanswered::maybe)?;
            if last.unwrap_or_default() + 1 == number {
                if Instant::now() >= deadline {
                    // Too late for whoever asked; the next one is called.
                    give(inner, name, "").await;
                    return Ok(None);
                }
                return Ok(Some((Some(number << 10), None)));
            }
            sleep(POLL).await;
        }
    }
}

async fn keep(inner: Arc<Inner>, key: String, id: String) {
    loop {
        sleep(inner.ttl / 3).await;
        let _ = inner.script(0, RENEW, [&key, &key], [&id, &inner.millis()]).await;
    }
}

async fn give(inner: &Inner, name: &str, id: &str) -> Freed {
    let mut freed = Freed::Unknown;
    for server in 0..inner.servers.len() {
        let gone = match inner.mutant {
            Mutant::BlindDelete => inner.run(server, &["DEL", name]).await,
            Mutant::NoRecheck => {
                let _ = inner.run::<u64>(server, &["ZREM", &format!("{name}:line"), id]).await;
                inner.run(server, &["DEL", &format!("{name}:place:{id}")]).await
            }
            Mutant::Ghost => inner.run(server, &["INCR", &format!("{name}:served")]).await,
            _ => {
                let gone = inner.script(server, GIVE, [name, name], [id, ""]);
                timeout(inner.ttl / 2, gone).await.unwrap_or(Ok(0))
            }
        };
        freed = match gone {
            Ok(1..) => Freed::Yes,
            Ok(0) if freed != Freed::Yes => Freed::NotHeld,
            _ => freed,
        };
        if inner.mutant == Mutant::WakeOnly {
            // Whoever listens hears it; for whoever comes later it was never said.
            let _ = inner.run::<u64>(server, &["DEL", &format!("{name}:word")]).await;
            let _ = inner.run::<u64>(server, &["LPUSH", &format!("{name}:word"), "free"]).await;
        }
    }
    freed
}

#[async_trait]
impl Held for Hold {
    fn proof(&self) -> Option<Proof> {
        // Who has no claim id of its own shows its name in the shape of one.
        let claim = self.id.parse::<ClaimId>().unwrap_or_else(|_| ClaimId::from_bytes([1; 16]));
        self.fence.map(|fence| Proof { fence, claim: claim.to_string(), shared: false })
    }

    fn look(&self) -> Look {
        match *self.until.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(until) if until <= now() => Look::Lost,
            until => Look::Until(until),
        }
    }

    async fn refresh(&self) {
        if self.inner.mutant != Mutant::BlindRenew {
            return;
        }
        let sent = now();
        let renewed = self.inner.run::<u64>(0, &["PEXPIRE", &self.key, &self.inner.millis()]).await;
        if renewed.is_ok_and(|renewed| renewed == 1) {
            let until = self.inner.safe_from(sent);
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
    }

    async fn release(self: Box<Self>) -> Freed {
        if self.inner.mutant == Mutant::NoLock {
            return Freed::Yes;
        }
        give(&self.inner, &self.key, &self.id).await
    }
}
