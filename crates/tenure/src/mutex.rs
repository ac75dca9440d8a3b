use std::{future::Future, time::Duration};

use tenure_core::{Key, Mode, Result};

use crate::{
    Client, Guard, Owner, Witness,
    guard::lost_error,
    terms::{Order, Terms},
};

/// A lock that one task of one process holds at a time.
///
/// Cloning is cheap. Tasks of one process wait in a queue of their own and hand the lock to each other a bounded
/// number of times before it goes on to other processes; [`fair`](Self::fair) turns that off.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use std::time::Duration;
///
/// let client = tenure::connect("memory:").await?;
/// let deploy = client.mutex("deploy/api")?.label("v41").ttl(Duration::from_secs(30));
/// let guard = deploy.acquire_within(Duration::from_secs(60)).await?;
/// assert!(deploy.try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    terms: Terms,
}

impl Mutex {
    pub(crate) fn new(client: Client, key: Key) -> Self {
        Self { terms: Terms::new(client, key, Order::Lane) }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.terms.key
    }

    /// The client it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.terms.client
    }

    /// How long the lock outlives its holder; the watchdog renews it every third of this.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { terms: self.terms.with_ttl(ttl) }
    }

    /// What the lock is held for, shown to people who wait or look.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self { terms: self.terms.with_label(label) }
    }

    /// Strict order of arrival across all processes: every task has a place of its own in the engine's line.
    /// Costs a round trip more per hand-over.
    #[must_use]
    pub fn fair(self) -> Self {
        Self { terms: self.terms.with_order(Order::Strict) }
    }

    /// Holds for this long and is never renewed: for work that must not be kept alive by a stuck process.
    #[must_use]
    pub fn fixed_lease(self, lease: Duration) -> Self {
        Self { terms: self.terms.with_ttl(lease).with_order(Order::Fixed) }
    }

    /// Waits for the lock for as long as it takes.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported` before any I/O; `Unavailable` if the engine has not answered for a whole ttl.
    /// # Cancel safety
    /// Dropping the future gives up the place in the line and leaves nothing behind.
    pub async fn acquire(&self) -> Result<Guard> {
        self.guard(None).await
    }

    /// Takes the lock if it is free now.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). That somebody else holds it is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let tenancy = self.terms.try_acquire(Mode::Exclusive).await?;
        Ok(tenancy.map(|tenancy| Guard::new(tenancy.into())))
    }

    /// Waits for the lock at most this long, the engine's answer included: to ask once without waiting for others
    /// there is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`acquire`](Self::acquire).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Guard> {
        self.guard(Some(self.terms.within(wait))).await
    }

    /// Waits for the lock, unless the owner holds it already: then shares it, under the same fence.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` if the owner's hold was lost and its guards are still around.
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// # let client = tenure::connect("memory:").await?;
    /// let (owner, ledger) = (tenure::Owner::new(), client.mutex("ledger")?);
    /// let outer = ledger.acquire_as(&owner).await?;
    /// let inner = ledger.acquire_as(&owner).await?;
    /// assert_eq!(outer.fence(), inner.fence());
    /// # Ok(()) }
    /// ```
    pub async fn acquire_as(&self, owner: &Owner) -> Result<Guard> {
        owner.enter(&self.terms, Mode::Exclusive, None).await.map(Guard::new)
    }

    /// As [`acquire_as`](Self::acquire_as), at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`acquire_as`](Self::acquire_as).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within_as(&self, owner: &Owner, wait: Duration) -> Result<Guard> {
        owner.enter(&self.terms, Mode::Exclusive, Some(self.terms.within(wait))).await.map(Guard::new)
    }

    /// As [`acquire_as`](Self::acquire_as), if that is possible at once.
    ///
    /// # Errors
    /// As [`acquire_as`](Self::acquire_as). That somebody else holds it is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<Guard>> {
        Ok(owner.try_enter(&self.terms, Mode::Exclusive).await?.map(Guard::new))
    }

    /// Waits for the lock, works under it and releases it. If the lock is lost, the work is dropped at its next
    /// await.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` if the lock was lost before the work was done and the release
    /// confirmed: what the work did is then for the fence to judge.
    /// # Cancel safety
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn run<T, F: Future<Output = T>>(&self, work: impl FnOnce(Witness) -> F) -> Result<T> {
        let guard = self.acquire().await?;
        let done = tokio::select! {
            biased;
            loss = guard.lost() => Err(lost_error(loss, tenure_core::Op::Run).with_key(guard.key())),
            done = work(guard.witness()) => Ok(done),
        };
        match done {
            Ok(done) => guard.release().await.map(|()| done),
            Err(lost) => Err(lost),
        }
    }

    pub(crate) async fn guard(&self, deadline: Option<tenure_core::Moment>) -> Result<Guard> {
        let tenancy = self.terms.acquire(Mode::Exclusive, deadline).await?;
        Ok(Guard::new(tenancy.into()))
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }
}
