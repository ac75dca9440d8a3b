//! Starts the servers of a lab.

use tempfile::TempDir;
use tenure_testkit::{
    etcd, mariadb,
    memcached::{Memcached, MemcachedOptions},
    pgbouncer::{PgBouncer, PgBouncerOptions},
    postgres,
    redis::{self, Persistence, Redis, RedisOptions, Sentinels},
    zookeeper::{Ensemble, ZookeeperOptions},
};

use super::{Lab, LabName, Servers, cannot};
use crate::{faults::FaultKind, trouble::Trouble};

/// How servers are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// As people would.
    Usual,
    /// With little memory, and with leave to evict what has a lease when it is full.
    Evicting,
    /// With a wall clock of their own, which can be set.
    OwnClock,
    /// With what can cut one off from the others between them. Members of ZooKeeper take seconds longer to find a leader then.
    Severable,
}

impl Setting {
    /// What this fault needs.
    pub(crate) const fn of(fault: FaultKind) -> Self {
        match fault {
            FaultKind::Evict => Self::Evicting,
            FaultKind::ClockAhead | FaultKind::ClockBack => Self::OwnClock,
            FaultKind::LeaderCut => Self::Severable,
            _ => Self::Usual,
        }
    }
}

/// Who the clients of a master are, so that its replica and its sentinels can be shut out without them.
const CLIENTS: [&str; 2] = ["clients", "clients"];

impl Lab {
    /// Starts the servers. Takes up to some seconds, and blocks.
    pub(crate) fn start(name: LabName, setting: Setting) -> Result<Self, Trouble> {
        let clock = setting == Setting::OwnClock;
        let lab = |url: String, addresses, servers| Self {
            name: Some(name),
            url,
            addresses,
            servers,
            orders: Vec::new(),
        };
        let list = |servers: &[Redis]| {
            servers.iter().map(|server| server.addr().to_string()).collect::<Vec<_>>().join(",")
        };
        Ok(match name {
            LabName::File => {
                let dir = TempDir::with_prefix("tenure-verify-")
                    .map_err(|err| Trouble::internal("a folder", err))?;
                lab(format!("file:{}", dir.path().join("locks").display()), Vec::new(), Servers::Folder(dir))
            }
            LabName::Memory => lab("memory:verify".into(), Vec::new(), Servers::None),
            LabName::Redis | LabName::RedisVolatile => {
                let server = Redis::start(redis_options(name, setting)).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Redis(vec![server]))
            }
            LabName::Redlock => {
                let five = Vec::from(redis::five(&redis_options(name, setting)).map_err(cannot)?);
                let addresses = five.iter().map(Redis::addr).collect();
                lab(format!("quorum+redis://{}", list(&five)), addresses, Servers::Redis(five))
            }
            LabName::RedisSentinel => {
                let [user, password] = CLIENTS;
                let options = RedisOptions {
                    password: Some("nobody".into()),
                    acl: vec![format!("{user} on >{password} ~* &* +@all")],
                    peers: true,
                    ..RedisOptions::default()
                };
                let all = Sentinels::start_with(options).map_err(cannot)?;
                let hosts = list(all.sentinels());
                let url = format!("redis+sentinel://{user}:{password}@{hosts}/{}", Sentinels::NAME);
                // The sentinels name the servers themselves, so that no proxy can stand between.
                lab(url, Vec::new(), Servers::Sentinels(Box::new(all)))
            }
            LabName::RedisCluster => {
                let all = redis::Cluster::start().map_err(cannot)?;
                let url = format!("redis+cluster://{}", list(all.nodes()));
                lab(url, Vec::new(), Servers::RedisCluster(Box::new(all)))
            }
            LabName::Mysql => {
                let options = mariadb::MariaDbOptions { clock, ..mariadb::MariaDbOptions::default() };
                let server = mariadb::MariaDb::start(options).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::MariaDb(server))
            }
            LabName::Postgres => {
                let options = postgres::PostgresOptions { clock, ..postgres::PostgresOptions::default() };
                let server = postgres::Postgres::start(options).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Postgres(server))
            }
            LabName::Zookeeper => {
                let start =
                    if setting == Setting::Severable { Ensemble::with_roads } else { Ensemble::start };
                let all = start(&ZookeeperOptions::default()).map_err(cannot)?;
                let addresses = all.servers().iter().map(|server| server.addr()).collect();
                lab(all.url(), addresses, Servers::Zookeeper(all))
            }
            LabName::Etcd => {
                let all = etcd::Cluster::start().map_err(cannot)?;
                let addresses = all.nodes().iter().map(|node| node.addr()).collect();
                lab(all.url(), addresses, Servers::Etcd(all))
            }
            LabName::Memcached => {
                let args = if setting == Setting::Evicting { words(&["-m", "2"]) } else { Vec::new() };
                let options = MemcachedOptions { args, clock, ..MemcachedOptions::default() };
                let server = Memcached::start(options).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Memcached(server))
            }
        })
    }

    /// A PostgreSQL behind a pooler of transactions, for who believes that a session is one's own.
    pub(crate) fn pooled() -> Result<Self, Trouble> {
        let server = postgres::Postgres::start(postgres::PostgresOptions::default()).map_err(cannot)?;
        let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default()).map_err(cannot)?;
        let (url, servers) = (pooler.url(), Servers::Pooled(pooler, Box::new(server)));
        let (addresses, orders) = (Vec::new(), Vec::new());
        Ok(Self { name: Some(LabName::Postgres), url, addresses, servers, orders })
    }
}

fn redis_options(name: LabName, setting: Setting) -> RedisOptions {
    let persistence = if name == LabName::RedisVolatile { Persistence::None } else { Persistence::AofAlways };
    let args = match setting {
        Setting::Evicting => words(&["--maxmemory", "4mb", "--maxmemory-policy", "volatile-lru"]),
        Setting::Usual | Setting::OwnClock | Setting::Severable => Vec::new(),
    };
    RedisOptions { persistence, args, clock: setting == Setting::OwnClock, ..RedisOptions::default() }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
