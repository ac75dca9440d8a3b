//! The connections of a client: which server to ask, and one connection to each.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::Value;
use tenure_core::{Address, ClaimId, Error, ErrorKind, Op, Port, Result};

use crate::{
    ENGINE,
    address::{of_node, same_host},
    cluster::Map,
    link::{Arg, Link},
    news::News,
    script::Script,
    sentinel,
    slot::slot_of,
    trouble::{denied_in_script, verb_failed},
    url::{RedisOptions, Topology},
};

/// How often a request may be sent on to another node before the cluster is called confused.
const MOST_REDIRECTS: usize = 5;

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<RedisOptions>,
    news: Arc<News>,
    /// The channel that only this client listens to.
    channel: String,
    ports: Mutex<HashMap<Address, Ports>>,
    pub(crate) map: Map,
    /// The connection that listens.
    ear: Mutex<Option<Arc<Link>>>,
    pricking: tokio::sync::Mutex<()>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// Everything.
    All,
    /// Attempts that wait for replicas: the server answers nothing else on that connection meanwhile.
    Replicated,
}

/// One for each use.
type Ports = [Arc<Port<Link>>; 2];

/// One run of a script.
pub(crate) struct Call<'a> {
    pub(crate) op: Op,
    pub(crate) script: &'a Script,
    /// The claim that it is about, if it is about one.
    pub(crate) id: Option<ClaimId>,
    pub(crate) keys: &'a [Vec<u8>],
    pub(crate) args: &'a [Arg<'a>],
    pub(crate) first: First,
}

/// Who hears first of what a script did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Whoever asked.
    Caller,
    /// Whoever is told of its turn.
    Next,
}

/// Waits for so many replicas, for so long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) within: Duration,
}

impl Links {
    pub(crate) fn new(options: RedisOptions, news: Arc<News>, channel: String) -> Self {
        Self {
            options: Arc::new(options),
            news,
            channel,
            ports: Mutex::default(),
            map: Map::default(),
            ear: Mutex::default(),
            pricking: tokio::sync::Mutex::default(),
        }
    }

