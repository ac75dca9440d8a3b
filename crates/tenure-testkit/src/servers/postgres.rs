//! PostgreSQL: one server for all trials, directly and through a pooler, and one of its own for those that kill it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result, Wake};
use tenure_postgres::{Kind, PostgresEngine, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    pgbouncer::{self, PgBouncer},
    postgres::{Postgres, PostgresOptions, installed},
};

/// The server and the trial read different clocks.
const GRACE: Duration = Duration::from_millis(20);

const KIND: Kind = Kind::Durable { standbys: false };

/// A server of its own for every trial, so that it may be killed.
pub(super) fn single() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "postgres", reason };
    }
    Found::Ready(Site {
        name: "postgres",
        guarantees: guarantees_of(KIND, Wake::Push),
        abilities: Abilities { helper: true, restart: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let server = Postgres::start(PostgresOptions::default()).map_err(broken)?;
                Ok(Arc::new(PostgresLab { url: server.url(), server: Some(server) }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// One server behind a pooler that lends connections for a transaction; every trial has keys of its own.
pub(super) fn pooled() -> Found {
    if let Err(reason) = pgbouncer::installed() {
        return Found::Missing { name: "postgres-pgbouncer", reason };
    }
    Found::Ready(Site {
        name: "postgres-pgbouncer",
        guarantees: guarantees_of(KIND, Wake::Poll),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let url = PgBouncer::shared().map_err(broken)?.url();
                Ok(Arc::new(PostgresLab { url, server: None }) as Arc<dyn Lab>)
            })
        }),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(PostgresEngine::open(tenure_postgres::PostgresOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct PostgresLab {
    url: String,
    server: Option<Postgres>,
}

#[async_trait]
impl Lab for PostgresLab {
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
