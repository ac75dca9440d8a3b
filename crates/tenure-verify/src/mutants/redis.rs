//! Wrong ways on Redis: one right way, each time with one step that is not.

mod ask;
mod lines;

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
    wire::{KeySpec, Proof, Spec},
    worker::Orders,
};

/// How often whoever waits asks again.
const POLL: Duration = Duration::from_millis(8);

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
