use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineId, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Place, Released, Renewal, Result, Seq, Turn,
};

/// An engine whose pushes never arrive: neither a turn nor a loss is ever told.
#[derive(Debug)]
pub struct Silent(Arc<dyn Engine>);

impl Silent {
    /// Silences an engine.
    #[must_use]
    pub fn over(inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Self(inner))
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Silent {
    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    fn identity(&self) -> EngineId {
        self.0.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.0.attempt(claim).await
    }

    async fn turn(&self, _claim: &Claim) -> Turn {
        pending().await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.0.renew(holds).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.0.downgrade(hold).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.0.release(claim, answered).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        pending().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.0.line(filter).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.0.evict(eviction).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        self.0.examine().await
    }
}
