//! What was granted, whichever kind of lock it is of.

use std::time::Duration;

use tenure::{Guard, Leadership, Loss, Mutex, Owner, Permit, WriteGuard};
use tenure_core::Result;

pub(super) enum Grip {
    Guard(Guard),
    /// One that its owner can take again.
    Mine(Guard, Mutex, Owner),
    Write(WriteGuard),
    Permit(Permit),
    Leads(Leadership),
}

impl Grip {
    /// The guard of all that are none of a semaphore.
    fn guard(&self) -> Result<&Guard, &Permit> {
        match self {
            Self::Guard(guard) | Self::Mine(guard, ..) => Ok(guard),
            Self::Write(guard) => Ok(guard),
            Self::Leads(leadership) => Ok(leadership),
            Self::Permit(permit) => Err(permit),
        }
    }

    pub(super) fn fence(&self) -> u64 {
        self.guard().map_or_else(|permit| permit.order().get(), |guard| guard.fence().get())
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        self.guard().map_or_else(Permit::remaining, Guard::remaining)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.guard().map_or_else(Permit::is_lost, Guard::is_lost)
    }

    pub(super) async fn lost(&self) -> Loss {
        match self.guard() {
            Ok(guard) => guard.lost().await,
            Err(permit) => permit.lost().await,
        }
    }

    /// Takes it once more and gives that back: the number that it had then, if it can be taken again and still is held.
    pub(super) async fn again(&self) -> Option<u64> {
        let Self::Mine(_, mutex, owner) = self else { return None };
        let inner = mutex.try_acquire_as(owner).await.ok()??;
        let fence = inner.fence().get();
        // The outer one stays; whether this one is dropped or given back makes no difference.
        if fastrand::bool() {
            inner.release().await.ok()?;
        }
        Some(fence)
    }

    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) | Self::Mine(guard, ..) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
            Self::Leads(leadership) => leadership.resign().await,
        }
    }
}
