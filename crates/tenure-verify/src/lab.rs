//! The engine that a run is about: the user's own, or real private servers that are started for it.

use std::{fmt, net::SocketAddr, str::FromStr, thread, time::Duration};

use tempfile::TempDir;
use tenure_testkit::{
    Failure, etcd, mariadb,
    memcached::{Memcached, MemcachedOptions},
    pgbouncer::{PgBouncer, PgBouncerOptions},
    postgres,
    proxy::Proxy,
    redis::{self, Persistence, Redis, RedisOptions, Sentinels},
    zookeeper::{Ensemble, ZookeeperOptions},
};

use crate::{faults::FaultKind, trouble::Trouble};

/// A kind of engine that can be started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LabName {
    /// A folder of its own; no server.
    File,
    /// The memory of one process; its workers are tasks.
    Memory,
    /// One Redis that flushes every write.
    Redis,
    /// One Redis that keeps nothing over a restart.
    RedisVolatile,
    /// A master, a replica and three sentinels.
    RedisSentinel,
    /// Three masters that share the keys.
    RedisCluster,
    /// Five independent servers of which three must agree.
    Redlock,
    /// One MariaDB.
    Mysql,
    /// One PostgreSQL.
    Postgres,
    /// Three ZooKeeper servers.
    Zookeeper,
    /// Three etcd servers.
    Etcd,
    /// One memcached.
    Memcached,
}

impl LabName {
    /// All of them, those that need no server first.
    pub const ALL: [Self; 12] = [
        Self::File,
        Self::Memory,
        Self::Redis,
        Self::RedisVolatile,
        Self::RedisSentinel,
        Self::RedisCluster,
        Self::Redlock,
        Self::Mysql,
        Self::Postgres,
        Self::Zookeeper,
        Self::Etcd,
        Self::Memcached,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::RedisVolatile => "redis-volatile",
            Self::RedisSentinel => "redis-sentinel",
            Self::RedisCluster => "redis-cluster",
            Self::Redlock => "redlock",
            Self::Mysql => "mysql",
            Self::Postgres => "postgres",
            Self::Zookeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Memcached => "memcached",
        }
    }

    /// How many servers of what, for people.
    #[must_use]
    pub const fn topology(self) -> &'static str {
        match self {
            Self::File => "a folder on this machine",
            Self::Memory => "the memory of one process",
            Self::Redis => "one server, every write flushed",
            Self::RedisVolatile => "one server without persistence",
            Self::RedisSentinel => "a master, a replica, three sentinels",
            Self::RedisCluster => "three masters",
            Self::Redlock => "five servers, three must agree",
            Self::Mysql | Self::Postgres => "one primary",
            Self::Zookeeper | Self::Etcd => "three servers",
            Self::Memcached => "one server",
        }
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LabName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|lab| lab.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|lab| lab.name()).collect();
            format!("there is no lab `{text}`; there are {}", names.join(", "))
        })
    }
}

/// The servers of a run; gone when dropped.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) name: Option<LabName>,
    url: String,
    /// Where the servers are that a proxy can stand before.
    addresses: Vec<SocketAddr>,
    servers: Servers,
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
        #[expect(dead_code, reason = "it is there until it is dropped")] postgres::Postgres,
    ),
}

/// What an engine's fault says of itself: proof that it hit.
pub(crate) type Proof = String;

impl Lab {
    /// The user's own engine. It is not struck unless that is allowed, and then only over the network.
    pub(crate) fn of_url(url: &str, addresses: Vec<SocketAddr>) -> Self {
        Self { name: None, url: url.to_owned(), addresses, servers: Servers::None }
    }

