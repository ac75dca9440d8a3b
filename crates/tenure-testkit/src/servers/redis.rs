//! Redis: a server of its own for every trial, and one cluster for all.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result};
use tenure_redis::{Kind, RedisEngine, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    redis::{Cluster, Persistence, Redis, RedisOptions, installed},
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

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
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
