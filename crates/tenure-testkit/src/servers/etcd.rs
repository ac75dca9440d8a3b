//! etcd: one server for all trials, another of its own for those that kill it, and a cluster of three.

use std::{sync::Arc, time::Duration};

use tenure_core::{Engine, EngineUrl, Result};
use tenure_etcd::{EtcdEngine, EtcdOptions, Kind, guarantees_of};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    etcd::{Cluster, Etcd, EtcdOptions as ServerOptions, installed},
};

/// A server looks twice a second which leases have ended, and says so to the others.
const GRACE: Duration = Duration::from_millis(1000);

/// One server.
pub(super) fn single() -> Found {
    let site = Site {
        name: "etcd",
        guarantees: guarantees_of(Kind::Single),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| Ok(Store::shared(Etcd::shared()?.url()))),
    };
    found(installed(), site)
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    let site = Site {
        name: "etcd-restarted",
        guarantees: guarantees_of(Kind::Single),
        abilities: Abilities { restart: true, only_restarts: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| {
            let server = Etcd::start(ServerOptions::default())?;
            Ok(Store::own(server.url(), move || server.kill().and_then(|()| server.restart())))
        }),
    };
    found(installed(), site)
}

/// Three servers that agree; every trial has keys of its own.
pub(super) fn cluster() -> Found {
    let site = Site {
        name: "etcd-cluster",
        guarantees: guarantees_of(Kind::Cluster),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| Ok(Store::shared(Cluster::shared()?.url()))),
    };
    found(installed(), site)
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(EtcdEngine::open(EtcdOptions::from_url(&mut url)?).await?)
}
