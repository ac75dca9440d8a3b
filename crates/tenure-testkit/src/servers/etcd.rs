//! etcd: one server for all trials, another of its own for those that kill it, and a cluster of three.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result};
use tenure_etcd::{EtcdEngine, EtcdOptions, Kind, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    etcd::{Cluster, Etcd, EtcdOptions as ServerOptions, installed},
};

/// A server looks twice a second which leases have ended, and says so to the others.
const GRACE: Duration = Duration::from_millis(1000);

/// One server.
pub(super) fn single() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "etcd", reason };
    }
    Found::Ready(Site {
        name: "etcd",
        guarantees: guarantees_of(Kind::Single),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let url = Etcd::shared().map_err(broken)?.url();
                Ok(Arc::new(EtcdLab { url, server: None }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// A server of its own for every trial, so that it may be killed.
pub(super) fn restarted() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "etcd-restarted", reason };
    }
    Found::Ready(Site {
        name: "etcd-restarted",
        guarantees: guarantees_of(Kind::Single),
        abilities: Abilities { restart: true, only_restarts: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let server = Etcd::start(ServerOptions::default()).map_err(broken)?;
                Ok(Arc::new(EtcdLab { url: server.url(), server: Some(server) }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// Three servers that agree; every trial has keys of its own.
pub(super) fn cluster() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "etcd-cluster", reason };
    }
    Found::Ready(Site {
        name: "etcd-cluster",
        guarantees: guarantees_of(Kind::Cluster),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let url = Cluster::shared().map_err(broken)?.url();
                Ok(Arc::new(EtcdLab { url, server: None }) as Arc<dyn Lab>)
            })
        }),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(EtcdEngine::open(EtcdOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct EtcdLab {
    url: String,
    server: Option<Etcd>,
}

#[async_trait]
impl Lab for EtcdLab {
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
