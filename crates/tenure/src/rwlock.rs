use std::{ops::Deref, sync::Arc, time::Duration};

use tenure_core::{Error, Held, Key, Mode, Moment, Op, Renewal, Result};

use crate::{
    Client, Guard, Loss, Owner,
    client::{limited, no_answer},
    guard::lost_error,
    terms::{Order, Terms},
};

/// A lock that many readers or one writer hold at a time, in order of arrival: a writer that waits lets no later
/// reader past, so it does not starve.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::connect("memory:").await?;
/// let prices = client.rwlock("prices")?;
///
/// let writer = prices.write().await?;
/// let reader = writer.downgrade().await?; // lets other readers in, and no writer between
/// let other = prices.read().await?;
/// assert!(prices.try_write().await?.is_none());
/// # drop((reader, other));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    terms: Terms,
}

impl RwLock {
    pub(crate) fn new(client: Client, key: Key) -> Self {
        Self { terms: Terms::new(client, key, Order::Strict) }
    }

    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.terms.key
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

    /// Holds for this long and is never renewed.
    #[must_use]
    pub fn fixed_lease(self, lease: Duration) -> Self {
        Self { terms: self.terms.with_ttl(lease).with_order(Order::Fixed) }
    }

    /// Waits to read.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    /// # Cancel safety
    /// Dropping the future gives up the place in the line and leaves nothing behind.
    pub async fn read(&self) -> Result<Guard> {
        self.read_until(None).await
    }

    /// Reads if that is possible now.
    ///
    /// # Errors
    /// As [`read`](Self::read). That a writer holds it or waits is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        Ok(self.terms.try_acquire(Mode::Shared).await?.map(|tenancy| Guard::new(tenancy.into())))
    }

    /// Waits to read at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`read`](Self::read).
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn read_within(&self, wait: Duration) -> Result<Guard> {
        self.read_until(Some(self.terms.within(wait))).await
    }

    /// Waits to read, unless the owner reads or writes already: then shares that hold.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Lost` if the owner's hold was lost and its guards are still around.
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn read_as(&self, owner: &Owner) -> Result<Guard> {
        owner.enter(&self.terms, Mode::Shared, None).await.map(Guard::new)
    }

    /// Waits to write.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write_until(None).await
    }

    /// Writes if that is possible now.
    ///
    /// # Errors
    /// As [`read`](Self::read). That others hold it or wait is `Ok(None)`.
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        let tenancy = self.terms.try_acquire(Mode::Exclusive).await?;
        Ok(tenancy.map(|tenancy| WriteGuard(Guard::new(tenancy.into()))))
    }

    /// Waits to write at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`read`](Self::read).
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn write_within(&self, wait: Duration) -> Result<WriteGuard> {
        self.write_until(Some(self.terms.within(wait))).await
    }

    /// Waits to write, unless the owner writes already: then shares that hold.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Invalid` if the owner only reads: waiting for itself to let go, it would wait
    /// for ever.
    /// # Cancel safety
    /// As [`read`](Self::read).
    pub async fn write_as(&self, owner: &Owner) -> Result<WriteGuard> {
        owner.enter(&self.terms, Mode::Exclusive, None).await.map(|tenancy| WriteGuard(Guard::new(tenancy)))
    }

    async fn read_until(&self, deadline: Option<Moment>) -> Result<Guard> {
        Ok(Guard::new(self.terms.acquire(Mode::Shared, deadline).await?.into()))
    }

    async fn write_until(&self, deadline: Option<Moment>) -> Result<WriteGuard> {
        Ok(WriteGuard(Guard::new(self.terms.acquire(Mode::Exclusive, deadline).await?.into())))
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }
}

/// The write side of a [`RwLock`]: a [`Guard`] that can become a reader without letting a writer in between.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard(pub(crate) Guard);

impl WriteGuard {
    /// Turns the writer into a reader at the same place, under the same fence; other readers may come in.
    ///
    /// There is no way up again: a reader that became a writer in place would take the hold from others.
    ///
    /// # Errors
    /// `Lost` if the lock was lost. `Invalid` if another guard of the same owner writes. `Unavailable` if the engine
    /// did not answer. This guard's share of the lock is then given up.
    /// # Cancel safety
    /// Dropping the future releases the lock in the background.
    pub async fn downgrade(self) -> Result<Guard> {
        let tenancy = self.0.tenancy();
        let (shared, hold) = (tenancy.shared(), tenancy.hold());
        let name =
            |err: tenure_core::Error| err.with_key(&hold.claim.key).with_engine(shared.guarantees.engine);
        tenancy.check().map_err(|err| err.in_op(Op::Downgrade))?;
        if !hold.downgrade(|| Arc::strong_count(tenancy) == 1) {
            let message = "another guard of the same owner still writes; release the inner one first";
            return Err(name(Error::invalid(message).in_op(Op::Downgrade)));
        }
        let held = Held { claim: &hold.claim, seq: hold.seq };
        match limited(hold.claim.ttl.renew_every(), shared.engine.downgrade(held)).await {
            Some(Ok(Renewal::Renewed(_))) => Ok(self.0),
            Some(Ok(Renewal::Lost)) => {
                hold.lose(Loss::Gone);
                Err(name(lost_error(Loss::Gone, Op::Downgrade)))
            }
            Some(Err(err)) => Err(name(err)),
            None => Err(name(no_answer(Op::Downgrade, hold.claim.ttl))),
        }
    }

    /// As [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }
}

impl Deref for WriteGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.0
    }
}
