use std::{sync::OnceLock, time::Duration};

use super::{
    options::ZookeeperOptions,
    server::{Plan, Role, Zookeeper},
};
use crate::{
    Failure, Result,
    process::{Port, wait_until},
    proxy::{Flow, Proxy},
};

/// How long an ensemble may take to find a leader, on a machine busy with other things.
const LIMIT: Duration = Duration::from_secs(30);

/// Three servers that serve while two of them see each other; gone when dropped.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Zookeeper>,
    /// From which member to which a follower follows: a proxy, where members are to be cut off from each other.
    roads: Vec<(usize, usize, Proxy)>,
    _ports: Vec<Port>,
}

impl Ensemble {
    /// Starts three servers and waits until all of them serve.
    ///
    /// # Errors
    /// If one does not.
    pub fn start(options: &ZookeeperOptions) -> Result<Self> {
        Self::with(options, false)
    }

    /// The same, of members that can be [cut off](Self::cut_off) from each other. They take some seconds longer to find
    /// a leader: who connects to a proxy believes that somebody is there already.
    ///
    /// # Errors
    /// If one does not serve.
    pub fn with_roads(options: &ZookeeperOptions) -> Result<Self> {
        Self::with(options, true)
    }

    fn with(options: &ZookeeperOptions, proxies: bool) -> Result<Self> {
        let plans = (0..3).map(|_| Plan::new(options)).collect::<Result<Vec<_>>>()?;
        let (mut ports, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (follow, elect) = (Port::claim()?, Port::claim()?);
            peers.push((follow.addr(), elect.addr()));
            ports.extend([follow, elect]);
        }
        let (mut servers, mut roads) = (Vec::new(), Vec::new());
        for (here, plan) in plans.into_iter().enumerate() {
            let mut members = Vec::new();
            for (there, (follow, elect)) in peers.iter().enumerate() {
                let mut port = follow.port();
                if proxies && here != there {
                    let road = Proxy::start(*follow)?;
                    port = road.addr().port();
                    roads.push((here, there, road));
                }
                members.push(format!("server.{}=127.0.0.1:{port}:{}", there + 1, elect.port()));
            }
            servers.push(plan.start(options, here + 1, &members)?);
        }
        let ensemble = Self { servers, roads, _ports: ports };
        ensemble.wait_ready()?;
        Ok(ensemble)
    }

    /// One ensemble with the default options that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Ensemble>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(&ZookeeperOptions::default())).as_ref().map_err(Clone::clone)
    }

    /// Waits until all of them serve.
    ///
    /// # Errors
    /// If one does not.
    pub fn wait_ready(&self) -> Result {
        self.servers.iter().try_for_each(Zookeeper::wait_ready)
    }

    /// The three.
    #[must_use]
    pub fn servers(&self) -> &[Zookeeper] {
        &self.servers
    }

    /// What a client opens it with.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|server| server.addr().to_string()).collect();
        format!("zookeeper://{}/tenure", hosts.join(","))
    }

    /// Which of them leads, once one does.
    ///
    /// # Errors
    /// If none does in time.
    pub fn leader(&self) -> Result<usize> {
        wait_until("one of three leads", LIMIT, || {
            let leads = |server: &Zookeeper| matches!(server.role(), Ok(Role::Leader));
            self.servers.iter().position(leads).ok_or_else(|| Failure::of_the_trial("none leads"))
        })
    }

    /// Which of them follow, once one leads.
    ///
    /// # Errors
    /// If none leads in time.
    pub fn followers(&self) -> Result<Vec<usize>> {
        let leader = self.leader()?;
        Ok((0..self.servers.len()).filter(|&member| member != leader).collect())
    }

    /// Loses everything that this member and the other two send each other as leader and followers. They still can talk about
    /// whom to elect, and clients still reach them.
    ///
    /// # Errors
    /// If a proxy does not follow in time.
    pub fn cut_off(&self, member: usize) -> Result {
        self.each_road(member, |road| road.flow_both(Flow::Swallow))
    }

    /// Lets everything pass again between this member and the other two. What was lost is lost, so connections begin anew.
    ///
    /// # Errors
    /// If a proxy does not follow in time.
    pub fn rejoin(&self, member: usize) -> Result {
        self.each_road(member, |road| {
            road.reset()?;
            road.heal()
        })
    }

    /// Starts what was killed, wakes what was stopped, joins what was cut off, and waits until all of them serve.
    ///
    /// # Errors
    /// If one does not.
    pub fn mend(&self) -> Result {
        for (_, _, road) in &self.roads {
            road.heal()?;
        }
        for server in &self.servers {
            if server.process().is_running() {
                server.resume()?;
            } else {
                server.restart_soon()?;
            }
        }
        self.wait_ready()
    }

    fn each_road(&self, member: usize, mut change: impl FnMut(&Proxy) -> Result) -> Result {
        let mut roads = self.roads.iter().filter(|(from, to, _)| *from == member || *to == member);
        roads.try_for_each(|(_, _, road)| change(road))
    }
}
