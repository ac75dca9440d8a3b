//! PostgreSQL: one server for all trials, directly and through a pooler, and one of its own for those that kill it.

use std::{sync::Arc, time::Duration};

use tenure_core::{Engine, EngineUrl, Result, Wake};
use tenure_postgres::{Kind, PostgresEngine, guarantees_of};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    pgbouncer::{self, PgBouncer},
    postgres::{Postgres, PostgresOptions, installed},
};

/// The server and the trial read different clocks.
const GRACE: Duration = Duration::from_millis(20);

const KIND: Kind = Kind::Durable { standbys: false };

/// A server of its own for every trial, so that it may be killed.
pub(super) fn single() -> Found {
    let site = Site {
        name: "postgres",
        guarantees: guarantees_of(KIND, Wake::Push),
        abilities: Abilities { helper: true, restart: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| {
            let server = Postgres::start(PostgresOptions::default())?;
            Ok(Store::own(server.url(), move || server.kill().and_then(|()| server.restart())))
        }),
    };
    found(installed(), site)
}

/// One server behind a pooler that lends connections for a transaction; every trial has keys of its own.
pub(super) fn pooled() -> Found {
    let site = Site {
        name: "postgres-pgbouncer",
        guarantees: guarantees_of(KIND, Wake::Poll),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| Ok(Store::shared(PgBouncer::shared()?.url()))),
    };
    found(pgbouncer::installed(), site)
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(PostgresEngine::open(tenure_postgres::PostgresOptions::from_url(&mut url)?).await?)
}
