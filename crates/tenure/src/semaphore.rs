use std::{fmt, sync::Arc, time::Duration};

use tenure_core::{Fence, Key, Mode, Moment, Permits, Result};

use crate::{
    Client, Loss,
    guard::Tenancy,
    terms::{Order, Terms},
};

/// A lock with a fixed number of permits. Everybody must name the same number: who does not is told both.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::connect("memory:").await?;
/// let uploads = client.semaphore("uploads", 3)?;
/// let two = uploads.acquire_many(2).await?;
/// let one = uploads.acquire().await?;
/// assert!(uploads.try_acquire().await?.is_none());
/// # drop((one, two));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    terms: Terms,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(client: Client, key: Key, permits: u32) -> Self {
        Self { terms: Terms::new(client, key, Order::Strict), permits }
    }

    /// The semaphore's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.terms.key
    }

    /// How many permits there are in all.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// How long a permit outlives its holder; the watchdog renews it every third of this.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { terms: self.terms.with_ttl(ttl), ..self }
    }

    /// What the permits are held for, shown to people who wait or look.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self { terms: self.terms.with_label(label), ..self }
    }

    /// Holds for this long and is never renewed.
    #[must_use]
    pub fn fixed_lease(self, lease: Duration) -> Self {
        Self { terms: self.terms.with_ttl(lease).with_order(Order::Fixed), ..self }
    }

    /// Waits for one permit.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire); `Invalid` if a holder counts another number of permits.
    /// # Cancel safety
    /// Dropping the future gives up the place in the line and leaves nothing behind.
    pub async fn acquire(&self) -> Result<Permit> {
        self.take(1, None).await
    }

    /// Waits for several permits at once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Invalid` if `take` is 0 or more than there are.
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, take: u32) -> Result<Permit> {
        self.take(take, None).await
    }

    /// Waits for several permits at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`acquire_many`](Self::acquire_many).
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_within(&self, take: u32, wait: Duration) -> Result<Permit> {
        self.take(take, Some(self.terms.within(wait))).await
    }

    /// Takes one permit if it is free now.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). That none is free is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Takes several permits if they are free now.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many). That not enough are free is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_acquire_many(&self, take: u32) -> Result<Option<Permit>> {
        let mode = self.mode(take)?;
        Ok(self.terms.try_acquire(mode).await?.map(|tenancy| Permit { tenancy: tenancy.into(), taken: take }))
    }

    async fn take(&self, take: u32, deadline: Option<Moment>) -> Result<Permit> {
        let tenancy = self.terms.acquire(self.mode(take)?, deadline).await?;
        Ok(Permit { tenancy: tenancy.into(), taken: take })
    }

    fn mode(&self, take: u32) -> Result<Mode> {
        Permits::new(take, self.permits).map(Mode::Permits).map_err(|err| err.with_key(&self.terms.key))
    }
}

/// Permits of a [`Semaphore`]. Dropping it gives them back in the background.
///
/// Not a [`Guard`](crate::Guard): its fence tells the order of grants, but no resource can check it, since several
/// rightful holders have different ones.
#[must_use = "the permits are given back when this is dropped"]
pub struct Permit {
    tenancy: Arc<Tenancy>,
    taken: u32,
}

impl Permit {
    /// The semaphore's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.tenancy.hold().claim.key
    }

    /// How many permits these are.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Where these permits stand in the order of grants.
    #[must_use]
    pub fn order(&self) -> Fence {
        self.tenancy.fence()
    }

    /// As [`Guard::remaining`](crate::Guard::remaining).
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.tenancy.remaining()
    }

    /// As [`Guard::is_lost`](crate::Guard::is_lost).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.tenancy.loss().is_some()
    }

    /// As [`Guard::lost`](crate::Guard::lost).
    pub async fn lost(&self) -> Loss {
        self.tenancy.lost().await
    }

    /// Gives the permits back and waits for the engine to confirm it.
    ///
    /// # Errors
    /// As [`Guard::release`](crate::Guard::release).
    /// # Cancel safety
    /// Dropping the future leaves the release running in the background.
    pub async fn release(self) -> Result<()> {
        match Arc::into_inner(self.tenancy) {
            Some(tenancy) => tenancy.release().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("key", self.key()).field("taken", &self.taken).finish_non_exhaustive()
    }
}
