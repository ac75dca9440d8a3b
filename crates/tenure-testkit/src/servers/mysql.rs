//! MariaDB: one server for all trials, each with keys of its own.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, EngineUrl, Error, Op, Result, Wake};
use tenure_mysql::{Kind, MysqlEngine, MysqlOptions, guarantees_of};

use super::Found;
use crate::{
    Abilities, Lab, Site,
    mariadb::{MariaDb, installed},
};

/// The server and the trial read different clocks, and a commit waits for the disk.
const GRACE: Duration = Duration::from_millis(50);

pub(super) fn site() -> Found {
    if let Err(reason) = installed() {
        return Found::Missing { name: "mysql", reason };
    }
    Found::Ready(Site {
        name: "mysql",
        guarantees: guarantees_of(Kind::Durable, Wake::Push),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: GRACE,
        build: Box::new(|_| {
            Box::pin(async {
                let server = MariaDb::shared().map_err(broken)?;
                Ok(Arc::new(MysqlLab { url: server.url() }) as Arc<dyn Lab>)
            })
        }),
    })
}

fn broken(failure: crate::Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}

pub(super) async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    let mut url: EngineUrl = url.parse()?;
    Ok(MysqlEngine::open(MysqlOptions::from_url(&mut url)?).await?)
}

#[derive(Debug)]
struct MysqlLab {
    url: String,
}

#[async_trait]
impl Lab for MysqlLab {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        open(&self.url).await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    fn url(&self) -> Option<String> {
        Some(self.url.clone())
    }
}
