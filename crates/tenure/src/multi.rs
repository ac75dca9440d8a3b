use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tenure_core::{Error, Fence, Key, Moment, Op, Result};

use crate::{Guard, Loss, Mutex};

/// Many locks, all or none, of one engine or of several.
///
/// They are taken in one order everywhere (by key, then by the engine's own identity), so that two processes
/// that want the same keys cannot wait for each other.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use std::time::Duration;
///
/// let client = tenure::connect("memory:").await?;
/// let transfer = tenure::Multi::new([client.mutex("account/7")?, client.mutex("account/3")?])?;
/// let both = transfer.acquire_within(Duration::from_secs(5)).await?;
/// assert!(both.fence(&"account/7".parse()?).is_some());
/// both.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Multi {
    locks: Vec<Mutex>,
}

impl Multi {
    /// The most locks that can be taken together.
    pub const MAX_LOCKS: usize = 1000;

    /// Binds locks together. Each keeps its own ttl, label and order.
    ///
    /// # Errors
    /// `Invalid` if there are none, too many, or one twice: it would wait for itself.
    pub fn new(locks: impl IntoIterator<Item = Mutex>) -> Result<Self> {
        let mut locks: Vec<Mutex> = locks.into_iter().take(Self::MAX_LOCKS + 1).collect();
        let place = |lock: &Mutex| (lock.key().clone(), lock.client().identity());
        locks.sort_by_cached_key(place);
        if locks.is_empty() || locks.len() > Self::MAX_LOCKS {
            return Err(Error::invalid(format!("a multi-lock has 1 to {} locks", Self::MAX_LOCKS)));
        }
        match locks.windows(2).find(|pair| place(&pair[0]) == place(&pair[1])) {
            Some(pair) => {
                Err(Error::invalid("the same key is named twice in a multi-lock").with_key(pair[0].key()))
            }
            None => Ok(Self { locks }),
        }
    }

    /// Waits for all of them for as long as it takes.
    ///
    /// # Errors
    /// As [`Mutex::acquire`]; then none is held.
    /// # Cancel safety
    /// Dropping the future gives up every place and leaves nothing behind.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        self.acquire_until(None).await
    }

    /// Waits for all of them at most this long in all.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`acquire`](Self::acquire); then none is held.
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<MultiGuard> {
        self.acquire_until(Some(self.locks[0].terms().within(wait))).await
    }

    /// Takes all of them if all are free now.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). That one of them is held by others is `Ok(None)`, and none is held.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            match lock.try_acquire().await? {
                Some(guard) => guards.push(guard),
                None => return Ok(None),
            }
        }
        Ok(Some(MultiGuard { guards }))
    }

    async fn acquire_until(&self, deadline: Option<Moment>) -> Result<MultiGuard> {
        // A member may be lost while the next one is waited for; then all are given back and asked for anew. How
        // often that happens is bounded by the leases that must end meanwhile.
        loop {
            let mut all = MultiGuard { guards: Vec::with_capacity(self.locks.len()) };
            for lock in &self.locks {
                all.guards.push(lock.guard(deadline).await?);
            }
            if all.check().is_ok() {
                return Ok(all);
            }
        }
    }
}

/// Many held locks. Dropping it releases them all in the background.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// The fence of one of the keys; `None` if it is none of them. With keys of several engines, of the first.
    #[must_use]
    pub fn fence(&self, key: &Key) -> Option<Fence> {
        self.guards.iter().find(|guard| guard.key() == key).map(Guard::fence)
    }

    /// The guards, sorted by key.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// How long all are safe without another renewal. `None` if they live as long as this process.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.guards.iter().filter_map(Guard::remaining).min()
    }

    /// Whether any of them is lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Makes sure that all are held, before an effect.
    ///
    /// # Errors
    /// `Lost`, naming the first that is not.
    pub fn check(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Resolves when the first of them is lost.
    ///
    /// # Cancel safety
    /// Nothing is missed between two calls.
    pub async fn lost(&self) -> (Key, Loss) {
        let losses =
            self.guards.iter().map(|guard| Box::pin(async { (guard.key().clone(), guard.lost().await) }));
        select_all(losses).await.0
    }

    /// Frees all of them and waits for the engines to confirm it.
    ///
    /// # Errors
    /// The first error; the others are released all the same.
    /// # Cancel safety
    /// Dropping the future leaves the releases running in the background.
    pub async fn release(self) -> Result<()> {
        let released = join_all(self.guards.into_iter().map(Guard::release)).await;
        released.into_iter().collect::<Result<()>>().map_err(|err| err.in_op(Op::Release))
    }
}
