//! Redis: a server of its own for every trial, one cluster for all, and five servers as a quorum.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure::{Member, Quorum, QuorumSettings};
use tenure_core::{Engine, EngineUrl, Result, Ttl};
use tenure_redis::{Kind, RedisEngine, guarantees_of};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    redis::{Cluster, Persistence, Redis, RedisOptions, five, installed},
};

/// The server and the trial read different clocks.
const GRACE: Duration = Duration::from_millis(20);

/// One server that keeps every write. Every trial has its own, so that it may be killed.
pub(super) fn single() -> Found {
    let site = Site {
        name: "redis",
        guarantees: guarantees_of(Kind::Durable),
        abilities: Abilities { helper: true, restart: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| {
            let server = Redis::start(durable())?;
            Ok(Store::own(server.url(), move || server.kill().and_then(|()| server.restart())))
        }),
    };
    found(installed(), site)
}

/// Three masters; every trial has keys of its own.
pub(super) fn cluster() -> Found {
    let site = Site {
        name: "redis-cluster",
        guarantees: guarantees_of(Kind::FailingOver),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| Ok(at("redis+cluster", Cluster::shared()?.nodes()))),
    };
    found(installed(), site)
}

/// Five independent servers that keep every write; every trial has keys of its own.
pub(super) fn quorum() -> Found {
    let site = Site {
        name: "quorum-redis",
        guarantees: Quorum::guarantees_over(&guarantees_of(Kind::Durable)),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| {
            static FIVE: OnceLock<crate::Result<[Redis; 5]>> = OnceLock::new();
            let five = FIVE.get_or_init(|| five(&durable())).as_ref().map_err(Clone::clone)?;
            Ok(at("quorum+redis", five))
        }),
    };
    found(installed(), site)
}

fn durable() -> RedisOptions {
    RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() }
}

/// Several servers that all trials use.
fn at(scheme: &str, servers: &[Redis]) -> Store {
    let hosts: Vec<_> = servers.iter().map(|server| server.addr().to_string()).collect();
    Store::shared(format!("{scheme}://{}", hosts.join(",")))
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
