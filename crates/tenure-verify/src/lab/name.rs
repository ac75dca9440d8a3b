//! The engines that can be started here, by name.

use std::{fmt, str::FromStr};

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
