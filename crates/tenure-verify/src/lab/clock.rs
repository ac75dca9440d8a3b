//! Sets the wall clock of an engine, and reads it.

use std::time::{Duration, Instant};

use tenure_testkit::{Failure, Result, process::WallClock};

use super::{Lab, Proof, Servers};

/// How far a clock is set at once: much longer than any lease, and less than a day after many times.
const STEP: Duration = Duration::from_secs(600);

impl Lab {
    /// Whether its wall clock can be set; else why not.
    pub(super) fn has_clock(&self) -> Result<(), String> {
        match &self.servers {
            Servers::Redis(_) | Servers::MariaDb(_) | Servers::Postgres(_) | Servers::Memcached(_) => {
                WallClock::installed().map(drop)
            }
            Servers::Sentinels(_) | Servers::RedisCluster(_) => {
                Err("it is tried on servers that stand alone: --lab redis".into())
            }
            Servers::Zookeeper(_) => Err("it counts by a clock that nobody sets".into()),
            Servers::Etcd(_) => {
                Err("no shim reaches its clock, and it counts by one that nobody sets".into())
            }
            Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                Err("there is no server of this run's own".into())
            }
        }
    }

    /// Sets the clock of one server, and looks whether it shows it. A quorum's step is one of a minority.
    pub(super) fn step(&self, ahead: bool, pick: usize) -> Result<Proof> {
        let sign = if ahead { 1.0 } else { -1.0 };
        let (start, before) = (Instant::now(), self.wall_clock(pick)?);
        let millis = STEP.as_millis() as i64 * if ahead { 1 } else { -1 };
        match &self.servers {
            Servers::Redis(servers) => servers[minority(pick, servers.len())].process().step_clock(millis)?,
            Servers::MariaDb(server) => server.process().step_clock(millis)?,
            Servers::Postgres(server) => server.process().step_clock(millis)?,
            Servers::Memcached(server) => server.process().step_clock(millis)?,
            _ => return Err(Failure::new("it has no clock of its own")),
        }
        let went = self.wall_clock(pick)? - before;
        let stepped = sign * (went - start.elapsed().as_secs_f64());
        // Seconds are enough to see whether it was minutes.
        if stepped < STEP.as_secs_f64() - 5.0 {
            return Err(Failure::new(format!("its clock went {went:+.3} s")));
        }
        Ok(format!("its clock went {went:+.3} s in {:.0?}", start.elapsed()))
    }

    fn wall_clock(&self, pick: usize) -> Result<f64> {
        match &self.servers {
            Servers::Redis(servers) => servers[minority(pick, servers.len())].wall_clock(),
            Servers::MariaDb(server) => server.wall_clock(),
            Servers::Postgres(server) => server.wall_clock(),
            Servers::Memcached(server) => server.wall_clock(),
            _ => Err(Failure::new("it has no clock of its own")),
        }
    }
}

/// One of the first servers, of which there are too few to agree on anything; or the only one.
const fn minority(pick: usize, servers: usize) -> usize {
    if servers < 3 { 0 } else { pick % (servers.div_ceil(2) - 1) }
}
