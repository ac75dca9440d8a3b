//! A lock as a worker uses it: the one of `tenure`, or a wrong one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure::{Client, Error, ErrorKind, Guard, Owner, Permit, Settings};
use tenure_core::{BootClock, Clock, Moment};

use crate::{
    clock::{nanos, now},
    history::{Freed, KeyId, Nanos, OpId, Wanted, WorkerId},
    wire::{KeySpec, Proof},
};

/// What a worker wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Who asks, in which acquisition, for which lock.
    pub(crate) who: (WorkerId, OpId, KeyId),
    pub(crate) mode: Wanted,
    /// How long it waits; none if it only tries.
    pub(crate) patience: Option<Duration>,
    /// Whether it goes in a second time.
    pub(crate) again: bool,
}

/// Why a worker does not know whether it got the lock, or knows that it did not.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) maybe: bool,
    pub(crate) why: String,
}

impl Unanswered {
    pub(crate) fn maybe(why: impl ToString) -> Self {
        Self { maybe: true, why: why.to_string() }
    }
}

/// Locks of some kind, by key.
#[async_trait]
pub(crate) trait Locks: Send + Sync {
    /// Asks for a lock; none if it is somebody else's for longer than the wish wants to wait.
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered>;

    /// Lets go of everything.
    async fn close(&self);
}

/// A lock that is held.
#[async_trait]
pub(crate) trait Held: Send + Sync {
    /// What it shows to a resource.
    fn proof(&self) -> Option<Proof>;

    /// The number of this grant, where there is one.
    fn fence(&self) -> Option<u64> {
        self.proof().map(|proof| proof.fence)
    }

    /// Asks the engine to keep it for longer, where its owner does that by hand.
    async fn refresh(&self) {}

    /// Looks whether it is still held, and until when it may be believed.
    fn look(&self) -> Look;

    /// Goes in once more; none if this kind of lock has no such thing.
    async fn again(&self) -> Option<Result<u64, Unanswered>> {
        None
    }

    /// Gives it back.
    async fn release(self: Box<Self>) -> Freed;
}

/// What a look at a held lock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is held until then, or for as long as this process lives.
    Until(Option<Nanos>),
    /// It is lost.
    Lost,
}

/// The clock of a machine that can be told to have slept.
#[derive(Clone, Debug, Default)]
pub(crate) struct SleepyClock(Arc<AtomicU64>);

