//! memcached: one server for most trials, three for as many, and one of its own for those that kill it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result};
use tenure_memcached::{MemcachedEngine, guarantees};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    memcached::{Memcached, MemcachedOptions, installed},
};

/// A server counts in full seconds, and a lease that may not end early ends up to one later; its clock ticks a moment
/// after the second is over.
const GRACE: Duration = Duration::from_millis(1200);

/// One server; every trial has keys of its own.
pub(super) fn single() -> Found {
    site("memcached", Abilities::default(), || {
        Ok(MemcachedLab { url: Memcached::shared().map_err(broken)?.url(), server: None })
    })
}

/// Three servers that share the keys; every trial has keys of its own.
pub(super) fn three() -> Found {
    site("memcached-three", Abilities::default(), || {
        static THREE: OnceLock<Result<[Memcached; 3]>> = OnceLock::new();
        let three =
            THREE.get_or_init(|| Memcached::three().map_err(broken)).as_ref().map_err(Clone::clone)?;
        let hosts: Vec<_> = three.iter().map(|server| server.addr().to_string()).collect();
        Ok(MemcachedLab { url: format!("memcached://{}", hosts.join(",")), server: None })
    })
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    let abilities = Abilities { restart: true, only_restarts: true, ..Abilities::default() };
    site("memcached-restarted", abilities, || {
        let server = Memcached::start(MemcachedOptions::default()).map_err(broken)?;
        Ok(MemcachedLab { url: server.url(), server: Some(server) })
    })
}

fn site(name: &'static str, abilities: Abilities, lab: fn() -> Result<MemcachedLab>) -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name, reason };
    }
    Found::Ready(Site {
        name,
        guarantees: guarantees(),
        abilities: Abilities { helper: true, unlisted: true, ..abilities },
        grace: GRACE,
        build: Box::new(move |_| Box::pin(async move { Ok(Arc::new(lab()?) as Arc<dyn Lab>) })),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(MemcachedEngine::open(tenure_memcached::MemcachedOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct MemcachedLab {
    url: String,
    server: Option<Memcached>,
}

#[async_trait]
impl Lab for MemcachedLab {
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
