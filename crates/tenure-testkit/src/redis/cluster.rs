use std::{sync::OnceLock, time::Duration};

use super::{Redis, RedisOptions, Reply, Role, several};
use crate::{Failure, Result, ensure, process::wait_until};

/// How long a change of the whole may take. The start takes two seconds: a node that comes up refuses writes so long.
const LIMIT: Duration = Duration::from_secs(20);

const SLOTS: u16 = 16_384;
const NODES: usize = 3;

/// How many keys are carried over at once, and how often at most.
const KEYS_AT_ONCE: &str = "100";
const MAX_CARRIES: usize = 1_000;

/// A cluster of three masters with a third of the slots each, and no replicas.
///
/// The slots of a node that is killed are down until it is restarted; those of the others are served.
#[derive(Debug)]
pub struct Cluster {
    nodes: [Redis; NODES],
}

impl Cluster {
    /// Starts three nodes and waits until all of them see the whole cluster.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn start() -> Result<Self> {
        Self::start_with(RedisOptions::default())
    }

    /// Starts three nodes with these options (whose role is not looked at).
    ///
    /// # Errors
    /// If it does not come to the state that [`Cluster::start`] waits for.
    pub fn start_with(options: RedisOptions) -> Result<Self> {
        let options = RedisOptions { role: Role::ClusterNode, ..options };
        let cluster = Self { nodes: several(&[(); NODES].map(|()| options.clone()))? };
        let mut first = 0;
        for (index, node) in (1_u16..).zip(&cluster.nodes) {
            let end = SLOTS * index / 3;
            let range = [first.to_string(), (end - 1).to_string()];
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &index.to_string()])?;
            first = end;
        }
        for node in &cluster.nodes[1..] {
            let bus = node.bus_port().unwrap_or_default().to_string();
            cluster.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus])?;
        }
        cluster.wait_ready()?;
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

    /// The nodes.
    #[must_use]
    pub const fn nodes(&self) -> &[Redis; NODES] {
        &self.nodes
    }

    /// Waits until every node says that the cluster is well and whole.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn wait_ready(&self) -> Result {
        wait_until("every node sees the whole cluster", LIMIT, || {
            for node in &self.nodes {
                let info = node.command(&["CLUSTER", "INFO"])?;
                let info = info.text().unwrap_or_default();
                for line in ["cluster_state:ok", "cluster_known_nodes:3", "cluster_slots_ok:16384"] {
                    ensure!(info.lines().any(|said| said == line), "no `{line}` at port {}", node.port());
                }
            }
            Ok(())
        })
    }

    /// Starts the nodes that are down and waits until the cluster is whole again.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn heal(&self) -> Result {
        for node in self.nodes.iter().filter(|node| !node.process().is_running()) {
            node.restart()?;
        }
        self.wait_ready()
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// If no node answers.
    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let slot = self.running()?.command(&["CLUSTER", "KEYSLOT", key])?.int();
        slot.and_then(|slot| slot.try_into().ok()).ok_or_else(|| Failure::of_the_trial("a slot is a number"))
    }

    /// The node that a slot belongs to, as the nodes that run see it.
    ///
    /// # Errors
    /// If they do not agree, or none answers.
    pub fn node_of(&self, slot: u16) -> Result<&Redis> {
        let mut agreed = None;
        for node in self.nodes.iter().filter(|node| node.process().is_running()) {
            let ranges = node.command(&["CLUSTER", "SLOTS"])?;
            let port = ranges.items().iter().find_map(|range| owner(range, slot));
            ensure!(agreed.is_none() || agreed == port, "the nodes do not agree on slot {slot}");
            agreed = port;
        }
        self.nodes
            .iter()
            .find(|node| Some(i64::from(node.port())) == agreed)
            .ok_or_else(|| Failure::of_the_trial(format!("slot {slot} belongs to no node")))
    }

    /// Prepares to move a slot to this node of the cluster; nothing is changed yet.
    ///
    /// # Errors
    /// If the slot belongs to it already, or the nodes do not agree.
    pub fn slot_move<'a>(&'a self, slot: u16, to: &'a Redis) -> Result<SlotMove<'a>> {
        let from = self.node_of(slot)?;
        ensure!(from.port() != to.port(), "slot {slot} is already at port {}", to.port());
        Ok(SlotMove { cluster: self, slot: slot.to_string(), from, to })
    }

    fn running(&self) -> Result<&Redis> {
        let mut running = self.nodes.iter().filter(|node| node.process().is_running());
        running.next().ok_or_else(|| Failure::of_the_trial("no node runs"))
    }
}

