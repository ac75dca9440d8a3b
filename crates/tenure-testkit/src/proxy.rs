//! A TCP proxy on loopback that breaks what passes through it.
//!
//! It runs in a thread and a runtime of its own: a test may be in any runtime or in none, with a clock that is paused
//! or not, and the proxy goes on while the test blocks.

mod carry;
mod listen;
mod pump;

use std::{
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{runtime, sync::watch, time::timeout};

use crate::{
    Failure, Result, ensure,
    process::{Port, wait_until},
};

/// How long a condition is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who connected to the proxy.
    Client,
    /// Whom the proxy connected to.
    Server,
}

/// What becomes of the bytes, and of the end of a stream, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// They are passed on.
    #[default]
    Forward,
    /// They are taken, up to 1 MiB for each connection, and passed on in order when the flow is `Forward` again.
    Hold,
    /// They are left unread, as by a network that is cut for a while: the sender's kernel keeps them, and they arrive
    /// when the flow is `Forward` again.
    Stall,
    /// They are taken and lost. No stream goes on after a gap, so a connection that lost something is reset when the
    /// flow changes again.
    Swallow,
}

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The connections that were accepted.
    pub connections: u64,
    /// Those that are open now.
    pub open: u64,
    /// From clients to servers.
    pub up: Bytes,
    /// From servers to clients.
    pub down: Bytes,
}

/// What has passed in one direction, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Passed on.
    pub forwarded: u64,
    /// Taken and not yet passed on, because they are held or delayed.
    pub held: u64,
    /// Taken and lost.
    pub lost: u64,
}

impl Counts {
    fn way(&mut self, way: Way) -> &mut Bytes {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }
}

/// What the proxy is to do. Each connection compares it with what it was when the connection was made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Counts the changes.
    version: u64,
    target: SocketAddr,
    flows: [Flow; 2],
    delays: [Duration; 2],
    listens: bool,
    /// How often everything was reset.
    resets: u64,
    /// How often one side was dropped, and which one last.
    halves: u64,
    gone: Side,
    closes: bool,
}

#[derive(Debug)]
struct Shared {
    plan: watch::Sender<Plan>,
    counts: watch::Sender<Counts>,
    /// The version of the plan that the listener follows.
    followed: Mutex<u64>,
    follows: Condvar,
    /// How many bytes may still pass before a connection is cut.
    budgets: Mutex<[Option<u64>; 2]>,
}

impl Shared {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    fn budgets(&self) -> MutexGuard<'_, [Option<u64>; 2]> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the plan and waits until the listener follows it: a connection is made either before the change or
    /// after it, also if it is only waiting to be accepted.
    fn change(&self, change: impl FnOnce(&mut Plan)) -> Result {
        let mut version = 0;
        self.plan.send_modify(|plan| {
            plan.version += 1;
            version = plan.version;
            change(plan);
        });
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let (followed, _) = self
            .follows
            .wait_timeout_while(followed, LIMIT, |followed| *followed < version)
            .unwrap_or_else(PoisonError::into_inner);
        if *followed < version {
            return Err(Failure::of_the_trial(format!(
                "the proxy did not do within {LIMIT:?} as it was told"
            )));
        }
        Ok(())
    }

    fn follow(&self, version: u64) {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = version;
        self.follows.notify_all();
    }
}

