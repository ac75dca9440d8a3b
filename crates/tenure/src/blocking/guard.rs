use std::{ops::Deref, time::Duration};

use tenure_core::Result;

use super::wait;
use crate::Loss;

/// A held lock, for threads. Dropping it releases it.
///
/// Everything that can be asked of it without waiting is on [`crate::Guard`], to which it derefs.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    /// Waits until the lock is lost, at most this long. `None` if it is still held then.
    ///
    /// # Errors
    /// `Invalid` inside an async task.
    pub fn wait_lost(&self, limit: Duration) -> Result<Option<Loss>> {
        wait(async { Ok(tokio::time::timeout(limit, self.0.lost()).await.ok()) })
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there; `Invalid` inside an async task, where the release goes on in the background.
    pub fn release(self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for Guard {
    type Target = crate::Guard;
    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}

/// The write side of a [`RwLock`](super::RwLock), for threads.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard(pub(super) crate::WriteGuard);

impl WriteGuard {
    /// As [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    /// As there.
    pub fn downgrade(self) -> Result<Guard> {
        wait(self.0.downgrade()).map(Guard)
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for WriteGuard {
    type Target = crate::Guard;
    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}

/// Permits of a [`Semaphore`](super::Semaphore), for threads.
#[derive(Debug)]
#[must_use = "the permits are given back when this is dropped"]
pub struct Permit(pub(super) crate::Permit);

impl Permit {
    /// As [`crate::Permit::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for Permit {
    type Target = crate::Permit;
    fn deref(&self) -> &crate::Permit {
        &self.0
    }
}

/// Many held locks, for threads.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard(pub(super) crate::MultiGuard);

impl MultiGuard {
    /// As [`crate::MultiGuard::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for MultiGuard {
    type Target = crate::MultiGuard;
    fn deref(&self) -> &crate::MultiGuard {
        &self.0
    }
}