    /// Starts the servers. Takes up to some seconds, and blocks.
    pub(crate) fn start(name: LabName) -> Result<Self, Trouble> {
        let durable = RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() };
        let lab = |url: String, addresses, servers| Self { name: Some(name), url, addresses, servers };
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
                let options = if name == LabName::Redis { durable } else { RedisOptions::default() };
                let server = Redis::start(options).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Redis(vec![server]))
            }
            LabName::Redlock => {
                let five = Vec::from(redis::five(&durable).map_err(cannot)?);
                let addresses = five.iter().map(Redis::addr).collect();
                lab(format!("quorum+redis://{}", list(&five)), addresses, Servers::Redis(five))
            }
            LabName::RedisSentinel => {
                let all = Sentinels::start().map_err(cannot)?;
                let url = format!("redis+sentinel://{}/{}", list(all.sentinels()), Sentinels::NAME);
                // The sentinels name the servers themselves, so that no proxy can stand between.
                lab(url, Vec::new(), Servers::Sentinels(Box::new(all)))
            }
            LabName::RedisCluster => {
                let all = redis::Cluster::start().map_err(cannot)?;
                let url = format!("redis+cluster://{}", list(all.nodes()));
                lab(url, Vec::new(), Servers::RedisCluster(Box::new(all)))
            }
            LabName::Mysql => {
                let server = mariadb::MariaDb::start(mariadb::MariaDbOptions::default()).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::MariaDb(server))
            }
            LabName::Postgres => {
                let server =
                    postgres::Postgres::start(postgres::PostgresOptions::default()).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Postgres(server))
            }
            LabName::Zookeeper => {
                let all = Ensemble::with_roads(&ZookeeperOptions::default()).map_err(cannot)?;
                let addresses = all.servers().iter().map(|server| server.addr()).collect();
                lab(all.url(), addresses, Servers::Zookeeper(all))
            }
            LabName::Etcd => {
                let all = etcd::Cluster::start().map_err(cannot)?;
                let addresses = all.nodes().iter().map(|node| node.addr()).collect();
                lab(all.url(), addresses, Servers::Etcd(all))
            }
            LabName::Memcached => {
                let server = Memcached::start(MemcachedOptions::default()).map_err(cannot)?;
                lab(server.url(), vec![server.addr()], Servers::Memcached(server))
            }
        })
    }

    /// A PostgreSQL behind a pooler of transactions, for who believes that a session is one's own.
    pub(crate) fn pooled() -> Result<Self, Trouble> {
        let server = postgres::Postgres::start(postgres::PostgresOptions::default()).map_err(cannot)?;
        let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default()).map_err(cannot)?;
        let (url, servers) = (pooler.url(), Servers::Pooled(pooler, server));
        Ok(Self { name: Some(LabName::Postgres), url, addresses: Vec::new(), servers })
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

    /// Whether this fault can be done to this engine; else why not.
    pub(crate) fn can(&self, fault: FaultKind) -> Result<(), &'static str> {
        let servers = &self.servers;
        match fault {
            FaultKind::EngineKill | FaultKind::EnginePause => match servers {
                Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                    Err("there is no server of this run's own")
                }
                _ => Ok(()),
            },
            FaultKind::LeaderKill => match servers {
                Servers::Sentinels(_) | Servers::Zookeeper(_) | Servers::Etcd(_) => Ok(()),
                _ => Err("nobody leads"),
            },
            FaultKind::LeaderCut => match servers {
                Servers::Zookeeper(_) | Servers::Etcd(_) => Ok(()),
                Servers::Sentinels(_) => Err("no proxy can stand between a master and its replica yet"),
                _ => Err("nobody leads"),
            },
            FaultKind::Flush => match servers {
                Servers::Redis(_)
                | Servers::Sentinels(_)
                | Servers::RedisCluster(_)
                | Servers::Memcached(_)
                | Servers::MariaDb(_)
                | Servers::Postgres(_) => Ok(()),
                Servers::Zookeeper(_) | Servers::Etcd(_) => {
                    Err("it has no one command that deletes everything")
                }
                Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                    Err("there is no server of this run's own")
                }
            },
            FaultKind::Deaf => match servers {
                Servers::Redis(servers) if servers.len() == 1 => Ok(()),
                Servers::Sentinels(_) => Ok(()),
                _ => Err("its wake-ups are not messages that can be dropped alone"),
            },
            _ => Ok(()),
        }
    }

    /// Does this to the engine, heals it, and says what proves that it hit. Blocks for as long as that takes.
    pub(crate) fn strike(&self, fault: FaultKind, ttl: Duration, pick: usize) -> Result<Proof, Failure> {
        match fault {
            FaultKind::EngineKill => self.kill(pick),
            FaultKind::EnginePause => self.pause(ttl * 3 / 2, pick),
            FaultKind::LeaderKill => self.kill_leader(),
            FaultKind::LeaderCut => self.cut_leader(ttl * 3),
            FaultKind::Flush => self.flush(),
            FaultKind::Deaf => self.deafen(ttl / 2),
            _ => Err(Failure::new("no fault of an engine")),
        }
    }

    fn kill(&self, pick: usize) -> Result<Proof, Failure> {
        let again = "it was killed and answers again";
        match &self.servers {
            Servers::Redis(servers) => {
                let server = &servers[pick % servers.len()];
                server.kill()?;
                server.restart()?;
                Ok(format!("{again} ({} of {})", pick % servers.len() + 1, servers.len()))
            }
            Servers::Sentinels(all) => {
                let master = all.master()?;
                master.kill()?;
                master.restart()?;
                all.heal()?;
                Ok(format!("the master {again}"))
            }
            Servers::RedisCluster(all) => {
                let node = &all.nodes()[pick % 3];
                node.kill()?;
                node.restart()?;
                all.heal()?;
                Ok(format!("{again} (node {} of 3)", pick % 3 + 1))
            }
            Servers::MariaDb(server) => server.kill().and_then(|()| server.restart()).map(|()| again.into()),
            Servers::Postgres(server) => server.kill().and_then(|()| server.restart()).map(|()| again.into()),
            Servers::Memcached(server) => {
                server.kill().and_then(|()| server.restart()).map(|()| again.into())
            }
            Servers::Zookeeper(all) => {
                let server = &all.servers()[pick % 3];
                server.kill()?;
                server.restart()?;
                all.wait_ready()?;
                Ok(format!("{again} (server {} of 3)", pick % 3 + 1))
            }
            Servers::Etcd(all) => {
                all.nodes()[pick % 3].kill()?;
                all.restart(pick % 3)?;
                all.leader()?;
                Ok(format!("{again} (server {} of 3)", pick % 3 + 1))
            }
            Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                Err(Failure::new("there is no server"))
            }
        }
    }

    fn pause(&self, time: Duration, pick: usize) -> Result<Proof, Failure> {
        /// Stops a server for a while; it goes on whatever happens.
        macro_rules! pause {
            ($server:expr, $what:expr) => {{
                let server = $server;
                server.pause()?;
                nap(time);
                server.resume()?;
                Ok(format!("{} stood still for {time:?}", $what))
            }};
        }
        match &self.servers {
            Servers::Redis(servers) => pause!(&servers[pick % servers.len()], "a server"),
            Servers::Sentinels(all) => pause!(all.master()?, "the master"),
            Servers::RedisCluster(all) => pause!(&all.nodes()[pick % 3], "a node"),
            Servers::MariaDb(server) => pause!(server, "the server"),
            Servers::Postgres(server) => pause!(server, "the server"),
            Servers::Memcached(server) => pause!(server, "the server"),
            Servers::Zookeeper(all) => pause!(&all.servers()[all.leader()?], "the leader"),
            Servers::Etcd(all) => pause!(&all.nodes()[all.leader()?], "the leader"),
            Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                Err(Failure::new("there is no server"))
            }
        }
    }

    fn kill_leader(&self) -> Result<Proof, Failure> {
        match &self.servers {
            Servers::Sentinels(all) => {
                let old = all.master()?.port();
                let new = all.fail_over()?.port();
                all.heal()?;
                Ok(format!("the master went from port {old} to {new}"))
            }
            Servers::Zookeeper(all) => {
                let old = all.leader()?;
                all.servers()[old].kill()?;
                let new = all.leader()?;
                all.servers()[old].restart()?;
                all.wait_ready()?;
                Ok(format!("the leader went from {} to {}", old + 1, new + 1))
            }
            Servers::Etcd(all) => {
                let old = all.leader()?;
                all.nodes()[old].kill()?;
                let others: Vec<_> = (0..3).filter(|at| *at != old).collect();
                let new = all.leader_among(&others)?;
                all.restart(old)?;
                Ok(format!("the leader went from {} to {}", old + 1, new + 1))
            }
            _ => Err(Failure::new("nobody leads")),
        }
    }

    fn cut_leader(&self, time: Duration) -> Result<Proof, Failure> {
        match &self.servers {
            Servers::Zookeeper(all) => {
                let old = all.leader()?;
                all.cut_off(old)?;
                nap(time);
                let healed = all.rejoin(old).and_then(|()| all.mend());
                let new = all.leader()?;
                healed?;
                Ok(format!("{} was cut off for {time:?}; then {} led", old + 1, new + 1))
            }
            Servers::Etcd(all) => {
                let old = all.leader()?;
                all.cut_off(old)?;
                let others: Vec<_> = (0..3).filter(|at| *at != old).collect();
                let new = all.leader_among(&others);
                nap(time);
                all.join()?;
                let new = new?;
                all.leader()?;
                Ok(format!("{} was cut off for {time:?}, and {} led", old + 1, new + 1))
            }
            _ => Err(Failure::new("nobody leads")),
        }
    }

    fn flush(&self) -> Result<Proof, Failure> {
        match &self.servers {
            Servers::Redis(servers) => {
                for server in servers {
                    server.command(&["FLUSHALL"])?;
                }
            }
            Servers::Sentinels(all) => drop(all.master()?.command(&["FLUSHALL"])?),
            Servers::RedisCluster(all) => {
                for node in all.nodes() {
                    node.command(&["FLUSHALL"])?;
                }
            }
            Servers::Memcached(server) => drop(server.ask(b"flush_all\r\n", "OK")?),
            Servers::Etcd(all) => {
                let gone = all.nodes()[0].admin().delete("")?;
                return Ok(format!("{gone} keys were deleted"));
            }
            Servers::MariaDb(server) => drop(server.sql("DELETE FROM tenure_places")?),
            Servers::Postgres(server) => drop(server.sql("DELETE FROM tenure_places")?),
            Servers::Zookeeper(_) | Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                return Err(Failure::new("nothing to delete"));
            }
        }
        Ok("everything was deleted".into())
    }

    /// Cuts whoever listens for wake-ups, again and again.
    fn deafen(&self, time: Duration) -> Result<Proof, Failure> {
        let server = match &self.servers {
            Servers::Redis(servers) => &servers[0],
            Servers::Sentinels(all) => all.master()?,
            _ => return Err(Failure::new("its wake-ups cannot be dropped alone")),
        };
        let mut admin = server.admin()?;
        let mut cut = 0;
        const PAUSE: Duration = Duration::from_millis(2);
        for _ in 0..time.as_millis() / PAUSE.as_millis() {
            let reply = admin.command(&["CLIENT", "KILL", "TYPE", "pubsub"])?;
            cut += match reply {
                redis::Reply::Int(count) => count,
                _ => 0,
            };
            nap(PAUSE);
        }
        if cut == 0 {
            return Err(Failure::new("nobody listened"));
        }
        Ok(format!("{cut} subscriptions were cut"))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "on a thread of its own: how long a server is down is the fault itself"
)]
fn nap(time: Duration) {
    thread::sleep(time);
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
