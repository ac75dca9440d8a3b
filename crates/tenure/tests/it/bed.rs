//! What most tests stand on: a store, a clock that can be pushed, clients with faults.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    Claim, ClaimId, Client, Clock, Engine, Evicted, Eviction, Fact, Filter, Guarantees, Key, Moment, Place,
    Reach, Released, Result, Seq, Settings,
};
use tenure_core::{Answered, Attempt, EngineId, Held, Renewal, Turn};
use tenure_local::Memory;
use tenure_testkit::{TokioClock, faults::Faults, faults::Faulty};

/// A memory store on virtual time.
pub(crate) struct Bed {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<TokioClock>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::start());
        Self { memory: Memory::new(clock.clone()), clock }
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.clock = self.clock.clone();
        settings
    }

    /// A client of its own, as another process would have.
    pub(crate) fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    pub(crate) fn client_with(&self, change: impl FnOnce(&mut Settings)) -> Client {
        let mut settings = self.settings();
        change(&mut settings);
        Client::new(self.memory.another(), settings).unwrap()
    }

    /// A client whose engine follows a script.
    pub(crate) fn faulty(&self) -> (Client, Faults) {
        let (engine, faults) = Faulty::over(self.memory.another());
        (Client::new(engine, self.settings()).unwrap(), faults)
    }

    /// The same, by a clock that can jump.
    pub(crate) fn jumpy(&self) -> (Client, Faults, Arc<Jumpy>) {
        let clock = Jumpy::over(self.clock.clone());
        let mut settings = self.settings();
        settings.clock = clock.clone();
        let (engine, faults) = Faulty::over(self.memory.another());
        (Client::new(engine, settings).unwrap(), faults, clock)
    }

    pub(crate) async fn line(&self, key: &str) -> Vec<Place> {
        self.memory.line(&Filter::Key(Key::new(key).unwrap())).await.unwrap()
    }

    /// Lets background tasks run until nothing is left in the line, without letting time pass.
    pub(crate) async fn empties(&self, key: &str) {
        for _ in 0..10_000 {
            if self.line(key).await.is_empty() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("still in the line of {key}: {:?}", self.line(key).await);
    }

    /// Lets background tasks run until so many stand in the line, without letting time pass.
    pub(crate) async fn grows_to(&self, key: &str, places: usize) {
        for _ in 0..10_000 {
            if self.line(key).await.len() == places {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{places} places expected in the line of {key}: {:?}", self.line(key).await);
    }
}

/// Lets other tasks run for a while without letting time pass.
pub(crate) async fn others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A clock that can jump, as after a suspend, while timers stand still.
#[derive(Debug)]
pub(crate) struct Jumpy {
    clock: Arc<dyn Clock>,
    ahead_millis: AtomicU64,
    looks: AtomicU64,
}

impl Jumpy {
    fn over(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, ahead_millis: AtomicU64::new(0), looks: AtomicU64::new(0) })
    }

    /// How often it was looked at.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    pub(crate) fn jump(&self, by: Duration) {
        self.ahead_millis.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for Jumpy {
    fn now(&self) -> Moment {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.clock.now() + Duration::from_millis(self.ahead_millis.load(Ordering::Relaxed))
    }
}

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn push(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An engine that is reached over a network: each verb is begun when it is first asked, and takes a while. Writes down which
/// of attempt and release was begun when.
#[derive(Debug)]
pub(crate) struct Far {
    inner: Arc<dyn Engine>,
    begun: Log<&'static str>,
}

impl Far {
    pub(crate) fn over(inner: Arc<dyn Engine>) -> (Arc<dyn Engine>, Log<&'static str>) {
        let begun = Log::default();
        (Arc::new(Self { inner, begun: begun.clone() }), begun)
    }

    async fn trip() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[async_trait]
impl Engine for Far {
    fn guarantees(&self) -> Guarantees {
        Guarantees { reach: Reach::Network, ..self.inner.guarantees() }
    }

    fn identity(&self) -> EngineId {
        self.inner.identity()
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.begun.push("attempt");
        Self::trip().await;
        self.inner.attempt(claim).await
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
        self.begun.push("release");
        Self::trip().await;
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
