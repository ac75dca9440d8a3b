//! What is done to an engine: it is killed, stopped, emptied, made deaf, or loses its leader.

use std::{thread, time::Duration};

use tenure_testkit::{Failure, redis};

use super::{Lab, Proof, Servers, order};
use crate::faults::FaultKind;

impl Lab {
    /// Does this to the engine, heals it, and says what proves that it hit. Blocks for as long as that takes.
    pub(crate) fn strike(&self, fault: FaultKind, ttl: Duration, pick: usize) -> Result<Proof, Failure> {
        if let Some(command) = self.order(fault) {
            return order::carry_out(command, order::LIMIT);
        }
        match fault {
            FaultKind::EngineKill => self.kill(pick),
            FaultKind::EnginePause => self.pause(ttl * 3 / 2, pick),
            FaultKind::LeaderKill => self.kill_leader(),
            FaultKind::LeaderCut => self.cut_leader(ttl * 3),
            FaultKind::Flush => self.flush(),
            FaultKind::Deaf => self.deafen(ttl / 2),
            FaultKind::Evict => self.evict(),
            FaultKind::ClockAhead => self.step(true, pick),
            FaultKind::ClockBack => self.step(false, pick),
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
            Servers::Sentinels(all) => {
                let cut = all.cut_off().map(|(old, new)| (old.port(), new.port()));
                nap(time);
                all.join()?;
                let (old, new) = cut?;
                Ok(format!("{old} was cut off, {new} led, and for {time:?} both took writes"))
            }
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
            Servers::Memcached(server) => drop(server.ask(b"flush_all\r\n", "OK\r\n")?),
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
pub(super) fn nap(time: Duration) {
    thread::sleep(time);
}
