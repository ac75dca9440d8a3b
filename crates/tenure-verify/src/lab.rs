//! The engine that a run is about: the user's own, or real private servers that are started for it.

mod can;
mod clock;
mod evict;
mod name;
mod order;
mod start;
mod strike;

use std::net::SocketAddr;

use tempfile::TempDir;
use tenure_testkit::{
    Failure, etcd, mariadb,
    memcached::Memcached,
    pgbouncer::PgBouncer,
    postgres,
    proxy::Proxy,
    redis::{self, Redis, Sentinels},
    zookeeper::Ensemble,
};

pub use self::name::LabName;
pub(crate) use self::start::Setting;
use crate::{faults::FaultKind, trouble::Trouble};

/// The servers of a run; gone when dropped.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) name: Option<LabName>,
    url: String,
    /// Where the servers are that a proxy can stand before.
    addresses: Vec<SocketAddr>,
    servers: Servers,
    /// What its owner has allowed: a command for each fault of the engine.
    orders: Vec<(FaultKind, String)>,
}

#[derive(Debug)]
enum Servers {
    /// Somebody else's, or none.
    None,
    Folder(#[expect(dead_code, reason = "it is there until it is dropped")] TempDir),
    Redis(Vec<Redis>),
    Sentinels(Box<Sentinels>),
    MariaDb(mariadb::MariaDb),
    Postgres(postgres::Postgres),
    Zookeeper(Ensemble),
    Etcd(etcd::Cluster),
    Memcached(Memcached),
    RedisCluster(Box<redis::Cluster>),
    Pooled(
        #[expect(dead_code, reason = "it is there until it is dropped")] PgBouncer,
        #[expect(dead_code, reason = "it is there until it is dropped")] Box<postgres::Postgres>,
    ),
}

/// What an engine's fault says of itself: proof that it hit.
pub(crate) type Proof = String;

impl Lab {
    /// The user's own engine. It is struck only by the commands that its owner gives for that.
    pub(crate) fn of_url(url: &str, addresses: Vec<SocketAddr>, orders: &[(FaultKind, String)]) -> Self {
        Self { name: None, url: url.to_owned(), addresses, servers: Servers::None, orders: orders.to_vec() }
    }

    /// What its owner has ordered for this fault.
    fn order(&self, fault: FaultKind) -> Option<&str> {
        self.orders.iter().find(|(ordered, _)| *ordered == fault).map(|(_, command)| command.as_str())
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether a proxy can stand between a worker and this engine.
    pub(crate) fn has_wires(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// A way to the engine of a worker's own, that can be broken.
    pub(crate) fn wire(&self) -> Result<Wire, Trouble> {
        let mut url = self.url.clone();
        let mut proxies = Vec::new();
        for address in &self.addresses {
            let proxy = Proxy::start(*address).map_err(cannot)?;
            url = url.replace(&address.to_string(), &proxy.addr().to_string());
            proxies.push(proxy);
        }
        Ok(Wire { url, proxies })
    }
}

fn cannot(failure: Failure) -> Trouble {
    Trouble::Unavailable(failure.to_string())
}

/// A worker's own way to its engine.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) url: String,
    pub(crate) proxies: Vec<Proxy>,
}
