//! memcached: one server for most trials, three for as many, and one of its own for those that kill it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure_core::{Engine, EngineUrl, Result};
use tenure_memcached::{MemcachedEngine, guarantees};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    memcached::{Memcached, MemcachedOptions, installed},
};

/// A server counts in full seconds, and a lease that may not end early ends up to one later; its clock ticks a moment
/// after the second is over.
const GRACE: Duration = Duration::from_millis(1200);

/// One server; every trial has keys of its own.
pub(super) fn single() -> Found {
    site("memcached", Abilities::default(), || Ok(Store::shared(Memcached::shared()?.url())))
}

/// Three servers that share the keys; every trial has keys of its own.
pub(super) fn three() -> Found {
    site("memcached-three", Abilities::default(), || {
        static THREE: OnceLock<crate::Result<[Memcached; 3]>> = OnceLock::new();
        let three = THREE.get_or_init(Memcached::three).as_ref().map_err(Clone::clone)?;
        let hosts: Vec<_> = three.iter().map(|server| server.addr().to_string()).collect();
        Ok(Store::shared(format!("memcached://{}", hosts.join(","))))
    })
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    let abilities = Abilities { restart: true, only_restarts: true, ..Abilities::default() };
    site("memcached-restarted", abilities, || {
        let server = Memcached::start(MemcachedOptions::default())?;
        Ok(Store::own(server.url(), move || server.kill().and_then(|()| server.restart())))
    })
}

fn site(name: &'static str, abilities: Abilities, store: fn() -> crate::Result<Store>) -> Found {
    let site = Site {
        name,
        guarantees: guarantees(),
        abilities: Abilities { helper: true, unlisted: true, ..abilities },
        grace: GRACE,
        build: build(store),
    };
    found(installed(), site)
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(MemcachedEngine::open(tenure_memcached::MemcachedOptions::from_url(&mut url)?).await?)
}
