//! The connections of a client: which server has a key, and one connection to each.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tenure_core::{Key, Result};

use crate::{link::Link, names::server_of, url::MemcachedOptions};

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<MemcachedOptions>,
    /// What a server is tried with.
    probe: String,
    ports: Vec<Port>,
}

/// Where the connection to one server is kept.
#[derive(Debug, Default)]
struct Port {
    link: Mutex<Option<Arc<Link>>>,
    /// Shared by all who wait for it. It goes on where it was when those who waited have given up: a connection may
    /// take longer to make than a verb may last.
    connecting: Mutex<Option<Connecting>>,
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Link>>>>;

impl Links {
    pub(crate) fn new(options: MemcachedOptions, probe: String) -> Self {
        let ports = options.hosts.iter().map(|_| Port::default()).collect();
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
        let port = &self.ports[server];
        let connecting = {
            let mut connecting = lock(&port.connecting);
            if let Some(link) = port.working() {
                return Ok(link);
            }
            let (options, probe) = (self.options.clone(), self.probe.clone());
            let open = async move { Link::open(&options.hosts[server], &options, &probe).await };
            connecting.get_or_insert_with(|| open.boxed().shared()).clone()
        };
        let outcome = connecting.clone().await;
        let mut current = lock(&port.connecting);
        if current.as_ref().is_some_and(|current| current.ptr_eq(&connecting)) {
            *current = None;
            if let Ok(link) = &outcome {
                *lock(&port.link) = Some(link.clone());
            }
        }
        outcome
    }
}

impl Port {
    fn working(&self) -> Option<Arc<Link>> {
        lock(&self.link).as_ref().filter(|link| link.works()).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in single steps, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