    /// Runs a script where its first key lives; gives the answer and the connection that it came on.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<(Arc<Link>, Value)> {
        let (link, value, _) = self.run_with(call, Use::All, None).await?;
        Ok((link, value))
    }

    /// The same on this connection, unless the key lives elsewhere.
    pub(crate) async fn run_on(&self, link: Arc<Link>, call: Call<'_>) -> Result<(Arc<Link>, Value)> {
        let (link, value, _) = self.run_from(link, call, Use::All, None).await?;
        Ok((link, value))
    }

    /// The same, and says how many replicas have acknowledged it.
    pub(crate) async fn run_replicated(
        &self,
        call: Call<'_>,
        replicas: Replicas,
    ) -> Result<(Arc<Link>, Value, u32)> {
        self.run_with(call, Use::Replicated, Some(replicas)).await
    }

    async fn run_with(
        &self,
        call: Call<'_>,
        purpose: Use,
        replicas: Option<Replicas>,
    ) -> Result<(Arc<Link>, Value, u32)> {
        let key = call.keys.first().map_or(&[][..], Vec::as_slice);
        let link = self.at_key(key, purpose).await.map_err(|err| err.in_op(call.op))?;
        self.run_from(link, call, purpose, replicas).await
    }

    async fn run_from(
        &self,
        mut link: Arc<Link>,
        call: Call<'_>,
        purpose: Use,
        replicas: Option<Replicas>,
    ) -> Result<(Arc<Link>, Value, u32)> {
        let op = call.op;
        let mut asking = false;
        for _ in 0..MOST_REDIRECTS {
            let answer = link.run(&call, asking, replicas).await;
            asking = false;
            let err = match answer {
                Ok((value, acknowledged)) => return Ok((link, value, acknowledged)),
                Err(err) => err,
            };
            let next = match err.redirect_node() {
                Some((node, slot)) if self.options.topology == Topology::Cluster => {
                    of_node(node).map(|node| (same_host(&link.address, node), slot))
                }
                _ => None,
            };
            let Some((node, slot)) = next else {
                let denied = denied_in_script(op, &link.address, &call.script.code, &err);
                return Err(denied.unwrap_or_else(|| verb_failed(op, &link.address, err)));
            };
            if err.kind() == redis::ServerErrorKind::Ask.into() {
                asking = true;
            } else {
                self.map.moved(slot, &node);
            }
            link = Box::pin(self.at(&node, purpose)).await.map_err(|err| err.in_op(op))?;
        }
        let message = "the nodes of the cluster send this key to each other";
        Err(Error::unavailable(op, message).with_engine(ENGINE).not_applied())
    }

    /// The connection to whoever has this key.
    pub(crate) async fn at_key(&self, key: &[u8], purpose: Use) -> Result<Arc<Link>> {
        if self.options.topology != Topology::Cluster {
            let address = &self.options.hosts[0];
            // Whatever is rare is boxed, here and below, so that the usual future is small.
            if let Some(link) = self.port(address, purpose).working() {
                return Ok(link);
            }
            return Box::pin(self.at(address, purpose)).await;
        }
        Box::pin(self.at_slot(slot_of(key), purpose)).await
    }

    async fn at_slot(&self, slot: u16, purpose: Use) -> Result<Arc<Link>> {
        if self.map.owner(slot).is_none() {
            self.refresh().await?;
        }
        let nobody = || {
            Error::unavailable(Op::Connect, format!("no node of the cluster has slot {slot}"))
                .with_engine(ENGINE)
                .not_applied()
        };
        let owner = self.map.owner(slot).ok_or_else(nobody)?;
        match self.at(&owner, purpose).await {
            Err(err) if err.kind() == ErrorKind::Unavailable => {
                // Another node may have taken over.
                self.refresh().await?;
                match self.map.owner(slot) {
                    Some(new) if new != owner => self.at(&new, purpose).await,
                    _ => Err(err),
                }
            }
            link => link,
        }
    }

    /// The connections to all who own a part of the keys.
    pub(crate) async fn owners(&self) -> Result<Vec<Arc<Link>>> {
        if self.options.topology != Topology::Cluster {
            return Ok(vec![self.at(&self.options.hosts[0], Use::All).await?]);
        }
        self.refresh().await?;
        let mut links = Vec::new();
        for owner in self.map.owners() {
            links.push(self.at(&owner, Use::All).await?);
        }
        Ok(links)
    }

    /// Asks the cluster who has which slot: whoever answers first of those we know and those we were given.
    async fn refresh(&self) -> Result<()> {
        let mut known = self.map.owners();
        known.extend(
            self.options.hosts.iter().filter(|host| !known.contains(host)).cloned().collect::<Vec<_>>(),
        );
        let mut last = None;
        for node in known {
            let asked = match self.at(&node, Use::All).await {
                Ok(link) => self.map.ask(&link).await,
                Err(err) => Err(err),
            };
            match asked {
                Ok(()) => {
                    self.forget_strangers();
                    return Ok(());
                }
                Err(err) => last = Some(err),
            }
        }
        Err(last.unwrap_or_else(|| Error::invalid("the cluster has no node")))
    }

    /// Drops the connections to nodes that have left the cluster.
    fn forget_strangers(&self) {
        let owners = self.map.owners();
        lock(&self.ports).retain(|address, ports| {
            let used = |port: &Arc<Port<Link>>| Arc::strong_count(port) > 1 || port.working().is_some();
            owners.contains(address) || self.options.hosts.contains(address) || ports.iter().any(used)
        });
    }

    async fn at(&self, address: &Address, purpose: Use) -> Result<Arc<Link>> {
        let port = self.port(address, purpose);
        if let Some(link) = port.working() {
            return Ok(link);
        }
        port.get(|| open(address.clone(), self.options.clone(), self.news.clone())).await
    }

    fn port(&self, address: &Address, purpose: Use) -> Arc<Port<Link>> {
        let mut ports = lock(&self.ports);
        let port = match ports.get(address) {
            Some(ports) => &ports[purpose as usize],
            None => {
                let new = || std::array::from_fn(|_| Arc::new(Port::new(Link::works)));
                &ports.entry(address.clone()).or_insert_with(new)[purpose as usize]
            }
        };
        port.clone()
    }

    /// Sees to it that this client hears what is told to it; on this connection, if on none so far.
    pub(crate) async fn listen(&self, link: &Arc<Link>) -> Result<()> {
        if self.hears() {
            return Ok(());
        }
        Box::pin(self.subscribe(link)).await
    }

    async fn subscribe(&self, link: &Arc<Link>) -> Result<()> {
        let _one = self.pricking.lock().await;
        if self.hears() {
            return Ok(());
        }
        link.subscribe(&self.channel)
            .await
            .map_err(|err| verb_failed(Op::Attempt, &link.address, err).not_applied())?;
        *lock(&self.ear) = Some(link.clone());
        Ok(())
    }

    fn hears(&self) -> bool {
        lock(&self.ear).as_ref().is_some_and(|ear| ear.works())
    }
}

/// Connects to a server, or to the master that the sentinels name.
async fn open(address: Address, options: Arc<RedisOptions>, news: Arc<News>) -> Result<Arc<Link>> {
    let address = match &options.topology {
        Topology::Sentinel(name) => sentinel::master(&options, name).await?,
        Topology::Single | Topology::Cluster => address,
    };
    let link = Link::open(&address, &options, &news).await?;
    link.found.check(&address, &options)?;
    if matches!(options.topology, Topology::Sentinel(_)) && !link.found.is_master() {
        let message = format!("{address} is called master by the sentinels and is none yet");
        return Err(Error::unavailable(Op::Connect, message).with_engine(ENGINE).not_applied());
    }
    Ok(link)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in single steps, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
