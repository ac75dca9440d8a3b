//! The same locks for threads, with no runtime in sight.
//!
//! The owner is the thread: a thread that holds a mutex may take it again, under the same fence, and the lock is
//! free when the last of its guards goes. Background work runs on one thread that all blocking clients share.
//!
//! # Examples
//! ```
//! let client = tenure::blocking::connect("memory:")?;
//! let ledger = client.mutex("ledger")?;
//! let outer = ledger.acquire()?;
//! let inner = ledger.acquire()?; // the same thread: does not wait for itself
//! assert_eq!(outer.fence(), inner.fence());
//! # Ok::<(), tenure::Error>(())
//! ```

mod election;
mod guard;
mod locks;

use std::{future::Future, sync::OnceLock};

use tenure_core::{Error, ErrorKind, Evicted, Eviction, Filter, Guarantees, Key, Op, Place, Result};
use tokio::runtime::{Builder, Handle, Runtime};

pub use self::{
    election::{Election, Leadership},
    guard::{Guard, MultiGuard, Permit, WriteGuard},
    locks::{Multi, Mutex, RwLock, Semaphore},
};
use crate::Owner;

/// Opens the engine at this URL, as [`crate::connect`].
///
/// # Errors
/// As [`crate::connect`]; `Invalid` inside an async task, which must not block: use [`crate::connect`] there.
pub fn connect(url: &str) -> Result<Client> {
    wait(crate::connect(url)).map(|client| Client { client })
}

/// A client of one engine, for threads. Cloning is cheap and gives the same client.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
}

impl Client {
    /// What the engine promises in its present topology.
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        self.client.guarantees()
    }

    /// As [`crate::Client::mutex`].
    ///
    /// # Errors
    /// As there.
    pub fn mutex(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<Mutex> {
        self.client.mutex(key).map(Mutex)
    }

    /// As [`crate::Client::rwlock`].
    ///
    /// # Errors
    /// As there.
    pub fn rwlock(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<RwLock> {
        self.client.rwlock(key).map(RwLock)
    }

    /// As [`crate::Client::semaphore`].
    ///
    /// # Errors
    /// As there.
    pub fn semaphore(&self, key: impl TryInto<Key, Error: Into<Error>>, permits: u32) -> Result<Semaphore> {
        self.client.semaphore(key, permits).map(Semaphore)
    }

    /// As [`crate::Client::election`].
    ///
    /// # Errors
    /// As there.
    pub fn election(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<Election> {
        self.client.election(key).map(Election)
    }

    /// As [`crate::Client::line`].
    ///
    /// # Errors
    /// As there.
    pub fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        wait(self.client.line(filter))
    }

    /// As [`crate::Client::evict`].
    ///
    /// # Errors
    /// As there.
    pub fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        wait(self.client.evict(eviction))
    }

    /// As [`crate::Client::close`].
    ///
    /// # Errors
    /// `Invalid` inside an async task.
    pub fn close(&self) -> Result<()> {
        wait(async {
            self.client.close().await;
            Ok(())
        })
    }
}

/// The runtime behind all blocking clients, started at first use. It also takes the last releases of clients
/// whose own runtime is gone.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let start = || Builder::new_multi_thread().worker_threads(1).thread_name("tenure").enable_all().build();
    RUNTIME.get_or_init(start).as_ref().map_err(|err| {
        Error::new(
            ErrorKind::Unavailable,
            Op::Connect,
            format!("no thread could be started for background work: {err}"),
        )
        .not_applied()
    })
}

/// Runs a future to its end on this thread.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    if Handle::try_current().is_ok() {
        return Err(Error::invalid(
            "a blocking call inside an async task would stall its runtime; use the async API, or a thread of its own",
        ));
    }
    runtime()?.block_on(work)
}

thread_local! {
    static OWNER: Owner = Owner::new();
}

/// The calling thread, as an owner of locks.
pub(crate) fn this_thread() -> Owner {
    OWNER.with(Clone::clone)
}
