//! One task that goes for locks, and writes down what it is told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tenure::{Client, Guard, Loss, Permit, WriteGuard};
use tenure_core::{ErrorKind, Result};

use super::{
    plan::{LockKind, MS},
    world::{World, worker_id},
};
use crate::history::{Freed, KeyId, Nanos, OpId, Register, Wanted, What, WorkerId};

pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) client: Client,
    pub(super) number: usize,
    pub(super) task: u32,
    pub(super) drift: i64,
}

/// What was granted.
enum Grip {
    Guard(Guard),
    Write(WriteGuard),
    Permit(Permit),
}

impl Grip {
    fn fence(&self) -> u64 {
        match self {
            Self::Guard(guard) => guard.fence().get(),
            Self::Write(guard) => guard.fence().get(),
            Self::Permit(permit) => permit.order().get(),
        }
    }

    fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Guard(guard) => guard.remaining(),
            Self::Write(guard) => guard.remaining(),
            Self::Permit(permit) => permit.remaining(),
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_lost(),
            Self::Write(guard) => guard.is_lost(),
            Self::Permit(permit) => permit.is_lost(),
        }
    }

    async fn lost(&self) -> Loss {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Write(guard) => guard.lost().await,
            Self::Permit(permit) => permit.lost().await,
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

impl Worker {
    pub(super) async fn run(self) {
        let ttl = self.world.plan.ttl;
        for _ in 0..self.world.plan.clients[self.number].rounds {
            nap(fastrand::u64(0..ttl)).await;
            let key = fastrand::u32(0..self.world.plan.keys);
            let op = self.world.fresh_op();
            self.round(op, key).await;
        }
        self.world.finished(self.number);
    }

    fn id(&self) -> WorkerId {
        worker_id(self.number, self.task)
    }

    fn log(&self, op: OpId, key: KeyId, what: What) {
        self.world.log(self.id(), op, key, what);
    }

    async fn round(&self, op: OpId, key: KeyId) {
        let ttl = self.world.plan.ttl;
        let mode = match self.world.plan.kind {
            LockKind::Mutex => Wanted::Exclusive,
            LockKind::ReadersWriter if fastrand::u8(0..3) > 0 => Wanted::Shared,
            LockKind::ReadersWriter => Wanted::Exclusive,
            LockKind::Permits(of) => Wanted::Permits { take: fastrand::u32(1..of), of },
        };
        let tries = fastrand::u8(0..6) == 0;
        // Not waiting for others still means waiting for the engine.
        let patience = if tries { ttl } else { fastrand::u64(ttl / 4..8 * ttl) };
        let impatient = (fastrand::u8(0..12) == 0).then(|| fastrand::u64(0..2 * ttl));
        self.log(op, key, What::Asked { mode, patience });
        let ask = self.ask(key, mode, tries, patience);
        let asked = match impatient {
            None => ask.await,
            Some(limit) => match tokio::time::timeout(Duration::from_nanos(limit), ask).await {
                Ok(asked) => asked,
                // The future was dropped: that leaves nothing behind.
                Err(_) => Ok(None),
            },
        };
        match asked {
            Ok(Some(grip)) => self.hold(op, key, mode, grip).await,
            Ok(None) => self.log(op, key, What::NotGranted),
            Err(err) if err.kind() == ErrorKind::Timeout && !err.may_have_applied() => {
                self.log(op, key, What::NotGranted);
            }
            Err(err) => {
                let maybe = err.may_have_applied();
                self.log(op, key, What::Failed { maybe, why: format!("{:?}", err.kind()) });
            }
        }
    }

    async fn ask(&self, key: KeyId, mode: Wanted, tries: bool, patience: Nanos) -> Result<Option<Grip>> {
        let name = self.world.key(key);
        let wait = Duration::from_nanos(patience);
        match (self.world.plan.kind, mode) {
            (LockKind::Mutex, _) => {
                let mutex = self.client.mutex(name)?;
                let mutex = if fastrand::u8(0..4) == 0 { mutex.fair() } else { mutex };
                Ok(if tries {
                    mutex.try_acquire().await?.map(Grip::Guard)
                } else {
                    Some(Grip::Guard(mutex.acquire_within(wait).await?))
                })
            }
            (LockKind::ReadersWriter, Wanted::Shared) => {
                let lock = self.client.rwlock(name)?;
                Ok(if tries {
                    lock.try_read().await?.map(Grip::Guard)
                } else {
                    Some(Grip::Guard(lock.read_within(wait).await?))
                })
            }
            (LockKind::ReadersWriter, _) => {
                let lock = self.client.rwlock(name)?;
                Ok(if tries {
                    lock.try_write().await?.map(Grip::Write)
                } else {
                    Some(Grip::Write(lock.write_within(wait).await?))
                })
            }
            (LockKind::Permits(of), mode) => {
                let semaphore = self.client.semaphore(name, of)?;
                let take = if let Wanted::Permits { take, .. } = mode { take } else { 1 };
                Ok(if tries {
                    semaphore.try_acquire_many(take).await?.map(Grip::Permit)
                } else {
                    Some(Grip::Permit(semaphore.acquire_many_within(take, wait).await?))
                })
            }
        }
    }

    async fn hold(&self, op: OpId, key: KeyId, mode: Wanted, grip: Grip) {
        let fence = grip.fence();
        self.log(op, key, What::Granted { fence: Some(fence), until: self.until(&grip) });
        self.world.granted(self.number);
        let seen = self.begin(op, key, mode, fence);
        let kept = self.work(op, key, &grip).await;
        if kept && let Some((fenced, plain)) = seen {
            let who = (self.id(), op, key);
            let mut late = 0;
            if fastrand::u8(0..8) == 0 {
                // It looked, and what it sends is held up on the way.
                late = fastrand::u64(0..2 * self.world.plan.ttl);
            }
            let world = Arc::clone(&self.world);
            let write = move || {
                world.write(who, Register::Fenced, Some(fence), &fenced);
                world.write(who, Register::Plain, None, &plain);
            };
            if late == 0 {
                write();
            } else {
                tokio::spawn(async move {
                    nap(late).await;
                    write();
                });
            }
        }
        self.world.left(self.number);
        if kept {
            self.log(op, key, What::Left);
        }
        if fastrand::u8(0..4) == 0 {
            drop(grip);
            return;
        }
        self.log(op, key, What::ReleaseAsked);
        let freed = match grip.release().await {
            Ok(()) => Freed::Yes,
            Err(err) if err.kind() == ErrorKind::Lost => Freed::NotHeld,
            Err(_) => Freed::Unknown,
        };
        self.log(op, key, What::Released { freed });
    }

    /// Claims its fence before it reads anything.
    fn begin(
        &self,
        op: OpId,
        key: KeyId,
        mode: Wanted,
        fence: u64,
    ) -> Option<(BTreeSet<OpId>, BTreeSet<OpId>)> {
        if mode != Wanted::Exclusive || !self.world.claim(self.id(), op, key, fence) {
            return None;
        }
        let read = |register, fence| self.world.read(self.id(), op, key, register, fence);
        Some((read(Register::Fenced, Some(fence)), read(Register::Plain, None)))
    }

    /// Works for a while and looks at its guard now and then. False if the lock was lost meanwhile.
    async fn work(&self, op: OpId, key: KeyId, grip: &Grip) -> bool {
        let ttl = self.world.plan.ttl;
        let long = fastrand::u64(0..if fastrand::u8(0..3) == 0 { 2 * ttl } else { ttl / 4 });
        let until = self.world.now() + long;
        loop {
            let now = self.world.now();
            if now >= until {
                break;
            }
            let step = Duration::from_nanos((until - now).min(ttl / 8 + fastrand::u64(0..MS)));
            let lost = tokio::time::timeout(step, grip.lost()).await.is_ok();
            if lost || grip.is_lost() {
                self.log(op, key, What::Lost);
                return false;
            }
            self.log(op, key, What::Believes { until: self.until(grip) });
        }
        // The last look, right before the effect.
        if grip.is_lost() {
            self.log(op, key, What::Lost);
            return false;
        }
        true
    }

    /// Its deadline by the clock that all share.
    fn until(&self, grip: &Grip) -> Option<Nanos> {
        let left = u64::try_from(grip.remaining()?.as_nanos()).unwrap_or(u64::MAX);
        let rate = 1.0 + self.drift as f64 / 1e6;
        Some(self.world.now() + (left as f64 / rate) as u64)
    }
}

async fn nap(time: Nanos) {
    tokio::time::sleep(Duration::from_nanos(time)).await;
}
