//! MariaDB: one server for all trials, each with keys of its own.

use std::{sync::Arc, time::Duration};

use tenure_core::{Engine, EngineUrl, Result, Wake};
use tenure_mysql::{Kind, MysqlEngine, MysqlOptions, guarantees_of};

use super::{
    Found,
    store::{Store, build, found},
};
use crate::{
    Abilities, Site,
    mariadb::{MariaDb, installed},
};

/// The server and the trial read different clocks, and a commit waits for the disk.
const GRACE: Duration = Duration::from_millis(50);

pub(super) fn site() -> Found {
    let site = Site {
        name: "mysql",
        guarantees: guarantees_of(Kind::Durable, Wake::Push),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: build(|| Ok(Store::shared(MariaDb::shared()?.url()))),
    };
    found(installed(), site)
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(MysqlEngine::open(MysqlOptions::from_url(&mut url)?).await?)
}
