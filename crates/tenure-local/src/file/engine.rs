//! The verbs as the rest of the world calls them.

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, EngineId, Error, Evicted, Eviction, Fact, Filter, Guarantees, Held,
    Place, Released, Renewal, Result, Seq, Turn,
};

use super::{ENGINE, FileEngine, book::News, guarantees_on_disk, verbs::Limit};

#[async_trait]
impl tenure_core::Engine for FileEngine {
    fn guarantees(&self) -> Guarantees {
        Guarantees { fences: self.dir.fences, ..guarantees_on_disk() }
    }

    fn identity(&self) -> EngineId {
        self.control.engine()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.attempt_(claim).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        loop {
            match self.book.news(claim.id) {
                News::Again => return Turn::Again,
                News::Holds(seq) => return Turn::Holds(self.seat(seq)),
                News::Wait(news) => news.notified().await,
            }
        }
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let renew = async {
            let Some(evictions) = self.control.evictions()? else {
                // Whoever comes now starts anew in a new directory and knows nothing of these places.
                return Ok(vec![Renewal::Lost; holds.len()]);
            };
            let mut renewals = Vec::with_capacity(holds.len());
            let ttl = holds.iter().map(|hold| hold.claim.ttl).min().unwrap_or_default();
            let limit = Limit::of(ttl);
            for hold in holds {
                let there = match self.book.knows(hold, evictions) {
                    Some(there) => there,
                    None => {
                        let there = self
                            .look(hold, limit)
                            .await
                            .map_err(|err: Error| err.with_key(&hold.claim.key))?;
                        if there {
                            self.book.looked(hold, evictions);
                        }
                        there
                    }
                };
                renewals.push(if there { Renewal::Renewed(None) } else { Renewal::Lost });
            }
            Ok(renewals)
        };
        renew.await.map_err(|err: Error| err.with_engine(ENGINE))
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.downgrade_(hold).await.map_err(|err| err.with_key(&hold.claim.key).with_engine(ENGINE))
    }

    async fn release(&self, claim: &Claim, _: Answered) -> Result<Released> {
        self.release_(claim).await.map_err(|err| err.with_key(&claim.key).with_engine(ENGINE))
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.book.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.places(filter).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.evict_(eviction).await.map_err(|err| err.with_key(&eviction.key).with_engine(ENGINE))
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        Ok(self.facts())
    }
}
