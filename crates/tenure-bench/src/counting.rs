use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineId, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Place, Released, Renewal, Result, Seq, Turn,
};

/// An engine that counts what is asked of it.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn Engine>,
    counter: Counter,
}

/// The counts of a [`Counting`] engine, which go on while it is used.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Tally>);

#[derive(Debug, Default)]
struct Tally {
    attempts: AtomicU64,
    turns: AtomicU64,
    renewals: AtomicU64,
    renewed: AtomicU64,
    releases: AtomicU64,
    others: AtomicU64,
}

/// How often each verb was asked up to some moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verbs {
    /// Attempts to take a place, or to see whether it holds.
    pub attempts: u64,
    /// Waits for a turn. Most engines send nothing for one.
    pub turns: u64,
    /// Calls to renew, however many holds each had.
    pub renewals: u64,
    /// The holds of all those calls.
    pub renewed: u64,
    /// Releases.
    pub releases: u64,
    /// Everything else: lines that were read, evictions, downgrades.
    pub others: u64,
}

impl Verbs {
    /// The verbs that ask the engine for something. Waiting is not one.
    #[must_use]
    pub const fn asked(self) -> u64 {
        self.attempts + self.renewals + self.releases + self.others
    }

    /// What came since an earlier moment.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            attempts: self.attempts - earlier.attempts,
            turns: self.turns - earlier.turns,
            renewals: self.renewals - earlier.renewals,
            renewed: self.renewed - earlier.renewed,
            releases: self.releases - earlier.releases,
            others: self.others - earlier.others,
        }
    }
}

impl Counter {
    /// The counts up to now.
    #[must_use]
    pub fn verbs(&self) -> Verbs {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Verbs {
            attempts: read(&self.0.attempts),
            turns: read(&self.0.turns),
            renewals: read(&self.0.renewals),
            renewed: read(&self.0.renewed),
            releases: read(&self.0.releases),
            others: read(&self.0.others),
        }
    }
}

impl Counting {
    /// Counts the verbs of an engine.
    #[must_use]
    pub fn over(inner: Arc<dyn Engine>) -> (Arc<dyn Engine>, Counter) {
        let counter = Counter::default();
        (Arc::new(Self { inner, counter: counter.clone() }), counter)
    }

    fn count(&self, which: impl FnOnce(&Tally) -> &AtomicU64) {
        which(&self.counter.0).fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Counting {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn identity(&self) -> EngineId {
        self.inner.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.count(|tally| &tally.attempts);
        self.inner.attempt(claim).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.count(|tally| &tally.turns);
        self.inner.turn(claim).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.count(|tally| &tally.renewals);
        self.counter.0.renewed.fetch_add(holds.len() as u64, Ordering::Relaxed);
        self.inner.renew(holds).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.count(|tally| &tally.others);
        self.inner.downgrade(hold).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.count(|tally| &tally.releases);
        self.inner.release(claim, answered).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.inner.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.count(|tally| &tally.others);
        self.inner.line(filter).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.count(|tally| &tally.others);
        self.inner.evict(eviction).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        self.count(|tally| &tally.others);
        self.inner.examine().await
    }
}
