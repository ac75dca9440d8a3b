//! One task that goes for locks, and writes down what it is told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tenure::{Client, Owner, WriteGuard};
use tenure_core::{ErrorKind, Result};

use super::{
    grip::Grip,
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

impl Worker {
    pub(super) async fn run(self) {
        let ttl = self.world.plan.ttl;
        for _ in 0..self.world.plan.clients[self.number].rounds {
            nap(fastrand::u64(0..ttl)).await;
            let (keys, kind) = (self.world.plan.keys, self.world.plan.kind);
            if keys > 1 && kind == LockKind::Mutex && fastrand::u8(0..3) == 0 {
                self.round_of_all().await;
                continue;
            }
            let (key, op) = (fastrand::u32(0..keys), self.world.fresh_op());
            self.round(op, key).await;
        }
        self.world.finished(self.number);
    }

    pub(super) fn id(&self) -> WorkerId {
        worker_id(self.number, self.task)
    }

    pub(super) fn log(&self, op: OpId, key: KeyId, what: What) {
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
        // It counts by its own clock, and everybody else by the common one.
        self.log(op, key, What::Asked { mode, patience: self.common(patience) });
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
                let way = fastrand::u8(0..8);
                Ok(match (way, tries) {
                    (0, true) => self.client.election(name)?.try_campaign("sim").await?.map(Grip::Leads),
                    (0, false) => {
                        Some(Grip::Leads(self.client.election(name)?.campaign_within("sim", wait).await?))
                    }
                    (1, _) => {
                        let owner = Owner::new();
                        let guard = if tries {
                            mutex.try_acquire_as(&owner).await?
                        } else {
                            Some(mutex.acquire_within_as(&owner, wait).await?)
                        };
                        guard.map(|guard| Grip::Mine(guard, mutex, owner))
                    }
                    (_, true) => mutex.try_acquire().await?.map(Grip::Guard),
                    (_, false) => Some(Grip::Guard(mutex.acquire_within(wait).await?)),
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
        let grip = match grip {
            Grip::Write(guard) if kept && fastrand::u8(0..3) == 0 => return self.downgrade(key, guard).await,
            grip => grip,
        };
        self.give_back(op, key, grip).await;
    }

    /// Goes on as a reader at the same place. What it does then is an acquisition of its own to the checks, and one without a
    /// number: the writer had it.
    async fn downgrade(&self, key: KeyId, guard: WriteGuard) {
        let (op, mode, patience) = (self.world.fresh_op(), Wanted::Shared, self.common(self.world.plan.ttl));
        self.log(op, key, What::Asked { mode, patience });
        match guard.downgrade().await {
            Ok(guard) => {
                let grip = Grip::Guard(guard);
                self.log(op, key, What::Granted { fence: None, until: self.until(&grip) });
                self.world.granted(self.number);
                let kept = self.work(op, key, &grip).await;
                self.world.left(self.number);
                if kept {
                    self.log(op, key, What::Left);
                }
                self.give_back(op, key, grip).await;
            }
            Err(err) => {
                let maybe = err.may_have_applied();
                self.log(op, key, What::Failed { maybe, why: format!("{:?}", err.kind()) });
            }
        }
    }

    async fn give_back(&self, op: OpId, key: KeyId, grip: Grip) {
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
    pub(super) fn begin(
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
        if let Some(fence) = grip.again().await {
            self.log(op, key, What::Reentered { fence: Some(fence) });
        }
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
        self.deadline(grip.remaining())
    }

    pub(super) fn deadline(&self, remaining: Option<Duration>) -> Option<Nanos> {
        let left = u64::try_from(remaining?.as_nanos()).unwrap_or(u64::MAX);
        Some(self.world.now() + self.common(left))
    }

    /// How long a time by its own clock is by the clock that all share.
    pub(super) fn common(&self, own: Nanos) -> Nanos {
        (own as f64 / (1.0 + self.drift as f64 / 1e6)) as Nanos
    }
}

pub(super) async fn nap(time: Nanos) {
    tokio::time::sleep(Duration::from_nanos(time)).await;
}
