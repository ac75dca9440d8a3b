//! What kind of server this is: the grade its locks deserve, and what an operator should know.

use std::collections::HashMap;

use redis::{FromRedisValue, RedisResult};
use tenure_core::{
    Address, Crash, Error, ErrorKind, Fact, Failover, Fences, Floors, Grade, Guarantees, Modes, Op, Order,
    Reach, Result, Ttl, Wake,
};

use crate::{
    ENGINE,
    conn::Conn,
    url::{Eviction, RedisOptions, Topology},
};

/// What a server says about itself.
#[derive(Debug)]
pub(crate) struct Found {
    /// The fields of `INFO`.
    info: HashMap<String, String>,
    /// `None` if this user may not ask.
    appendfsync: Option<String>,
}

/// What a server forgets, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing that it acknowledged.
    Durable,
    /// All or the last of it, when it crashes.
    UntilRestart,
    /// Anything, when its memory is full.
    UntilFull,
}

/// What decides the grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server whose every write is on disk before it is acknowledged.
    Durable,
    /// One server that may forget what it acknowledged when it crashes, or when its memory is full.
    Forgetful,
    /// Servers that take over from each other (Sentinel, Cluster).
    FailingOver,
}

/// What the engine promises on such servers.
#[must_use]
pub fn guarantees_of(kind: Kind) -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: if kind == Kind::Durable { Grade::Leased } else { Grade::Advisory },
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Lease,
        wake: Wake::Push,
        fences: if kind == Kind::Durable { Fences::Durable } else { Fences::ClockBound },
        floors: Floors::Kept,
        failover: if kind == Kind::FailingOver { Failover::MayForget } else { Failover::None },
        min_ttl: Ttl::MIN,
    }
}

impl Found {
    /// Asks the server, in one trip.
    pub(crate) async fn ask(conn: &Conn) -> RedisResult<Self> {
        let (info, fsync) = (redis::cmd("INFO"), {
            let mut cmd = redis::cmd("CONFIG");
            cmd.arg("GET").arg("appendfsync");
            cmd
        });
        let (info, fsync) = futures_util::join!(conn.ask(&info), conn.ask(&fsync));
        let appendfsync = fsync
            .ok()
            .and_then(|value| Vec::<(String, String)>::from_redis_value(value).ok())
            .and_then(|pairs| pairs.into_iter().next())
            .map(|(_, value)| value);
        let info = String::from_redis_value(info?)?
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Ok(Self { info, appendfsync })
    }

    fn get(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    /// The server's life, by its run id.
    pub(crate) fn incarnation(&self) -> Option<u64> {
        let id = self.get("run_id");
        u64::from_str_radix(id.get(..16)?, 16).ok()
    }

    pub(crate) fn memory(&self) -> Memory {
        let policy = self.get("maxmemory_policy");
        if !policy.is_empty() && policy != "noeviction" {
            Memory::UntilFull
        } else if self.get("aof_enabled") == "1" && self.appendfsync.as_deref() == Some("always") {
            Memory::Durable
        } else {
            Memory::UntilRestart
        }
    }

    pub(crate) fn kind(&self, topology: &Topology) -> Kind {
        match topology {
            Topology::Single if self.memory() == Memory::Durable => Kind::Durable,
            Topology::Single => Kind::Forgetful,
            Topology::Sentinel(_) | Topology::Cluster => Kind::FailingOver,
        }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.get("role") == "master"
    }

    /// Refuses a server that cannot be what the URL says.
    pub(crate) fn check(&self, address: &Address, options: &RedisOptions) -> Result<()> {
        let refuse =
            |kind, message| Err(Error::new(kind, Op::Connect, message).with_engine(ENGINE).not_applied());
        if self.get("redis_mode") == "sentinel" {
            return refuse(
                ErrorKind::Invalid,
                format!("{address} is a sentinel; write `redis+sentinel://{address}/name` instead"),
            );
        }
        let cluster = self.get("cluster_enabled") == "1";
        match (&options.topology, cluster) {
            (Topology::Cluster, false) => {
                return refuse(
                    ErrorKind::Invalid,
                    format!("{address} is no node of a cluster; write `redis://{address}` instead"),
                );
            }
            (Topology::Single, true) => {
                return refuse(
                    ErrorKind::Invalid,
                    format!("{address} is a node of a cluster; write `redis+cluster://{address}` instead"),
                );
            }
            _ => {}
        }
        if !self.is_master() && options.topology == Topology::Single {
            let (host, port) = (self.get("master_host"), self.get("master_port"));
            return refuse(
                ErrorKind::Invalid,
                format!("{address} is a replica, which grants nothing; its master is {host}:{port}"),
            );
        }
        if self.get("maxmemory_policy").starts_with("allkeys-") && options.eviction == Eviction::Refuse {
            let policy = self.get("maxmemory_policy");
            return refuse(
                ErrorKind::Invalid,
                format!(
                    "{address} forgets any key when its memory is full ({policy}), held locks too; set \
                     maxmemory-policy noeviction, or add eviction=allow to take the risk"
                ),
            );
        }
        Ok(())
    }

    /// What an operator should know.
    pub(crate) fn facts(&self, options: &RedisOptions) -> Vec<Fact> {
        vec![
            Fact::good("version", format!("Redis {}", self.get("redis_version"))),
            self.persistence(),
            self.eviction(),
            self.replication(options),
            Fact::good("clock", "leases are counted on the server's clock and ours, never compared"),
        ]
    }

    fn persistence(&self) -> Fact {
        let name = "memory";
        match (self.get("aof_enabled"), self.appendfsync.as_deref()) {
            ("1", Some("always")) => {
                Fact::good(name, "every write is on disk before it is acknowledged (appendfsync always)")
            }
            ("1", Some(when)) => Fact::warning(
                name,
                format!(
                    "a crash may forget about a second of locks (appendfsync {when}); appendfsync always forgets none"
                ),
            ),
            ("1", None) => Fact::warning(
                name,
                "an append-only file, but this user may not ask how often it is flushed (CONFIG GET appendfsync)",
            ),
            _ => Fact::warning(
                name,
                "a restart forgets who holds what; appendonly yes with appendfsync always keeps it",
            ),
        }
    }

    fn eviction(&self) -> Fact {
        let (name, policy) = ("eviction", self.get("maxmemory_policy"));
        match policy {
            "" => Fact::warning(name, "the server does not say what it does when its memory is full"),
            "noeviction" => Fact::good(name, "nothing is forgotten when memory is full (noeviction)"),
            policy => Fact::warning(
                name,
                format!(
                    "locks are forgotten when memory is full ({policy}); set maxmemory-policy noeviction"
                ),
            ),
        }
    }

    fn replication(&self, options: &RedisOptions) -> Fact {
        let name = "replicas";
        let count: u32 = self.get("connected_slaves").parse().unwrap_or(0);
        match (&options.topology, options.replicas) {
            (_, wanted) if wanted > count => Fact::warning(
                name,
                format!(
                    "{count} of the {wanted} that every lock waits for; until there are more, none is granted"
                ),
            ),
            (Topology::Single, _) if count == 0 => Fact::good(name, "none, hence no failover that forgets"),
            (_, 0) => Fact::warning(
                name,
                format!(
                    "{count}, which learn of a lock after it was granted: a failover may forget it; replicas=N waits"
                ),
            ),
            (_, wanted) => Fact::warning(
                name,
                format!(
                    "{count}; a lock is granted once {wanted} have it, and a failover to another may still forget it"
                ),
            ),
        }
    }
}
