use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{Etcd, EtcdOptions, server::Membership, wires::Wires};
use crate::{
    Failure, Result,
    process::{Port, wait_until},
};

const NODES: usize = 3;
/// How long a change of the whole may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Three servers that agree, and the wires between them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Etcd>,
    wires: Arc<Wires>,
}

impl Cluster {
    /// Starts three servers and waits until all of them know a leader.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn start() -> Result<Self> {
        Self::start_with(&EtcdOptions::default())
    }

    /// Starts three servers with these options.
    ///
    /// # Errors
    /// If it does not come to the state that [`Cluster::start`] waits for.
    pub fn start_with(options: &EtcdOptions) -> Result<Self> {
        let peers = (0..NODES).map(|_| Port::claim()).collect::<Result<Vec<_>>>()?;
        let wires = Wires::lay(&peers.iter().map(Port::addr).collect::<Vec<_>>())?;
        let ends: Vec<SocketAddr> = (0..NODES).map(|to| wires.addr(to)).collect();
        let all: Vec<_> = ends.iter().enumerate().map(|(at, end)| format!("n{at}=http://{end}")).collect();
        let token = vec!["--initial-cluster-token".to_owned(), format!("tenure-testkit-{}", ends[0].port())];
        let mut nodes = Vec::new();
        for (at, peers) in peers.into_iter().enumerate() {
            let member = Membership { name: format!("n{at}"), advertised: ends[at], all: all.join(",") };
            let options =
                EtcdOptions { args: [options.args.clone(), token.clone()].concat(), ..options.clone() };
            let node = Etcd::launch(options, peers, &member)?;
            wires.belongs(at, node.process());
            nodes.push(node);
        }
        let cluster = Self { nodes, wires };
        cluster.nodes.iter().try_for_each(Etcd::wait_ready)?;
        Ok(cluster)
    }

    /// One cluster that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Cluster>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref().map_err(Clone::clone)
    }

    /// The servers.
    #[must_use]
    pub fn nodes(&self) -> &[Etcd] {
        &self.nodes
    }

    /// What a client opens it with: all servers, this one first.
    #[must_use]
    pub fn url_from(&self, first: usize) -> String {
        let order = (0..NODES).map(|at| (first + at) % NODES);
        let hosts: Vec<_> = order.map(|at| self.nodes[at].addr().to_string()).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// What a client opens it with.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_from(0)
    }

    /// Which server leads.
    ///
    /// # Errors
    /// If none does within the limit.
    pub fn leader(&self) -> Result<usize> {
        self.leader_among(&[0, 1, 2])
    }

    /// Which of these servers leads, once one does.
    ///
    /// # Errors
    /// If none does within the limit.
    pub fn leader_among(&self, nodes: &[usize]) -> Result<usize> {
        let mut leader = None;
        wait_until("a server leads", LIMIT, || {
            leader = nodes.iter().copied().find(|&at| self.nodes[at].admin().leads().unwrap_or(false));
            if leader.is_some() { Ok(()) } else { Err(Failure::of_the_trial("none does")) }
        })?;
        leader.ok_or_else(|| Failure::of_the_trial("no server leads"))
    }

    /// Starts a server again that was killed, and waits until it follows.
    ///
    /// # Errors
    /// If it does not.
    pub fn restart(&self, at: usize) -> Result {
        self.nodes[at].process().start_again()?;
        self.wires.belongs(at, self.nodes[at].process());
        self.nodes[at].wait_ready()
    }

    /// Cuts one server off from the others, and them from it. Clients still reach it.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn cut_off(&self, at: usize) -> Result {
        self.wires.cut(at)
    }

    /// Joins all servers again.
    ///
    /// # Errors
    /// If that takes too long.
    pub fn join(&self) -> Result {
        self.wires.join()
    }
}
