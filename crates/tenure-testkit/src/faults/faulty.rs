use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Engine, EngineId, Error, Evicted, Eviction, Fact, Filter, Guarantees,
    Held, Op, Place, Released, Renewal, Result, Seq, Turn,
};

use super::{Fault, Faults, Verb};

/// An engine whose requests and replies are lost, late, doubled or held back by a script.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Engine>,
    faults: Faults,
}

impl Faulty {
    /// Puts a script before an engine. An empty script changes nothing and counts the calls.
    #[must_use]
    pub fn over(inner: Arc<dyn Engine>) -> (Arc<dyn Engine>, Faults) {
        let faults = Faults::default();
        (Arc::new(Self { inner, faults: faults.clone() }), faults)
    }

    async fn disturb<T, F: Future<Output = Result<T>>>(
        &self,
        verb: Verb,
        op: Op,
        call: impl Fn() -> F,
    ) -> Result<T> {
        let (mut lost, mut twice) = (false, false);
        for fault in self.faults.call(verb) {
            match fault {
                Fault::DropRequest => return Err(Error::unavailable(op, "the request was lost on purpose")),
                Fault::DropReply => lost = true,
                Fault::Delay(time) => tokio::time::sleep(time).await,
                Fault::Duplicate => twice = true,
                Fault::Hold(gate) => gate.pass().await,
            }
        }
        let mut reply = call().await;
        if twice {
            reply = call().await;
        }
        if lost { Err(Error::unavailable(op, "the reply was lost on purpose")) } else { reply }
    }

    /// For the verbs that only ever tell something: silence is how they fail.
    async fn listen<T, F: Future<Output = T>>(&self, verb: Verb, call: impl Fn() -> F) -> T {
        for fault in self.faults.call(verb) {
            match fault {
                Fault::DropRequest | Fault::DropReply => pending().await,
                Fault::Delay(time) => tokio::time::sleep(time).await,
                Fault::Duplicate => drop(call().await),
                Fault::Hold(gate) => gate.pass().await,
            }
        }
        call().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Faulty {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn identity(&self) -> EngineId {
        self.inner.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.disturb(Verb::Attempt, Op::Attempt, || self.inner.attempt(claim)).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.listen(Verb::Turn, || self.inner.turn(claim)).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.disturb(Verb::Renew, Op::Renew, || self.inner.renew(holds)).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.disturb(Verb::Downgrade, Op::Downgrade, || self.inner.downgrade(hold)).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.disturb(Verb::Release, Op::Release, || self.inner.release(claim, answered)).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.listen(Verb::Lost, || self.inner.lost()).await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.disturb(Verb::Line, Op::Line, || self.inner.line(filter)).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.disturb(Verb::Evict, Op::Evict, || self.inner.evict(eviction)).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        self.disturb(Verb::Examine, Op::Examine, || self.inner.examine()).await
    }
}
