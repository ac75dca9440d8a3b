//! Redis: a server of its own for every trial, one cluster for all, and five servers as a quorum.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use tenure::{Member, Quorum, QuorumSettings};
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result, Ttl};
use tenure_redis::{Kind, RedisEngine, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    redis::{Cluster, Persistence, Redis, RedisOptions, five, installed},
};

/// The server and the trial read different clocks.
const GRACE: Duration = Duration::from_millis(20);

/// One server that keeps every write. Every trial has its own, so that it may be killed.
pub(super) fn single() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "redis", reason };
    }
    Found::Ready(Site {
        name: "redis",
        guarantees: guarantees_of(Kind::Durable),
        abilities: Abilities { helper: true, restart: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let options = RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() };
                let server = Redis::start(options).map_err(broken)?;
                Ok(Arc::new(RedisLab { url: server.url(), server: Some(server) }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// Three masters; every trial has keys of its own.
pub(super) fn cluster() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "redis-cluster", reason };
    }
    Found::Ready(Site {
        name: "redis-cluster",
        guarantees: guarantees_of(Kind::FailingOver),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let nodes = Cluster::shared().map_err(broken)?.nodes();
                let hosts: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
                let url = format!("redis+cluster://{}", hosts.join(","));
                Ok(Arc::new(RedisLab { url, server: None }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// Five independent servers that keep every write; every trial has keys of its own.
pub(super) fn quorum() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "quorum-redis", reason };
    }
    Found::Ready(Site {
        name: "quorum-redis",
        guarantees: Quorum::guarantees_over(&guarantees_of(Kind::Durable)),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                static FIVE: OnceLock<Result<[Redis; 5]>> = OnceLock::new();
                let five = FIVE.get_or_init(|| {
                    let options =
                        RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() };
                    five(&options).map_err(broken)
                });
                let five = five.as_ref().map_err(Clone::clone)?;
                let hosts: Vec<_> = five.iter().map(|server| server.addr().to_string()).collect();
                let url = format!("quorum+redis://{}", hosts.join(","));
                Ok(Arc::new(RedisLab { url, server: None }) as Arc<dyn Lab>)
            })
        }),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    if url.scheme().starts_with("quorum") {
        let members = tenure_redis::RedisOptions::members_from_url(&mut url)?;
        let member = |(name, options): (String, tenure_redis::RedisOptions)| {
            Member::late(name, move || {
                let options = options.clone();
                Box::pin(async move { Ok(RedisEngine::open(options).await? as Arc<dyn Engine>) })
            })
        };
        let mut settings = QuorumSettings::default();
        settings.max_ttl = Ttl::MAX;
        return Ok(Quorum::open(members.into_iter().map(member).collect(), settings).await?);
    }
    Ok(RedisEngine::open(tenure_redis::RedisOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct RedisLab {
    url: String,
    server: Option<Redis>,
}

#[async_trait]
impl Lab for RedisLab {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        open(&self.url).await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn restart(&self) -> Result<()> {
        let server = self.server.as_ref().ok_or_else(|| broken(crate::Failure::new("it is shared")))?;
        server.kill().and_then(|()| server.restart()).map_err(broken)
    }

    fn url(&self) -> Option<String> {
        Some(self.url.clone())
    }
}
