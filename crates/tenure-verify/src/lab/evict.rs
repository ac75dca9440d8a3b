//! Fills the memory of an engine until it forgets locks.

use tenure_testkit::{Failure, Result};

use super::{Lab, Proof, Servers};

/// How many items memcached is filled with at once, and how often at most: it has memory for each size of item, and goes
/// through all of it before it comes to a given one.
const AT_ONCE: u64 = 5_000;
const TIMES: u64 = 100;

impl Lab {
    /// Whether it evicts; else why not.
    pub(super) fn evicts(&self) -> Result<(), String> {
        let why = match &self.servers {
            Servers::Redis(servers) if servers.len() == 1 => return Ok(()),
            Servers::Memcached(_) => return Ok(()),
            Servers::Redis(_) => "a quorum does not count a server that evicts",
            Servers::Sentinels(_) | Servers::RedisCluster(_) => {
                "it is tried on a server that stands alone: --lab redis"
            }
            Servers::MariaDb(_) | Servers::Postgres(_) | Servers::Zookeeper(_) | Servers::Etcd(_) => {
                "it never evicts"
            }
            Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                "there is no server of this run's own"
            }
        };
        Err(why.into())
    }

    /// Fills it with what has no lease until something that has one is gone: locks have, and nothing else here.
    pub(super) fn evict(&self) -> Result<Proof> {
        let gone = match &self.servers {
            Servers::Redis(servers) => servers[0].fill_until_it_evicts()?,
            Servers::Memcached(server) => {
                let before = server.evicted_before_their_end()?;
                let mut forgotten = server.fill_until_it_forgets(1)?;
                for _ in 0..TIMES {
                    if server.evicted_before_their_end()? > before {
                        break;
                    }
                    forgotten = server.fill_until_it_forgets(forgotten + AT_ONCE)?;
                }
                server.evicted_before_their_end()? - before
            }
            _ => return Err(Failure::new("it does not evict")),
        };
        if gone == 0 {
            return Err(Failure::new("no lock was there to be evicted"));
        }
        Ok(format!("memory was filled, and {gone} items with a lease were evicted"))
    }
}