impl SleepyClock {
    pub(crate) fn sleep(&self, nanos: Nanos) {
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for SleepyClock {
    fn now(&self) -> Moment {
        BootClock.now() + Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

/// The locks of `tenure`.
#[derive(Debug)]
pub(crate) struct Tenure {
    client: Client,
    ttl: Duration,
}

impl Tenure {
    pub(crate) async fn connect(
        url: &str,
        ttl: Duration,
        clock: Option<SleepyClock>,
    ) -> tenure::Result<Self> {
        let client = match clock {
            None => tenure::connect(url).await?,
            Some(clock) => {
                let mut settings = Settings::default();
                (settings.ttl, settings.clock) = (ttl, Arc::new(clock));
                Client::new(tenure_testkit::servers::open(url).await?, settings)?
            }
        };
        Ok(Self { client, ttl })
    }
}

#[async_trait]
impl Locks for Tenure {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        match self.acquire(key, wish).await {
            Ok(held) => Ok(held),
            Err(err) if err.kind() == ErrorKind::Timeout => Ok(None),
            Err(err) => Err(unanswered(&err)),
        }
    }

    async fn close(&self) {
        self.client.close().await;
    }
}

impl Tenure {
    async fn acquire(&self, key: &KeySpec, wish: &Wish) -> tenure::Result<Option<Box<dyn Held>>> {
        let name = key.name.as_str();
        match wish.mode {
            Wanted::Exclusive => {
                let mutex = self.client.mutex(name)?.ttl(self.ttl);
                let owner = Owner::new();
                let guard = match (wish.patience, wish.again) {
                    (None, false) => mutex.try_acquire().await?,
                    (None, true) => mutex.try_acquire_as(&owner).await?,
                    (Some(wait), false) => Some(mutex.acquire_within(wait).await?),
                    (Some(wait), true) => Some(mutex.acquire_within_as(&owner, wait).await?),
                };
                let again = wish.again.then_some((mutex, owner));
                Ok(guard.map(|guard| Box::new(Mine { guard, again, shared: false }) as Box<dyn Held>))
            }
            Wanted::Shared => {
                let lock = self.client.rwlock(name)?.ttl(self.ttl);
                let guard = match wish.patience {
                    None => lock.try_read().await?,
                    Some(wait) => Some(lock.read_within(wait).await?),
                };
                Ok(guard.map(|guard| Box::new(Mine { guard, again: None, shared: true }) as Box<dyn Held>))
            }
            Wanted::Permits { take, of } => {
                let semaphore = self.client.semaphore(name, of)?.ttl(self.ttl);
                let permit = match wish.patience {
                    None => semaphore.try_acquire_many(take).await?,
                    Some(wait) => Some(semaphore.acquire_many_within(take, wait).await?),
                };
                Ok(permit.map(|permit| Box::new(Permitted(permit)) as Box<dyn Held>))
            }
        }
    }
}

fn unanswered(err: &Error) -> Unanswered {
    Unanswered { maybe: err.may_have_applied(), why: err.to_string() }
}

fn freed(released: tenure::Result<()>) -> Freed {
    match released {
        Ok(()) => Freed::Yes,
        Err(err) if err.kind() == ErrorKind::Lost => Freed::NotHeld,
        Err(_) => Freed::Unknown,
    }
}

fn look(is_held: impl FnOnce() -> bool, remaining: impl FnOnce() -> Option<Duration>) -> Look {
    // The clock is read before the lock is asked: whoever is stopped between the two must not seem to believe for longer
    // than it does, or what it is blamed for would be the verifier's own fault.
    let before = now();
    if !is_held() {
        return Look::Lost;
    }
    Look::Until(remaining().map(|left| before + nanos(left)))
}

#[derive(Debug)]
struct Mine {
    guard: Guard,
    again: Option<(tenure::Mutex, Owner)>,
    shared: bool,
}

#[async_trait]
impl Held for Mine {
    fn proof(&self) -> Option<Proof> {
        let (fence, claim) = (self.guard.fence().get(), self.guard.claim_id().to_string());
        Some(Proof { fence, claim, shared: self.shared })
    }

    fn look(&self) -> Look {
        look(|| self.guard.check().is_ok(), || self.guard.remaining())
    }

    async fn again(&self) -> Option<Result<u64, Unanswered>> {
        let (mutex, owner) = self.again.as_ref()?;
        Some(match mutex.try_acquire_as(owner).await {
            Ok(Some(guard)) => {
                let fence = guard.fence().get();
                guard.release().await.map(|()| fence).map_err(|err| unanswered(&err))
            }
            Ok(None) => Err(Unanswered { maybe: false, why: "its own lock was shut to it".into() }),
            Err(err) => Err(unanswered(&err)),
        })
    }

    async fn release(self: Box<Self>) -> Freed {
        freed(self.guard.release().await)
    }
}

#[derive(Debug)]
struct Permitted(Permit);

#[async_trait]
impl Held for Permitted {
    /// Several hold at once, so that no resource can tell who was overtaken.
    fn proof(&self) -> Option<Proof> {
        None
    }

    fn fence(&self) -> Option<u64> {
        Some(self.0.order().get())
    }

    fn look(&self) -> Look {
        look(|| !self.0.is_lost(), || self.0.remaining())
    }

    async fn release(self: Box<Self>) -> Freed {
        freed(self.0.release().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_stopped_while_it_looks_believes_no_longer_for_that() {
        let stop = nanos(Duration::from_millis(30));
        let begin = now();
        let stand_still = |until| while now() < until {};
        let left = Duration::from_secs(1);
        let looked = look(
            || {
                stand_still(begin + stop);
                true
            },
            || {
                stand_still(begin + 2 * stop);
                Some(left)
            },
        );
        let Look::Until(Some(until)) = looked else { panic!("{looked:?}") };
        assert!((begin + nanos(left)..begin + nanos(left) + stop).contains(&until));
    }
}
