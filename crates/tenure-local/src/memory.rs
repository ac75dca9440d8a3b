//! The reference engine: every line in a map, under a mutex.

mod line;
mod losses;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, BootClock, Claim, ClaimId, Clock, Crash, EngineId, Error, ErrorKind, Evicted,
    Eviction, Fact, Failover, Fences, Filter, Floors, Grade, Grant, Guarantees, Held, Incarnation, Key, Mode,
    Modes, Op, Order, Patience, Place, Reach, Released, Renewal, Result, Seat, Seq, Turn, Wake, When,
};

use self::{line::Line, losses::Losses};
use crate::wall::wall_micros;

/// Locks between tasks and threads of one process, with leases by the given clock.
///
/// Each `Memory` is one client of a store; [`Memory::another`] opens a second one on the same store. The store
/// lives as long as its clients.
pub struct Memory {
    store: Arc<Store>,
    losses: Arc<Losses>,
}

struct Store {
    clock: Arc<dyn Clock>,
    identity: EngineId,
    /// The largest number drawn so far, for all keys. It starts at the wall clock, so that the numbers of a
    /// restarted process are above those of the one before.
    last: AtomicU64,
    lines: Mutex<HashMap<Key, Line>>,
}

impl Memory {
    /// Opens a store of its own, with leases by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let store = Store {
            clock,
            identity: EngineId::fresh(),
            last: AtomicU64::new(wall_micros().min(Seq::MAX.get() / 2)),
            lines: Mutex::default(),
        };
        Arc::new(Self { store: Arc::new(store), losses: Arc::default() })
    }

    /// Opens the process's store of this name, by the machine's clock.
    #[must_use]
    pub fn named(name: &str) -> Arc<Self> {
        static STORES: LazyLock<Mutex<HashMap<String, Weak<Store>>>> = LazyLock::new(Mutex::default);
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return Arc::new(Self { store, losses: Arc::default() });
        }
        let first = Self::new(Arc::new(BootClock));
        stores.insert(name.to_owned(), Arc::downgrade(&first.store));
        first
    }

    /// Opens another client of the same store.
    #[must_use]
    pub fn another(&self) -> Arc<Self> {
        Arc::new(Self { store: self.store.clone(), losses: Arc::default() })
    }

    /// What every memory engine promises.
    #[must_use]
    pub fn guarantees() -> Guarantees {
        Guarantees {
            engine: "memory",
            grade: Grade::Fenced,
            reach: Reach::Process,
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
}

impl Store {
    const INCARNATION: Incarnation = Incarnation(0);

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, Line>> {
        // A panic under this lock would be a bug of this file; what it guards is changed in single steps.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the next number. One counter serves all keys, so a forgotten key never leads back.
    fn draw(&self, floor: Seq) -> Option<Seq> {
        let next = |last| Seq::new(last).and_then(|last| last.next(floor, 0)).map(Seq::get);
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        next(last).and_then(Seq::new)
    }

    /// Lifts the numbers of all keys above this one.
    fn raise(&self, floor: Seq) {
        self.last.fetch_max(floor.get(), Ordering::Relaxed);
    }

    const fn seat(seq: Seq) -> Seat {
        Seat { seq, incarnation: Self::INCARNATION }
    }
}

#[async_trait]
impl tenure_core::Engine for Memory {
    fn guarantees(&self) -> Guarantees {
        Self::guarantees()
    }

    fn identity(&self) -> EngineId {
        self.store.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let mut lines = self.store.lines();
        // Under the lock: a reading taken before it could be older than a place that was granted since.
        let now = self.store.clock.now();
        let line = match lines.entry(claim.key.clone()) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(_) if self.losses.evicted(claim.id) => return Err(evicted(claim)),
            Entry::Vacant(vacant) => vacant.insert(Line::default()),
        };
        line.purge(now);
        let at = match line.find(claim.id) {
            // Its lease is not prolonged any more, so another grant would outlive the place.
            Some(at) if line.place(at).evicted => return Err(evicted(claim)),
            Some(at) => {
                line.prolong(at, now + claim.ttl.get());
                at
            }
            None if self.losses.evicted(claim.id) => return Err(evicted(claim)),
            None if claim.patience == Patience::Try && !line.would_hold(claim.mode) => {
                return Ok(Attempt::Busy(line.busy(line.len(), claim.mode, None, now)));
            }
            None => {
                let Some(seq) = self.store.draw(claim.floor) else {
                    return Err(Error::new(
                        ErrorKind::Broken,
                        Op::Attempt,
                        "the numbers of this engine are used up",
                    )
                    .with_key(&claim.key)
                    .not_applied());
                };
                line.append(claim, seq, now, self.losses.clone())
            }
        };
        let place = line.place(at);
        if line.holds(at) {
            let seat = Store::seat(place.seq);
            Ok(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None }))
        } else {
            Ok(Attempt::Busy(line.busy(at, place.mode, Some((Store::seat(place.seq), claim.ttl)), now)))
        }
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        let news = {
            let mut lines = self.store.lines();
            let Some(line) = lines.get_mut(&claim.key) else { return Turn::Again };
            line.purge(self.store.clock.now());
            let Some(at) = line.find(claim.id) else { return Turn::Again };
            if line.holds(at) {
                return Turn::Holds(Store::seat(line.place(at).seq));
            }
            line.listen(at)
        };
        match news.await {
            Ok(seq) => Turn::Holds(Store::seat(seq)),
            Err(_) => Turn::Again,
        }
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let mut lines = self.store.lines();
        let now = self.store.clock.now();
        let renew = |hold: &Held<'_>| {
            self.store.raise(hold.claim.floor);
            let Some(line) = lines.get_mut(&hold.claim.key) else { return Renewal::Lost };
            line.purge(now);
            match line.find(hold.claim.id) {
                Some(at) if line.place(at).seq == hold.seq && !line.place(at).evicted => {
                    line.prolong(at, now + hold.claim.ttl.get());
                    Renewal::Renewed(Some(hold.claim.ttl.get()))
                }
                _ => Renewal::Lost,
            }
        };
        Ok(holds.iter().map(renew).collect())
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        let mut lines = self.store.lines();
        let now = self.store.clock.now();
        let Some(line) = lines.get_mut(&hold.claim.key) else { return Ok(Renewal::Lost) };
        line.purge(now);
        match line.find(hold.claim.id) {
            Some(at) if line.place(at).seq == hold.seq && !line.place(at).evicted => {
                match line.place(at).mode {
                    Mode::Exclusive | Mode::Shared => {
                        line.weaken(at);
                        line.prolong(at, now + hold.claim.ttl.get());
                        Ok(Renewal::Renewed(Some(hold.claim.ttl.get())))
                    }
                    Mode::Permits(_) => {
                        Err(Error::invalid("permits have no weaker mode to downgrade to")
                            .in_op(Op::Downgrade))
                    }
                }
            }
            _ => Ok(Renewal::Lost),
        }
    }

    async fn release(&self, claim: &Claim, _: Answered) -> Result<Released> {
        let mut lines = self.store.lines();
        self.losses.forget(claim.id);
        let Some(line) = lines.get_mut(&claim.key) else { return Ok(Released::NotHeld) };
        line.purge(self.store.clock.now());
        let released = match line.find(claim.id) {
            Some(at) => {
                line.remove(at);
                Released::Freed
            }
            None => Released::NotHeld,
        };
        if line.len() == 0 {
            lines.remove(&claim.key);
        }
        Ok(released)
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.losses.next().await
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        let now = self.store.clock.now();
        let mut places = Vec::new();
        let mut show = |key: &Key, line: &mut Line| {
            line.purge(now);
            places.extend(line.show(key, now));
        };
        let mut lines = self.store.lines();
        match filter {
            Filter::Key(key) => {
                if let Some(line) = lines.get_mut(key) {
                    show(key, line);
                }
            }
            Filter::Prefix(..) => {
                lines.retain(|key, line| {
                    if filter.shows(key) {
                        show(key, line);
                    }
                    line.len() > 0 // a key whose last claim lapsed is forgotten here
                });
                places.sort_by(|a, b| (&a.key, a.seq).cmp(&(&b.key, b.seq)));
            }
        }
        places.truncate(filter.limit());
        Ok(places)
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        let mut lines = self.store.lines();
        let Some(line) = lines.get_mut(&eviction.key) else { return Ok(Evicted::Gone) };
        line.purge(self.store.clock.now());
        let Some(at) = line.find(eviction.id).filter(|&at| line.place(at).seq == eviction.seq) else {
            return Ok(Evicted::Gone);
        };
        line.place(at).owner.tell(eviction.id, eviction.seq);
        // A waiter believes in nothing, so there is nothing to wait for.
        if eviction.when == When::Gently && line.holds(at) {
            line.evict(at);
            return Ok(Evicted::Stopped);
        }
        line.remove(at);
        if line.len() == 0 {
            lines.remove(&eviction.key);
        }
        Ok(Evicted::Freed)
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        Ok(vec![Fact::warning("reach", "two processes do not see each other on this engine")])
    }
}

fn evicted(claim: &Claim) -> Error {
    Error::new(ErrorKind::Lost, Op::Attempt, "an operator evicted this claim from the line")
        .with_key(&claim.key)
        .not_applied()
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("identity", &self.store.identity).finish_non_exhaustive()
    }
}
