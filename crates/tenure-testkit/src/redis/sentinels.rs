use std::{sync::OnceLock, time::Duration};

use super::{Redis, RedisOptions, Role, options::PEER, several};
use crate::{Failure, Result, ensure, process::wait_until};

/// How long a change of the whole may take; a failover takes 1.5 s.
const LIMIT: Duration = Duration::from_secs(20);

/// A master, its replica, and three sentinels that watch them.
///
/// After a failover the sentinels start no other for four seconds (twice their `failover-timeout`).
#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: [Redis; 3],
}

impl Sentinels {
    /// What the sentinels call the master.
    pub const NAME: &'static str = "mymaster";

    /// Starts all five and waits until each sentinel knows the others and the replica follows.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn start() -> Result<Self> {
        Self::start_with(RedisOptions::default())
    }

    /// Starts all five, the master and the replica with these options (whose role is not looked at). Servers that want a
    /// password must have [`peers`](RedisOptions::peers) too.
    ///
    /// # Errors
    /// If it does not come to the state that [`Sentinels::start`] waits for.
    pub fn start_with(options: RedisOptions) -> Result<Self> {
        if options.has_users() && !options.peers {
            return Err(Failure::new("sentinels need a user of their own on servers that have users"));
        }
        let peers = options.peers;
        let master = Redis::start(RedisOptions { role: Role::Alone, ..options.clone() })?;
        let port = master.port();
        let replica = Redis::start(RedisOptions { role: Role::ReplicaOf(port), ..options })?;
        // Before the first sentinel looks, so that it finds the replica at its first look.
        replica.wait_for_info("master_link_status", "up", LIMIT)?;
        let sentinel = RedisOptions { role: Role::Sentinel(port), peers, ..RedisOptions::default() };
        let sentinels = several(&[sentinel.clone(), sentinel.clone(), sentinel])?;
        let all = Self { servers: [master, replica], sentinels };
        all.wait_ready()?;
        Ok(all)
    }

    /// One such set that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Sentinels>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    /// The two servers, the first master first.
    #[must_use]
    pub const fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// The three sentinels.
    #[must_use]
    pub const fn sentinels(&self) -> &[Redis; 3] {
        &self.sentinels
    }

    /// The master as all running sentinels see it.
    ///
    /// # Errors
    /// If they do not agree, or none runs.
    pub fn master(&self) -> Result<&Redis> {
        let mut agreed = None;
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.process().is_running()) {
            let addr = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::NAME])?;
            let port = addr.items().get(1).and_then(|port| port.text()).and_then(|port| port.parse().ok());
            ensure!(agreed.is_none() || agreed == port, "the sentinels do not agree on the master");
            agreed = port;
        }
        self.servers
            .iter()
            .find(|server| Some(server.port()) == agreed)
            .ok_or_else(|| Failure::of_the_trial("the sentinels know no master"))
    }

    /// The server that is not the master.
    ///
    /// # Errors
    /// If the sentinels do not agree on the master.
    pub fn replica(&self) -> Result<&Redis> {
        Ok(self.other(self.master()?))
    }

    /// Kills the master and waits until the sentinels agree on the other server, which then takes writes.
    ///
    /// # Errors
    /// If they do not come to that.
    pub fn fail_over(&self) -> Result<&Redis> {
        let old = self.master()?;
        let new = self.other(old);
        old.kill()?;
        self.wait_promoted(new)?;
        Ok(new)
    }

    /// Cuts the master off from its replica and from all sentinels, but not from its clients, and waits until the sentinels
    /// agree on the other server: then there are two that take writes, until [`Sentinels::join`]. Gives both, the old one
    /// first. They must have been started with [`peers`](RedisOptions::peers).
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn cut_off(&self) -> Result<(&Redis, &Redis)> {
        let old = self.master()?;
        let new = self.other(old);
        old.command(&["ACL", "SETUSER", PEER[0], "off"])?;
        old.command(&["CLIENT", "KILL", "USER", PEER[0]])?;
        self.wait_promoted(new)?;
        let role = old.info("role")?;
        ensure!(role == "master", "the old master has become a {role}");
        Ok((old, new))
    }

    /// Ends every cut, and waits until everything is well again.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn join(&self) -> Result {
        for server in &self.servers {
            server.command(&["ACL", "SETUSER", PEER[0], "on"])?;
            // A sentinel that was refused stays connected, as nobody, and says who it is when it connects again.
            server.command(&["CLIENT", "KILL", "USER", "default"])?;
        }
        self.heal()
    }

    fn wait_promoted(&self, new: &Redis) -> Result {
        wait_until("the replica is promoted", LIMIT, || {
            let port = self.master()?.port();
            ensure!(port == new.port(), "the sentinels still name the old master");
            let role = new.info("role")?;
            ensure!(role == "master", "its role is still {role}");
            Ok(())
        })
    }

    /// Starts what is down and waits until everything is well again, with one master and one replica.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn heal(&self) -> Result {
        for redis in self.servers.iter().chain(&self.sentinels) {
            if !redis.process().is_running() {
                redis.restart()?;
            }
        }
        self.wait_ready()
    }

    /// Waits until the sentinels agree on a master that is well, know each other, and the replica follows it.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn wait_ready(&self) -> Result {
        wait_until("the sentinels see a master with a replica", LIMIT, || {
            let master = self.master()?;
            for sentinel in &self.sentinels {
                let seen = sentinel.command(&["SENTINEL", "MASTER", Self::NAME])?;
                for (field, value) in [("num-other-sentinels", "2"), ("num-slaves", "1"), ("flags", "master")]
                {
                    let now = seen.field(field);
                    ensure!(now == Some(value), "{field} is {now:?}");
                }
            }
            let replica = self.other(master);
            let port = master.port().to_string();
            for (field, value) in [("role", "slave"), ("master_link_status", "up"), ("master_port", &port)] {
                let now = replica.info(field)?;
                ensure!(now == value, "{field} of the replica is {now}");
            }
            Ok(())
        })
    }

    fn other(&self, server: &Redis) -> &Redis {
        let [first, second] = &self.servers;
        if first.port() == server.port() { second } else { first }
    }
}