/// The port of the node that has this range of slots, if the slot is in it.
fn owner(range: &Reply, slot: u16) -> Option<i64> {
    let [first, last, master, ..] = range.items() else { return None };
    let within = (first.int()?..=last.int()?).contains(&slot.into());
    within.then(|| master.items().get(1)?.int()).flatten()
}

/// A slot on its way from one node to another. The steps are taken one by one, in this order, so that a test can
/// look at what a client meets in between.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: &'a Redis,
    to: &'a Redis,
}

impl SlotMove<'_> {
    /// The node that the slot leaves.
    #[must_use]
    pub const fn from(&self) -> &Redis {
        self.from
    }

    /// The node that the slot goes to.
    #[must_use]
    pub const fn to(&self) -> &Redis {
        self.to
    }

    /// Opens both ends: a key that the old node does not have (any more) is answered with `ASK` from now on, and
    /// several keys of which it has only some with `TRYAGAIN`.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn open(&self) -> Result {
        // The importing end first: a client that is sent there must be let in.
        self.set(self.to, &["IMPORTING", &id(self.from)?])?;
        self.set(self.from, &["MIGRATING", &id(self.to)?])
    }

    /// Carries the named keys over.
    ///
    /// # Errors
    /// If a node refuses.
    pub fn carry(&self, keys: &[&str]) -> Result {
        let port = self.to.port().to_string();
        let [user, password] = super::options::ADMIN;
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "2000"];
        if self.to.has_users() {
            words.extend(["AUTH2", user, password]);
        }
        words.push("KEYS");
        words.extend(keys);
        self.from.command(&words).map(drop)
    }

    /// Carries all keys of the slot over and says how many there were.
    ///
    /// # Errors
    /// If a node refuses, or keys are written faster than they are carried.
    pub fn carry_all(&self) -> Result<usize> {
        let mut carried = 0;
        for _ in 0..MAX_CARRIES {
            let keys = self.from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, KEYS_AT_ONCE])?;
            let keys: Vec<_> = keys.items().iter().filter_map(Reply::text).collect();
            if keys.is_empty() {
                return Ok(carried);
            }
            self.carry(&keys)?;
            carried += keys.len();
        }
        Err(Failure::of_the_trial("the slot fills faster than it is emptied"))
    }

    /// Gives the slot to the new node for good: the old one answers `MOVED` from now on.
    ///
    /// # Errors
    /// If a node refuses, as the old one does while it has keys of the slot.
    pub fn close(&self) -> Result {
        let id = id(self.to)?;
        // The new owner first: until it knows, nobody would serve the slot. Then those whom others ask.
        let others = self.cluster.nodes.iter().filter(|node| node.port() != self.to.port());
        for node in [self.to].into_iter().chain(others) {
            if node.process().is_running() {
                self.set(node, &["NODE", &id])?;
            }
        }
        wait_until("the nodes agree on the slot's new place", LIMIT, || {
            let slot = self.slot.parse().unwrap_or_default();
            let port = self.cluster.node_of(slot)?.port();
            ensure!(port == self.to.port(), "it is still at port {port}");
            Ok(())
        })
    }

    fn set(&self, node: &Redis, words: &[&str]) -> Result {
        let words: Vec<_> = ["CLUSTER", "SETSLOT", &self.slot].iter().chain(words).copied().collect();
        node.command(&words).map(drop)
    }
}

fn id(node: &Redis) -> Result<String> {
    let id = node.command(&["CLUSTER", "MYID"])?;
    id.text().map(str::to_owned).ok_or_else(|| Failure::of_the_trial("a node has an id"))
}
