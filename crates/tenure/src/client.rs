use std::{
    collections::HashMap,
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tenure_core::{
    Claim, ClaimId, Clock, Crash, Engine, EngineId, Error, ErrorKind, Evicted, Eviction, Fact, Filter,
    Guarantees, Key, Mode, Moment, Note, Op, Patience, Place, Result, Seq, Ttl,
};
use tokio::runtime::Handle;

use crate::{
    Election, Mutex, RwLock, Semaphore, Settings,
    cleaner::Cleaner,
    lane::Lane,
    observe::Observer,
    sync,
    tasks::Tasks,
    watchdog::{Watchdog, WatchdogTask},
};

/// A client of one engine: makes locks, keeps them alive, looks at lines.
///
/// Cloning is cheap and gives the same client: one connection, one watchdog, one cleaner. It works for as long
/// as a clone or a guard of it lives.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

/// What all locks of a client share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) guarantees: Guarantees,
    pub(crate) settings: Settings,
    pub(crate) ttl: Ttl,
    pub(crate) note: Note,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) cleaner: Arc<Cleaner>,
    pub(crate) tasks: Tasks,
    pub(crate) lanes: sync::Mutex<HashMap<(Key, Ttl), Weak<Lane>>>,
    closed: AtomicBool,
    _watchdog: WatchdogTask,
}

impl Client {
    /// Makes a client of an engine that is open. Most people [`connect`](crate::connect) by URL.
    ///
    /// Background work (renewals, releases of dropped guards) runs on the runtime this is called in.
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other or the engine, or if there is no runtime.
    pub fn new(engine: Arc<dyn Engine>, settings: Settings) -> Result<Self> {
        settings.check()?;
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid("no tokio runtime is running here; threads use `tenure::blocking::connect`")
        })?;
        let tasks = Tasks { runtime, around: settings.around.clone() };
        let guarantees = engine.guarantees();
        let ttl = check_ttl(&guarantees, Ttl::new(settings.ttl)?)?;
        let observer = Arc::new(Observer::new(guarantees.engine));
        let cleaner = Arc::new(Cleaner::start(engine.clone(), &guarantees, observer.clone(), &tasks));
        let ends = (guarantees.crash != Crash::Lease).then(|| cleaner.clone());
        let watchdog =
            Arc::new(Watchdog::new(engine.clone(), settings.clock.clone(), observer.clone(), ends));
        let shared = Shared {
            cleaner,
            _watchdog: watchdog.start(&tasks),
            note: settings.note(),
            clock: settings.clock.clone(),
            lanes: sync::Mutex::default(),
            closed: AtomicBool::new(false),
            engine,
            guarantees,
            settings,
            ttl,
            observer,
            watchdog,
            tasks,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What the engine promises in its present topology.
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        &self.shared.guarantees
    }

    /// Which engine this is, by an identity kept in the engine itself.
    #[must_use]
    pub fn identity(&self) -> EngineId {
        self.shared.engine.identity()
    }

    /// A lock that one task of one process holds at a time.
    ///
    /// # Errors
    /// `Invalid` if the key is empty or too long.
    pub fn mutex(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<Mutex> {
        Ok(Mutex::new(self.clone(), parse(key)?))
    }

    /// A lock that many readers or one writer hold at a time.
    ///
    /// # Errors
    /// `Invalid` if the key is wrong; `Unsupported` if the engine has no shared mode.
    pub fn rwlock(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<RwLock> {
        self.supports(Mode::Shared)?;
        Ok(RwLock::new(self.clone(), parse(key)?))
    }

    /// A lock with so many permits in all. Everybody must name the same number.
    ///
    /// # Errors
    /// `Invalid` if the key is wrong or there are no permits; `Unsupported` if the engine has none.
    pub fn semaphore(&self, key: impl TryInto<Key, Error: Into<Error>>, permits: u32) -> Result<Semaphore> {
        let one = tenure_core::Permits::new(1, permits)?;
        self.supports(Mode::Permits(one))?;
        Ok(Semaphore::new(self.clone(), parse(key)?, permits))
    }

    /// An election that one candidate wins at a time.
    ///
    /// # Errors
    /// `Invalid` if the key is empty or too long.
    pub fn election(&self, key: impl TryInto<Key, Error: Into<Error>>) -> Result<Election> {
        Ok(Election::new(self.clone(), parse(key)?))
    }

    /// The holders and waiters, in order, for people. Where tasks of a process share a place, it is shown once.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not answer.
    pub async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        let shared = &self.shared;
        match limited(shared.ttl.renew_every(), shared.engine.line(filter)).await {
            Some(line) => line,
            None => Err(no_answer(Op::Line, shared.ttl).with_engine(shared.guarantees.engine)),
        }
    }

    /// Breaks exactly the hold that an operator looked at.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not answer.
    pub async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        let shared = &self.shared;
        match limited(shared.ttl.renew_every(), shared.engine.evict(eviction)).await {
            Some(evicted) => evicted,
            None => Err(no_answer(Op::Evict, shared.ttl)
                .with_key(&eviction.key)
                .with_engine(shared.guarantees.engine)),
        }
    }

    /// Looks at the engine itself: what an operator should know about it, and what makes its locks weaker than they
    /// could be.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not answer.
    pub async fn examine(&self) -> Result<Vec<Fact>> {
        let shared = &self.shared;
        match limited(shared.ttl.renew_every(), shared.engine.examine()).await {
            Some(facts) => facts,
            None => Err(no_answer(Op::Examine, shared.ttl).with_engine(shared.guarantees.engine)),
        }
    }

    /// Refuses new acquisitions and waits until the releases of dropped guards and cancelled waits have reached the
    /// engine.
    ///
    /// Call it before a program ends, so that nobody waits for a lease of a guard that was just dropped. Guards
    /// that are still held stay held.
    pub async fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        let lanes: Vec<_> = sync::lock(&self.shared.lanes).values().filter_map(Weak::upgrade).collect();
        for lane in lanes {
            lane.settles().await;
        }
        self.shared.cleaner.flush().await;
    }

    fn supports(&self, mode: Mode) -> Result<()> {
        self.shared.supports(mode)
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Everything that can be refused before any I/O.
    pub(crate) fn check(&self, mode: Mode) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, Op::Acquire, "the client was closed").not_applied());
        }
        self.supports(mode)
    }

    fn supports(&self, mode: Mode) -> Result<()> {
        if self.guarantees.modes.allow(mode) {
            return Ok(());
        }
        let engine = self.guarantees.engine;
        Err(Error::unsupported(
            Op::Acquire,
            format!("{mode} locks are more than {engine} can grant; it has {}", self.guarantees.modes),
        )
        .with_engine(engine))
    }

    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<Ttl> {
        check_ttl(&self.guarantees, Ttl::new(ttl)?)
    }

    pub(crate) fn claim(&self, key: &Key, mode: Mode, patience: Patience, ttl: Ttl, note: &Note) -> Claim {
        Claim {
            key: key.clone(),
            id: ClaimId::fresh(),
            mode,
            patience,
            ttl,
            floor: Seq::ZERO,
            note: note.clone(),
        }
    }
}

