//! The connections of a client: which server has a key, and one connection to each.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::sync::Arc;

use tenure_core::{Key, Port, Result};

use crate::{link::Link, names::server_of, url::MemcachedOptions};

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<MemcachedOptions>,
    /// What a server is tried with.
    probe: String,
    /// The connection to each server.
    ports: Vec<Port<Link>>,
}

impl Links {
    pub(crate) fn new(options: MemcachedOptions, probe: String) -> Self {
        let ports = options.hosts.iter().map(|_| Port::new(Link::works)).collect();
        Self { options: Arc::new(options), probe, ports }
    }

    /// Which server has a key.
    pub(crate) fn server_of(&self, key: &Key) -> usize {
        server_of(&self.options.hosts, key)
    }

    /// The connection to the server that has a key.
    pub(crate) async fn of(&self, key: &Key) -> Result<Arc<Link>> {
        self.at(self.server_of(key)).await
    }

    /// The connections to all servers.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>> {
        futures_util::future::try_join_all((0..self.ports.len()).map(|server| self.at(server))).await
    }

    /// The connection to one server.
    pub(crate) async fn at(&self, server: usize) -> Result<Arc<Link>> {
        match self.ports[server].working() {
            Some(link) => Ok(link),
            None => Box::pin(self.connect(server)).await,
        }
    }

    async fn connect(&self, server: usize) -> Result<Arc<Link>> {
        let (options, probe) = (self.options.clone(), self.probe.clone());
        let open = async move { Link::open(&options.hosts[server], &options, &probe).await };
        self.ports[server].get(|| open).await
    }
}
