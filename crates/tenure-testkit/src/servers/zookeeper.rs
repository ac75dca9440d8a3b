//! ZooKeeper: one server and one ensemble of three for all trials, and a server of its own for those that kill it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result};
use tenure_zookeeper::{ZookeeperEngine, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    zookeeper::{Ensemble, Zookeeper, ZookeeperOptions, installed},
};

/// A server looks once a tick which sessions have ended, is told by another only now and then who still lives, and what
/// has ended is a change that must be agreed on; on a machine busy with other things.
const GRACE: Duration = Duration::from_millis(1500);

/// One server; every trial has keys of its own.
pub(super) fn single() -> Found {
    site("zookeeper", Abilities { helper: true, ..Abilities::default() }, || {
        Ok(ZookeeperLab { url: Zookeeper::shared()?.url(), server: None })
    })
}

/// Three servers; every trial has keys of its own.
pub(super) fn ensemble() -> Found {
    site("zookeeper-ensemble", Abilities { helper: true, ..Abilities::default() }, || {
        Ok(ZookeeperLab { url: Ensemble::shared()?.url(), server: None })
    })
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    let abilities = Abilities { restart: true, only_restarts: true, ..Abilities::default() };
    site("zookeeper-restarted", abilities, || {
        let server = Zookeeper::start(&ZookeeperOptions::default())?;
        Ok(ZookeeperLab { url: server.url(), server: Some(server) })
    })
}

fn site(name: &'static str, abilities: Abilities, start: fn() -> crate::Result<ZookeeperLab>) -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name, reason };
    }
    let shortest = Duration::from_millis(ZookeeperOptions::default().shortest.into());
    Found::Ready(Site {
        name,
        guarantees: guarantees_of(shortest),
        abilities,
        grace: GRACE,
        build: Box::new(move |_| {
            Box::pin(async move {
                let lab = start().map_err(broken)?;
                Ok(Arc::new(lab) as Arc<dyn Lab>)
            })
        }),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(ZookeeperEngine::open(tenure_zookeeper::ZookeeperOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct ZookeeperLab {
    url: String,
    server: Option<Zookeeper>,
}

#[async_trait]
impl Lab for ZookeeperLab {
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