fn check_ttl(guarantees: &Guarantees, ttl: Ttl) -> Result<Ttl> {
    if ttl.get() >= guarantees.min_ttl {
        return Ok(ttl);
    }
    let (engine, min) = (guarantees.engine, guarantees.min_ttl);
    Err(Error::invalid(format!(
        "the ttl is {ttl:?}, but {engine} keeps none under {min:?} exactly; ask for {min:?} or more"
    )))
}

/// Waits for an answer at most this long; `None` if there was none. An answer that is there at once costs no timer.
pub(crate) async fn limited<F: Future + Unpin>(limit: Duration, mut verb: F) -> Option<F::Output> {
    let mut timer = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(answer) = Pin::new(&mut verb).poll(cx) {
            return Poll::Ready(Some(answer));
        }
        if timer.is_none() {
            timer.set(Some(tokio::time::sleep(limit)));
        }
        match timer.as_mut().as_pin_mut() {
            Some(timer) => timer.poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

/// The engine was asked and said nothing in the time a verb may take.
pub(crate) fn no_answer(op: Op, ttl: Ttl) -> Error {
    Error::unavailable(op, format!("no answer within {:?}", ttl.renew_every()))
}

fn parse(key: impl TryInto<Key, Error: Into<Error>>) -> Result<Key> {
    key.try_into().map_err(Into::into)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("engine", &self.shared.engine).finish_non_exhaustive()
    }
}
