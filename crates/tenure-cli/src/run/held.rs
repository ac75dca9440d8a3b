//! The lock that is wished for and the lock that is held, whatever its kind.

use std::time::Duration;

use tenure::{Client, Fence, Guard, Key, Loss, Permit, Result};

/// Which lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    pub(super) key: &'a Key,
    pub(super) note: &'a str,
    pub(super) ttl: Duration,
    pub(super) shared: bool,
    pub(super) slots: Option<u32>,
}

/// A held lock.
#[derive(Debug)]
pub(super) enum Held {
    Guard(Guard),
    Permit(Permit),
}

impl Want<'_> {
    pub(super) async fn acquire(&self, client: &Client, within: Option<Duration>) -> Result<Held> {
        let key = self.key.as_str();
        if let Some(slots) = self.slots {
            let semaphore = client.semaphore(key, slots)?.ttl(self.ttl).label(self.note);
            let permit = match within {
                Some(wait) => semaphore.acquire_many_within(1, wait).await?,
                None => semaphore.acquire().await?,
            };
            return Ok(Held::Permit(permit));
        }
        let guard = if self.shared {
            let lock = client.rwlock(key)?.ttl(self.ttl).label(self.note);
            match within {
                Some(wait) => lock.read_within(wait).await?,
                None => lock.read().await?,
            }
        } else {
            // There is one job per process, so there is nobody to hand the lock to.
            let lock = client.mutex(key)?.ttl(self.ttl).label(self.note).fair();
            match within {
                Some(wait) => lock.acquire_within(wait).await?,
                None => lock.acquire().await?,
            }
        };
        Ok(Held::Guard(guard))
    }

    pub(super) async fn try_acquire(&self, client: &Client) -> Result<Option<Held>> {
        let key = self.key.as_str();
        if let Some(slots) = self.slots {
            let semaphore = client.semaphore(key, slots)?.ttl(self.ttl).label(self.note);
            return Ok(semaphore.try_acquire().await?.map(Held::Permit));
        }
        let guard = if self.shared {
            client.rwlock(key)?.ttl(self.ttl).label(self.note).try_read().await?
        } else {
            client.mutex(key)?.ttl(self.ttl).label(self.note).fair().try_acquire().await?
        };
        Ok(guard.map(Held::Guard))
    }
}

impl Held {
    pub(super) fn fence(&self) -> Fence {
        match self {
            Self::Guard(guard) => guard.fence(),
            Self::Permit(permit) => permit.order(),
        }
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Guard(guard) => guard.remaining(),
            Self::Permit(permit) => permit.remaining(),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_lost(),
            Self::Permit(permit) => permit.is_lost(),
        }
    }

    pub(super) async fn lost(&self) -> Loss {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Permit(permit) => permit.lost().await,
        }
    }

    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}
