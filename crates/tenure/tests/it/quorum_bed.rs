//! What the tests of the quorum stand on: stores on virtual time, and clients whose members follow scripts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    Claim, ClaimId, Client, Clock, Engine, Evicted, Eviction, Fact, Filter, Guarantees, Key, Mode, Moment,
    Note, Place, Quorum, QuorumSettings, Released, Result, Seq, Settings, Ttl,
};
use tenure_core::{Answered, Attempt, EngineId, Grant, Held, Patience, Renewal, Turn};
use tenure_local::Memory;
use tenure_testkit::{
    TokioClock,
    faults::{Faults, Faulty, Yielding},
};

use crate::bed::secs;

/// Independent stores that quorums are made of.
pub(crate) struct Servers {
    pub(crate) stores: Vec<Arc<Memory>>,
    pub(crate) clock: Arc<TokioClock>,
}

impl Servers {
    pub(crate) fn new(count: usize) -> Self {
        let clock = Arc::new(TokioClock::start());
        Self { stores: (0..count).map(|_| Memory::new(clock.clone())).collect(), clock }
    }

    pub(crate) fn settings(&self) -> QuorumSettings {
        let mut settings = QuorumSettings::default();
        settings.clock = self.clock.clone();
        settings
    }

    /// A quorum over a client of each store, dressed by `dress`.
    pub(crate) fn dressed(
        &self,
        mut dress: impl FnMut(usize, Arc<dyn Engine>) -> Arc<dyn Engine>,
    ) -> Arc<Quorum> {
        let members = self.stores.iter().enumerate().zip('a'..);
        let members = members
            .map(|((i, store), name)| (name.to_string(), dress(i, store.another() as Arc<dyn Engine>)));
        Quorum::new(members.collect(), self.settings()).unwrap()
    }

    pub(crate) fn quorum(&self) -> Arc<Quorum> {
        self.dressed(|_, engine| engine)
    }

    /// A quorum whose members follow scripts.
    pub(crate) fn faulty(&self) -> (Arc<Quorum>, Vec<Faults>) {
        let mut scripts = Vec::new();
        let quorum = self.dressed(|_, engine| {
            let (engine, faults) = Faulty::over(engine);
            scripts.push(faults);
            engine
        });
        (quorum, scripts)
    }

    /// A quorum whose members wait before and after every verb.
    pub(crate) fn yielding(&self) -> Arc<Quorum> {
        self.dressed(|_, engine| Yielding::over(engine))
    }

    pub(crate) fn client(&self, quorum: Arc<Quorum>) -> Client {
        let mut settings = Settings::default();
        settings.clock = self.clock.clone();
        Client::new(quorum, settings).unwrap()
    }

    pub(crate) async fn line(&self, store: usize) -> Vec<Place> {
        self.stores[store].line(&Filter::Key(key())).await.unwrap()
    }

    /// How many places each store has in the line of the key.
    pub(crate) async fn places(&self) -> Vec<usize> {
        let mut places = Vec::new();
        for store in 0..self.stores.len() {
            places.push(self.line(store).await.len());
        }
        places
    }

    /// Lets background tasks run until the stores have so many places, without letting time pass.
    pub(crate) async fn come_to(&self, places: &[usize]) {
        for _ in 0..10_000 {
            if self.places().await == places {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("places {places:?} expected, not {:?}", self.places().await);
    }

    /// Takes the key at these stores alone, as a ghost or a rival would.
    pub(crate) async fn occupy(&self, stores: &[usize]) -> Claim {
        let claim = claim(Mode::Exclusive);
        for &store in stores {
            granted(self.stores[store].attempt(&claim).await);
        }
        claim
    }

    /// Ends a claim's place at one store, as a clock that is set ahead does.
    pub(crate) async fn end(&self, store: usize, claim: &Claim) {
        let _ = self.stores[store].release(claim, Answered::All).await.unwrap();
    }

    pub(crate) async fn vacate(&self, claim: &Claim) {
        for store in 0..self.stores.len() {
            self.end(store, claim).await;
        }
    }
}

pub(crate) fn key() -> Key {
    Key::new("k").unwrap()
}

/// A claim whose members have a second each.
pub(crate) fn claim(mode: Mode) -> Claim {
    Claim {
        key: key(),
        id: ClaimId::fresh(),
        mode,
        patience: Patience::Queue,
        ttl: Ttl::new(secs(8)).unwrap(),
        floor: Seq::ZERO,
        note: Note::new("tester", ""),
    }
}

pub(crate) fn exclusive() -> Claim {
    claim(Mode::Exclusive)
}

#[track_caller]
pub(crate) fn granted(answer: Result<Attempt>) -> Grant {
    match answer.unwrap() {
        Attempt::Granted(grant) => grant,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

#[track_caller]
pub(crate) fn busy(answer: Result<Attempt>) {
    match answer.unwrap() {
        Attempt::Granted(grant) => panic!("granted: {grant:?}"),
        Attempt::Busy(busy) => assert_eq!(busy.seat, None),
    }
}

pub(crate) async fn renew(quorum: &Quorum, claim: &Claim, seq: Seq) -> Result<Renewal> {
    quorum.renew(&[Held { claim, seq }]).await.map(|answers| answers[0])
}

pub(crate) async fn let_go(quorum: &Quorum, claim: &Claim) {
    assert_eq!(quorum.release(claim, Answered::All).await.unwrap(), Released::Freed);
}

/// How much virtual time something takes.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = tokio::time::Instant::now();
    let output = work.await;
    (output, start.elapsed())
}

/// A clock that can leap, as after a suspend.
#[derive(Debug)]
pub(crate) struct Leaping {
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) ahead: Mutex<Duration>,
}

impl Clock for Leaping {
    fn now(&self) -> Moment {
        self.clock.now() + *self.ahead.lock().unwrap()
    }
}

/// An engine that says other things about itself than it should.
#[derive(Debug)]
pub(crate) struct Disguise {
    pub(crate) inner: Arc<dyn Engine>,
    pub(crate) guarantees: Guarantees,
    pub(crate) remembers: Mutex<Option<Duration>>,
    /// How long the answer to an attempt takes.
    pub(crate) reply: Duration,
}

impl Disguise {
    pub(crate) fn over(inner: Arc<dyn Engine>, change: impl FnOnce(&mut Guarantees)) -> Arc<Self> {
        let mut guarantees = inner.guarantees();
        change(&mut guarantees);
        Arc::new(Self { inner, guarantees, remembers: Mutex::default(), reply: Duration::ZERO })
    }

    /// An engine whose answers to attempts take so long.
    pub(crate) fn slow(inner: Arc<dyn Engine>, reply: Duration) -> Arc<dyn Engine> {
        let guarantees = inner.guarantees();
        Arc::new(Self { inner, guarantees, remembers: Mutex::default(), reply })
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for Disguise {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.inner.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let mut answer = self.inner.attempt(claim).await?;
        if !self.reply.is_zero() {
            tokio::time::sleep(self.reply).await;
        }
        if let Attempt::Granted(grant) = &mut answer {
            grant.remembers = *self.remembers.lock().unwrap();
        }
        Ok(answer)
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        self.inner.turn(claim).await
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        self.inner.renew(holds).await
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.inner.downgrade(hold).await
    }

    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.inner.release(claim, answered).await
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.inner.lost().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.inner.line(filter).await
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.inner.evict(eviction).await
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        self.inner.examine().await
    }
}