/// A proxy before one server; closed, with all its connections, when dropped.
///
/// What is asked of it holds for everything that is sent after the call returns.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: Port,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy that passes everything on to this address, on a port of its own.
    ///
    /// # Errors
    /// If it cannot listen.
    pub fn start(target: SocketAddr) -> Result<Self> {
        let port = Port::claim()?;
        let plan = Plan {
            version: 1,
            target,
            flows: [Flow::Forward; 2],
            delays: [Duration::ZERO; 2],
            listens: true,
            resets: 0,
            halves: 0,
            gone: Side::Server,
            closes: false,
        };
        let shared = Arc::new(Shared {
            plan: watch::Sender::new(plan),
            counts: watch::Sender::default(),
            followed: Mutex::default(),
            follows: Condvar::new(),
            budgets: Mutex::default(),
        });
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (addr, work) = (port.addr(), shared.clone());
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || {
            // The connections end with the runtime.
            runtime.block_on(listen::listen(addr, &work));
        })?;
        let proxy = Self { shared, port, thread: Some(thread) };
        proxy.accept()?;
        Ok(proxy)
    }

    /// Where clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Passes connections made from now on to another address.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn retarget(&self, target: SocketAddr) -> Result {
        self.shared.change(|plan| plan.target = target)
    }

    /// Changes what becomes of the bytes in one direction, on all connections, old and new.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn flow(&self, way: Way, flow: Flow) -> Result {
        self.shared.change(|plan| plan.flows[way as usize] = flow)
    }

    /// Changes it in both directions.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn flow_both(&self, flow: Flow) -> Result {
        self.shared.change(|plan| plan.flows = [flow; 2])
    }

    /// Passes on what is read from now on in this direction only after so long.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn delay(&self, way: Way, delay: Duration) -> Result {
        self.shared.change(|plan| plan.delays[way as usize] = delay)
    }

    /// Lets so many more bytes pass in this direction, over all connections. The byte after them is lost, and the
    /// connection that it came on is reset; then everything is as before.
    ///
    /// With none `Up`, the next request is lost before it has an effect; with none `Down`, the next answer after it.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.shared.budgets()[way as usize] = Some(bytes);
    }

    /// Resets all connections, on both sides.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn reset(&self) -> Result {
        self.shared.change(|plan| plan.resets += 1)
    }

    /// Closes this side of all connections. The other side stays open and hears nothing more, not even the end; what
    /// it sends is lost.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn half_open(&self, gone: Side) -> Result {
        self.shared.change(|plan| {
            plan.halves += 1;
            plan.gone = gone;
        })
    }

    /// Refuses new connections and leaves the others.
    ///
    /// # Errors
    /// If the proxy does not follow in time.
    pub fn refuse(&self) -> Result {
        self.shared.change(|plan| plan.listens = false)
    }

    /// Accepts new connections again.
    ///
    /// # Errors
    /// If the port cannot be listened on any more.
    pub fn accept(&self) -> Result {
        self.shared.change(|plan| plan.listens = true)
    }

    /// Passes everything on again: no flow but `Forward`, no delay, no cut to come, new connections accepted.
    ///
    /// # Errors
    /// If the port cannot be listened on any more.
    pub fn heal(&self) -> Result {
        *self.shared.budgets() = [None; 2];
        self.shared.change(|plan| {
            plan.delays = [Duration::ZERO; 2];
            plan.flows = [Flow::Forward; 2];
            plan.listens = true;
        })
    }

    /// What has passed so far. Bytes are counted once they are passed on, a moment after they may have arrived: wait for
    /// a number that is to come.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counts are so: that a message was held back, say, before it is let go.
    ///
    /// # Errors
    /// If they are not within ten seconds.
    pub async fn until(&self, what: &str, is_so: impl FnMut(&Counts) -> bool) -> Result<Counts> {
        let mut counts = self.shared.counts.subscribe();
        match timeout(LIMIT, counts.wait_for(is_so)).await {
            Ok(Ok(counts)) => Ok(*counts),
            _ => {
                let now = self.counts();
                Err(Failure::of_the_trial(format!("waited {LIMIT:?} in vain until {what}: {now:?}")))
            }
        }
    }

    /// Waits as [`Proxy::until`] does, outside of any runtime.
    ///
    /// # Errors
    /// If they are not within ten seconds.
    pub fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Counts) -> bool) -> Result<Counts> {
        wait_until(what, LIMIT, || {
            let counts = self.counts();
            ensure!(is_so(&counts), "{counts:?}");
            Ok(counts)
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.plan.send_modify(|plan| plan.closes = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
