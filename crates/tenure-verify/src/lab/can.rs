//! What can be done to which engine, and why not to the others.

use super::{Lab, Servers};
use crate::faults::FaultKind;

impl Lab {
    /// Whether this fault can be done to this engine; else why not.
    pub(crate) fn can(&self, fault: FaultKind) -> Result<(), String> {
        if self.name.is_none() {
            let refused =
                || format!("an engine that was not started here is struck only by --strike {fault}=COMMAND");
            return self.order(fault).map(drop).ok_or_else(refused);
        }
        let why = match fault {
            FaultKind::Evict => return self.evicts(),
            FaultKind::ClockAhead | FaultKind::ClockBack => return self.has_clock(),
            FaultKind::EngineKill | FaultKind::EnginePause => match &self.servers {
                Servers::None | Servers::Folder(_) | Servers::Pooled(..) => {
                    Err("there is no server of this run's own")
                }
                _ => Ok(()),
            },
            FaultKind::LeaderKill | FaultKind::LeaderCut => match &self.servers {
                Servers::Sentinels(_) | Servers::Zookeeper(_) | Servers::Etcd(_) => Ok(()),
                _ => Err("nobody leads"),
            },
            FaultKind::Flush => match &self.servers {
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
            FaultKind::Deaf => match &self.servers {
                Servers::Redis(servers) if servers.len() == 1 => Ok(()),
                Servers::Sentinels(_) => Ok(()),
                _ => Err("its wake-ups are not messages that can be dropped alone"),
            },
            _ => Ok(()),
        };
        why.map_err(str::to_owned)
    }
}
