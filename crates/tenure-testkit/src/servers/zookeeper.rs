//! ZooKeeper: one server and one ensemble of three for all trials, and a server of its own for those that kill it.

use std::{sync::Arc, time::Duration};

use tenure_core::{Engine, EngineUrl, Result};
use tenure_zookeeper::{ZookeeperEngine, guarantees_of};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    zookeeper::{Ensemble, Zookeeper, ZookeeperOptions, installed},
};

/// A server looks once a tick which sessions have ended, is told by another only now and then who still lives, and what
/// has ended is a change that must be agreed on; on a machine busy with other things.
const GRACE: Duration = Duration::from_millis(1500);

/// One server; every trial has keys of its own.
pub(super) fn single() -> Found {
    let abilities = Abilities { helper: true, ..Abilities::default() };
    site("zookeeper", abilities, || Ok(Store::shared(Zookeeper::shared()?.url())))
}

/// Three servers; every trial has keys of its own.
pub(super) fn ensemble() -> Found {
    let abilities = Abilities { helper: true, ..Abilities::default() };
    site("zookeeper-ensemble", abilities, || Ok(Store::shared(Ensemble::shared()?.url())))
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    let abilities = Abilities { restart: true, only_restarts: true, ..Abilities::default() };
    site("zookeeper-restarted", abilities, || {
        let server = Zookeeper::start(&ZookeeperOptions::default())?;
        Ok(Store::own(server.url(), move || server.kill().and_then(|()| server.restart())))
    })
}

fn site(name: &'static str, abilities: Abilities, store: fn() -> crate::Result<Store>) -> Found {
    let shortest = Duration::from_millis(ZookeeperOptions::default().shortest.into());
    let site =
        Site { name, guarantees: guarantees_of(shortest), abilities, grace: GRACE, build: build(store) };
    found(installed(), site)
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(ZookeeperEngine::open(tenure_zookeeper::ZookeeperOptions::from_url(&mut url)?).await?)
}
