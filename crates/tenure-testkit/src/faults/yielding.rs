use std::sync::Arc;

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineId, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Place, Released, Renewal, Result, Seq, Turn,
};
use tokio::task::yield_now;

/// An engine that waits once before and once after every verb, so that a caller can be dropped with the request
/// unsent and with the reply unread.
#[derive(Debug)]
pub struct Yielding(Arc<dyn Engine>);

impl Yielding {
    /// Makes an engine wait.
    #[must_use]
    pub fn over(inner: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Self(inner))
    }
}

async fn around<T>(verb: impl Future<Output = T>) -> T {
    yield_now().await;
    let reply = verb.await;
    yield_now().await;
    reply
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Yielding {
    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    fn identity(&self) -> EngineId {
        self.0.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        around(self.0.attempt(claim)).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        around(self.0.turn(claim)).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        around(self.0.renew(holds)).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        around(self.0.downgrade(hold)).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        around(self.0.release(claim, answered)).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        around(self.0.lost()).await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        around(self.0.line(filter)).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        around(self.0.evict(eviction)).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        around(self.0.examine()).await
    }
}
