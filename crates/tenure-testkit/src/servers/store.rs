//! A store that is a server: what the labs of all engines that have one share.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tenure_core::{BootClock, Clock, Engine, Error, Op, Result};

use super::Found;
use crate::{Build, Failure, Lab, Site};

/// The site, if what its stores need is installed.
pub(super) fn found(installed: Result<(), String>, site: Site) -> Found {
    match installed {
        Ok(()) => Found::Ready(site),
        Err(reason) => Found::Missing { name: site.name, reason },
    }
}

/// How a site opens its stores.
pub(super) fn build(store: fn() -> crate::Result<Store>) -> Build {
    Box::new(move |_| {
        Box::pin(async move {
            let store = store().map_err(broken)?;
            Ok(Arc::new(store) as Arc<dyn Lab>)
        })
    })
}

/// A server by its URL.
pub(super) struct Store {
    url: String,
    restart: Option<Box<dyn Fn() -> crate::Result + Send + Sync>>,
}

impl Store {
    /// A server that other trials use too, with keys of their own.
    pub(super) fn shared(url: String) -> Self {
        Self { url, restart: None }
    }

    /// A server of the trial's own, with how it is killed and started again.
    pub(super) fn own(url: String, restart: impl Fn() -> crate::Result + Send + Sync + 'static) -> Self {
        Self { url, restart: Some(Box::new(restart)) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("url", &self.url).finish_non_exhaustive()
    }
}

#[async_trait]
impl Lab for Store {
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        super::open(&self.url).await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn restart(&self) -> Result<()> {
        match &self.restart {
            Some(restart) => restart().map_err(broken),
            None => Err(broken(Failure::new("it is shared"))),
        }
    }

    fn url(&self) -> Option<String> {
        Some(self.url.clone())
    }
}

fn broken(failure: Failure) -> Error {
    Error::unavailable(Op::Connect, format!("the server of the trial failed: {failure}"))
}
