use std::time::Duration;

use tenure_core::{Key, Mode, Result};

use super::{Guard, MultiGuard, Permit, WriteGuard, this_thread, wait};
use crate::Witness;

/// A lock that one thread of one process holds at a time. The thread that holds it may take it again.
#[derive(Clone, Debug)]
pub struct Mutex(pub(super) crate::Mutex);

impl Mutex {
    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.0.key()
    }

    /// As [`crate::Mutex::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`crate::Mutex::label`].
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// As [`crate::Mutex::fair`].
    #[must_use]
    pub fn fair(self) -> Self {
        Self(self.0.fair())
    }

    /// As [`crate::Mutex::fixed_lease`].
    #[must_use]
    pub fn fixed_lease(self, lease: Duration) -> Self {
        Self(self.0.fixed_lease(lease))
    }

    /// Waits for the lock for as long as it takes.
    ///
    /// # Errors
    /// As [`crate::Mutex::acquire_as`]; `Invalid` inside an async task.
    pub fn acquire(&self) -> Result<Guard> {
        wait(self.0.acquire_as(&this_thread())).map(Guard)
    }

    /// Takes the lock if it is free now, or this thread's already.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). That somebody else holds it is `Ok(None)`.
    pub fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(wait(self.0.try_acquire_as(&this_thread()))?.map(Guard))
    }

    /// Waits for the lock at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`acquire`](Self::acquire).
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard> {
        wait(self.0.acquire_within_as(&this_thread(), limit)).map(Guard)
    }

    /// Works under the lock. A thread cannot be stopped from outside: ask the witness between steps.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` if the lock was lost before the work was done.
    pub fn run<T>(&self, work: impl FnOnce(Witness) -> T) -> Result<T> {
        let guard = self.acquire()?;
        let done = work(guard.witness());
        guard.release().map(|()| done)
    }
}

/// A lock that many readers or one writer hold at a time, in order of arrival. A thread that reads may read
/// again, and one that writes may do both.
#[derive(Clone, Debug)]
pub struct RwLock(pub(super) crate::RwLock);

impl RwLock {
    /// The lock's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.0.key()
    }

    /// As [`crate::RwLock::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`crate::RwLock::label`].
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// As [`crate::RwLock::fixed_lease`].
    #[must_use]
    pub fn fixed_lease(self, lease: Duration) -> Self {
        Self(self.0.fixed_lease(lease))
    }

    /// Waits to read.
    ///
    /// # Errors
    /// As [`crate::RwLock::read_as`]; `Invalid` inside an async task.
    pub fn read(&self) -> Result<Guard> {
        wait(self.0.read_as(&this_thread())).map(Guard)
    }

    /// Reads if that is possible now.
    ///
    /// # Errors
    /// As [`read`](Self::read). That a writer holds it or waits is `Ok(None)`.
    pub fn try_read(&self) -> Result<Option<Guard>> {
        let tenancy = wait(this_thread().try_enter(self.0.terms(), Mode::Shared))?;
        Ok(tenancy.map(|tenancy| Guard(crate::Guard::new(tenancy))))
    }

    /// Waits to read at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`read`](Self::read).
    pub fn read_within(&self, limit: Duration) -> Result<Guard> {
        let (owner, terms) = (this_thread(), self.0.terms());
        let tenancy = wait(owner.enter(terms, Mode::Shared, Some(terms.within(limit))))?;
        Ok(Guard(crate::Guard::new(tenancy)))
    }

    /// Waits to write.
    ///
    /// # Errors
    /// As [`crate::RwLock::write_as`]; `Invalid` inside an async task.
    pub fn write(&self) -> Result<WriteGuard> {
        wait(self.0.write_as(&this_thread())).map(WriteGuard)
    }

    /// Writes if that is possible now.
    ///
    /// # Errors
    /// As [`write`](Self::write). That others hold it or wait is `Ok(None)`.
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        let tenancy = wait(this_thread().try_enter(self.0.terms(), Mode::Exclusive))?;
        Ok(tenancy.map(|tenancy| WriteGuard(crate::WriteGuard(crate::Guard::new(tenancy)))))
    }

    /// Waits to write at most this long.
    ///
    /// # Errors
    /// `Timeout` when the time is over, and as [`write`](Self::write).
    pub fn write_within(&self, limit: Duration) -> Result<WriteGuard> {
        let (owner, terms) = (this_thread(), self.0.terms());
        let tenancy = wait(owner.enter(terms, Mode::Exclusive, Some(terms.within(limit))))?;
        Ok(WriteGuard(crate::WriteGuard(crate::Guard::new(tenancy))))
    }
}

/// A lock with a fixed number of permits. Not reentrant: each permit counts.
#[derive(Clone, Debug)]
pub struct Semaphore(pub(super) crate::Semaphore);

impl Semaphore {
    /// The semaphore's key.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.0.key()
    }

    /// As [`crate::Semaphore::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// As [`crate::Semaphore::label`].
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        Self(self.0.label(label))
    }

    /// Waits for one permit.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`]; `Invalid` inside an async task.
    pub fn acquire(&self) -> Result<Permit> {
        wait(self.0.acquire()).map(Permit)
    }

    /// Waits for several permits at once.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, take: u32) -> Result<Permit> {
        wait(self.0.acquire_many(take)).map(Permit)
    }

    /// Waits for several permits at most this long.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire_many_within`].
    pub fn acquire_many_within(&self, take: u32, limit: Duration) -> Result<Permit> {
        wait(self.0.acquire_many_within(take, limit)).map(Permit)
    }

    /// Takes several permits if they are free now.
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire_many`].
    pub fn try_acquire_many(&self, take: u32) -> Result<Option<Permit>> {
        Ok(wait(self.0.try_acquire_many(take))?.map(Permit))
    }
}

/// Many locks, all or none. The guards belong to the call, not to the thread: taking them twice waits.
#[derive(Clone, Debug)]
pub struct Multi(crate::Multi);

impl Multi {
    /// As [`crate::Multi::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(locks: impl IntoIterator<Item = Mutex>) -> Result<Self> {
        crate::Multi::new(locks.into_iter().map(|lock| lock.0)).map(Self)
    }

    /// As [`crate::Multi::acquire`].
    ///
    /// # Errors
    /// As there; `Invalid` inside an async task.
    pub fn acquire(&self) -> Result<MultiGuard> {
        wait(self.0.acquire()).map(MultiGuard)
    }

    /// As [`crate::Multi::acquire_within`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire_within(&self, limit: Duration) -> Result<MultiGuard> {
        wait(self.0.acquire_within(limit)).map(MultiGuard)
    }

    /// As [`crate::Multi::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        Ok(wait(self.0.try_acquire())?.map(MultiGuard))
    }
}
