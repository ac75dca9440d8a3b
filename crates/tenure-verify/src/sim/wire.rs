//! What a client has instead of a connection: its requests travel on their own, whether or not anybody waits for them.

use std::{
    collections::HashMap,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Crash, Engine, EngineId, Error, Evicted, Eviction, Fact,
    Failover, Fences, Filter, Floors, Grade, Guarantees, Held, Modes, Op, Order, Place, Reach, Released,
    Renewal, Result, Seq, Turn, Wake,
};
use tokio::sync::oneshot;

use super::{Mutant, server::Server, weather::Way, world::World};
use crate::history::Nanos;

/// One client's way to one server.
#[derive(Debug)]
pub(super) struct Wire {
    world: Arc<World>,
    client: usize,
    server: usize,
    /// What each claim was told last, which only mutants look at.
    told: Mutex<HashMap<ClaimId, Busy>>,
    /// Which claims were ever granted, which only mutants look at.
    granted: Mutex<HashMap<ClaimId, bool>>,
}

impl Wire {
    pub(super) fn new(world: &Arc<World>, client: usize, server: usize) -> Arc<Self> {
        let (told, granted) = (Mutex::default(), Mutex::default());
        Arc::new(Self { world: Arc::clone(world), client, server, told, granted })
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.world.is(mutant)
    }

    async fn call<T: Send + 'static>(
        &self,
        op: Op,
        work: impl Fn(&mut Server, Nanos) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let (world, client, server) = (Arc::clone(&self.world), self.client, self.server);
        let (arrives, fate) = world.send(Way::Request, client, server);
        let work = Arc::new(work);
        if let Some(later) = fate.again {
            let (world, work) = (Arc::clone(&world), Arc::clone(&work));
            tokio::spawn(async move {
                world.until(arrives + later).await;
                let _ = world.serve(server, |server, now| work(server, now));
            });
        }
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            world.until(arrives).await;
            let answer = if fate.lost {
                lost(op)
            } else {
                let answer = world.serve(server, |server, now| work(server, now));
                let (arrives, fate) = world.send(Way::Reply, client, server);
                world.until(arrives).await;
                if fate.lost { lost(op) } else { Some(answer) }
            };
            if let Some(answer) = answer {
                let _ = tell.send(answer);
            } else {
                // Nobody ever answers, and nobody says so.
                tell.closed_for_good().await;
            }
        });
        match told.await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }
}

/// A lost message is noticed as a broken connection, or not at all.
fn lost<T>(op: Op) -> Option<Result<T>> {
    fastrand::bool().then(|| Err(Error::unavailable(op, "the connection broke")))
}

/// Keeps a channel open until the other end has gone.
trait ClosedForGood {
    async fn closed_for_good(self);
}

impl<T> ClosedForGood for oneshot::Sender<T> {
    async fn closed_for_good(mut self) {
        self.closed().await;
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the simulated server promises.
pub(super) fn guarantees() -> Guarantees {
    Guarantees {
        engine: "simulated",
        grade: Grade::Fenced,
        reach: Reach::Network,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Lease,
        wake: Wake::Push,
        fences: Fences::ClockBound,
        floors: Floors::Kept,
        failover: Failover::None,
        min_ttl: tenure_core::Ttl::MIN,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Wire {
    fn guarantees(&self) -> Guarantees {
        guarantees()
    }

    fn identity(&self) -> EngineId {
        let mut bytes = [0; 16];
        bytes[15] = u8::try_from(self.server).unwrap_or(0);
        EngineId::from_bytes(bytes)
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let before = lock(&self.told).get(&claim.id).copied();
        if self.is(Mutant::WakeUpOnly)
            && let Some(busy) = before
        {
            return Ok(Attempt::Busy(busy));
        }
        let (client, asked, sent) = (self.client, claim.clone(), self.world.now());
        let careless = self.is(Mutant::NoWriteBack);
        let mut answer = self
            .call(Op::Attempt, move |server, now| {
                let mut claim = asked.clone();
                if careless {
                    claim.floor = Seq::ZERO;
                }
                server.attempt(&claim, client, now)
            })
            .await?;
        match &mut answer {
            Attempt::Granted(grant) => {
                lock(&self.granted).insert(claim.id, true);
                if self.is(Mutant::DeadlineFromReply) {
                    let trip = Duration::from_nanos(self.world.now() - sent);
                    grant.ttl = grant.ttl.map(|ttl| ttl + trip);
                }
            }
            Attempt::Busy(busy) => {
                if self.is(Mutant::PushCountsAnew) {
                    busy.ttl = busy.ttl.map(|ttl| 3 * ttl);
                }
                lock(&self.told).insert(claim.id, *busy);
            }
        }
        Ok(answer)
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        let inbox = &self.world.inboxes[self.client];
        let told = lock(&self.told).get(&claim.id).copied().unwrap_or_default();
        if self.is(Mutant::NoRecheck) {
            // Whoever was before it must be gone by now.
            tokio::time::sleep(told.lapses_in.unwrap_or_default().min(claim.ttl.renew_every() / 2)).await;
            return told.seat.map_or(Turn::Again, Turn::Holds);
        }
        loop {
            let mut came = pin!(inbox.came.notified());
            came.as_mut().enable();
            if let Some(seat) = inbox.take(self.server, claim.id) {
                let careless = self.is(Mutant::PushWithoutNumber);
                return Turn::Holds(told.seat.filter(|_| careless).unwrap_or(seat));
            }
            if self.is(Mutant::WakeUpOnly) {
                // Being told is all that makes it ask again.
                came.await;
                lock(&self.told).remove(&claim.id);
                continue;
            }
            came.await;
        }
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let holds: Vec<(Claim, Seq)> = holds.iter().map(|hold| (hold.claim.clone(), hold.seq)).collect();
        let sent = self.world.now();
        let mut answers = self
            .call(Op::Renew, move |server, now| {
                Ok(holds.iter().map(|(claim, seq)| server.renew(claim, *seq, now)).collect::<Vec<_>>())
            })
            .await?;
        if self.is(Mutant::DeadlineFromReply) {
            let trip = Duration::from_nanos(self.world.now() - sent);
            for answer in &mut answers {
                if let Renewal::Renewed(Some(ttl)) = answer {
                    *ttl += trip;
                }
            }
        }
        Ok(answers)
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        let (claim, seq) = (hold.claim.clone(), hold.seq);
        self.call(Op::Downgrade, move |server, now| Ok(server.downgrade(&claim, seq, now))).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        if self.is(Mutant::TimedOutNotCleaned) && !lock(&self.granted).contains_key(&claim.id) {
            return Ok(Released::NotHeld);
        }
        let claim = claim.clone();
        self.call(Op::Release, move |server, now| Ok(server.release(&claim, answered, now))).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        pending().await
    }

    async fn line(&self, _filter: &Filter) -> Result<Vec<Place>> {
        Ok(Vec::new())
    }

    async fn evict(&self, _eviction: &Eviction) -> Result<Evicted> {
        Ok(Evicted::Gone)
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        Ok(Vec::new())
    }
}
