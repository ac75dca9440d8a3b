mod attempt;
mod rule;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tenure_core::{
    Answered, Attempt, Claim, ClaimId, Clock, Engine, EngineId, Evicted, Eviction, Fact, Filter, Guarantees,
    Held, Incarnation, Key, Mode, Moment, Place, Released, Renewal, Result, Seat, Seq, Standing, Turn, When,
};
use tokio::{
    sync::{Notify, watch},
    task::yield_now,
};

use super::Lie;
use crate::model::{Model, Spot};

/// What the clients of one liar share.
pub(super) struct Store {
    lie: Option<Lie>,
    guarantees: Guarantees,
    clock: Arc<dyn Clock>,
    identity: EngineId,
    state: Mutex<State>,
    /// Changes whenever somebody may have come to hold.
    news: watch::Sender<u64>,
}

struct State {
    model: Model,
    /// Whom to tell of the loss of a claim's place.
    owners: HashMap<ClaimId, Arc<Losses>>,
    /// What only lies remember.
    granted: HashSet<ClaimId>,
    spoilt: HashSet<ClaimId>,
    used: HashMap<Key, Moment>,
}

#[derive(Debug, Default)]
struct Losses {
    untold: Mutex<Vec<(ClaimId, Seq)>>,
    news: Notify,
}

impl Store {
    pub(super) fn new(lie: Option<Lie>, guarantees: Guarantees, clock: Arc<dyn Clock>) -> Arc<Self> {
        let mut model = Model::new(guarantees.crash);
        if let Some(holds) = lie.and_then(rule::of) {
            model.holds = holds;
        }
        let state = State {
            model,
            owners: HashMap::new(),
            granted: HashSet::new(),
            spoilt: HashSet::new(),
            used: HashMap::new(),
        };
        Arc::new(Self {
            lie,
            guarantees,
            clock,
            identity: EngineId::fresh(),
            state: Mutex::new(state),
            news: watch::Sender::new(0),
        })
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("lie", &self.lie).finish_non_exhaustive()
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Liar {
    store: Arc<Store>,
    /// How far its own clock is ahead, which only a lie looks at.
    ahead: Duration,
    losses: Arc<Losses>,
}

impl Liar {
    pub(super) fn new(store: Arc<Store>, ahead: Duration) -> Self {
        Self { store, ahead, losses: Arc::default() }
    }

    fn lies(&self, lie: Lie) -> bool {
        self.store.lie == Some(lie)
    }

    fn now(&self) -> Moment {
        let now = self.store.clock.now();
        if self.lies(Lie::ClientClocks) { now + self.ahead } else { now }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.store.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, unless: Lie) {
        if !self.lies(unless) {
            self.store.news.send_modify(|changes| *changes += 1);
        }
    }

    fn key(&self, key: &Key) -> Key {
        let name = key.as_str();
        let heard = match self.store.lie {
            Some(Lie::KeyFoldsCase) => Key::new(name.to_lowercase()),
            Some(Lie::KeyTruncated) => Key::new(&name[..name.floor_char_boundary(512)]),
            Some(Lie::KeyEndsAtNul) => Key::new(name.split('\0').next().unwrap_or(name)),
            _ => return key.clone(),
        };
        heard.unwrap_or_else(|_| key.clone())
    }

    fn heard(&self, claim: &Claim) -> Claim {
        Claim { key: self.key(&claim.key), ..claim.clone() }
    }

    fn renew_one(&self, hold: Held<'_>) -> Renewal {
        let (now, mut state) = (self.now(), self.lock());
        let mut claim = self.heard(hold.claim);
        if self.lies(Lie::RenewIgnoresFloor) {
            claim.floor = Seq::ZERO;
        }
        let line = state.model.line_at(&claim.key, now);
        let place = line.find(claim.id).map(|at| line.spots[at].seq);
        let seq = if self.lies(Lie::RenewById) { place.unwrap_or(hold.seq) } else { hold.seq };
        let renewal = state.model.renew(Held { claim: &claim, seq }, now);
        let line = state.model.line_at(&claim.key, now);
        match line.find(claim.id) {
            Some(at) if self.lies(Lie::LeaseShortenedByRenew) => {
                line.spots[at].deadline = Some(now + claim.ttl.get());
            }
            None if self.lies(Lie::RenewRecreates) => line.spots.push(Spot {
                id: claim.id,
                seq,
                mode: claim.mode,
                note: claim.note.clone(),
                taken: now,
                deadline: Some(now + claim.ttl.get()),
                stopped: false,
            }),
            _ => {}
        }
        renewal
    }

    fn turn_now(&self, claim: &Claim) -> Option<Turn> {
        let (now, mut state) = (self.now(), self.lock());
        let holds = state.model.holds;
        let line = state.model.line_at(&claim.key, now);
        let Some(at) = line.find(claim.id) else { return Some(Turn::Again) };
        let told = match self.store.lie {
            Some(Lie::PushLies) => true,
            Some(Lie::TellsOnlyTheFirst) => at == 0 && holds(&line.modes(), at),
            _ => holds(&line.modes(), at),
        };
        told.then(|| Turn::Holds(Seat { seq: line.spots[at].seq, incarnation: Incarnation(0) }))
    }
}

#[async_trait]
impl Engine for Liar {
    fn guarantees(&self) -> Guarantees {
        self.store.guarantees.clone()
    }

    fn identity(&self) -> EngineId {
        self.store.identity
    }

    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.attempt_lying(&self.heard(claim)).await
    }

    async fn turn(&self, claim: &Claim) -> Turn {
        let claim = self.heard(claim);
        let mut news = self.store.news.subscribe();
        let mut looks = !self.lies(Lie::TellsOnlyListeners);
        loop {
            if let Some(turn) = self.turn_now(&claim).filter(|_| looks) {
                return turn;
            }
            looks = true;
            if news.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let mut answers: Vec<_> = holds.iter().map(|hold| self.renew_one(*hold)).collect();
        if self.lies(Lie::RenewOutOfOrder) {
            answers.rotate_left(1.min(holds.len()));
        }
        Ok(answers)
    }

    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        let (now, claim) = (self.now(), self.heard(hold.claim));
        let mut state = self.lock();
        let renewal = state.model.downgrade(Held { claim: &claim, seq: hold.seq }, now);
        let line = state.model.line_at(&claim.key, now);
        if let Some(at) = line.find(claim.id) {
            if self.lies(Lie::DowngradeTakesNewNumber) {
                line.last = line.last.next(Seq::ZERO, 0).unwrap_or(line.last);
                line.spots[at].seq = line.last;
            }
            if self.lies(Lie::DowngradeChangesNothing) {
                line.spots[at].mode = Mode::Exclusive;
            }
        }
        drop(state);
        self.tell(Lie::DowngradeTellsNobody);
        Ok(renewal)
    }

    async fn release(&self, claim: &Claim, _: Answered) -> Result<Released> {
        let claim = self.heard(claim);
        if self.lies(Lie::HalfRelease) {
            if !self.lock().spoilt.insert(claim.id) {
                return Ok(Released::NotHeld);
            }
            yield_now().await;
        }
        if self.lies(Lie::AskThenDelete) {
            let mine = self.lock().model.line_at(&claim.key, self.now()).find(claim.id).is_some();
            yield_now().await;
            let now = self.now();
            let mut state = self.lock();
            let line = state.model.line_at(&claim.key, now);
            if !mine || line.spots.is_empty() {
                return Ok(Released::NotHeld);
            }
            line.spots.remove(0);
            return Ok(Released::Freed);
        }
        let (now, mut state) = (self.now(), self.lock());
        state.owners.remove(&claim.id);
        let mut released = state.model.release(&claim, now);
        let spots = &mut state.model.line_at(&claim.key, now).spots;
        match (self.store.lie, released) {
            (Some(Lie::DeletesWithoutAsking), Released::NotHeld) if !spots.is_empty() => {
                spots.remove(0);
                released = Released::Freed;
            }
            (Some(Lie::ReleasesAnotherToo), Released::Freed) if !spots.is_empty() => drop(spots.remove(0)),
            (Some(Lie::ForgetsTheLine), _) => spots.clear(),
            (Some(Lie::LastComeFirstServed), _) => spots.reverse(),
            (Some(Lie::AlwaysFreed), _) => released = Released::Freed,
            _ => {}
        }
        state.used.insert(claim.key.clone(), now);
        drop(state);
        self.tell(Lie::TellsNobody);
        Ok(released)
    }

    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        loop {
            let untold =
                std::mem::take(&mut *self.losses.untold.lock().unwrap_or_else(PoisonError::into_inner));
            if !untold.is_empty() {
                return untold;
            }
            self.losses.news.notified().await;
        }
    }

    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        let now = if self.lies(Lie::LineShowsExpired) { Moment::new(Duration::ZERO) } else { self.now() };
        let filter = match filter {
            Filter::Key(key) => Filter::Key(self.key(key)),
            Filter::Prefix(prefix, _) if self.lies(Lie::LimitIgnored) => Filter::Prefix(prefix.clone(), 1000),
            Filter::Prefix(prefix, limit) if self.lies(Lie::PrefixIsAPattern) => {
                let plain = prefix.split(['*', '%', '_', '?']).next().unwrap_or(prefix);
                Filter::Prefix(plain.to_owned(), *limit)
            }
            filter @ Filter::Prefix(..) => filter.clone(),
        };
        let mut places = self.lock().model.show(&filter, now);
        if self.lies(Lie::LineShowsAllAsHolders) {
            places.iter_mut().for_each(|place| place.standing = Standing::Holds);
        }
        Ok(places)
    }

    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        let now = self.now();
        let mut eviction = Eviction { key: self.key(&eviction.key), ..eviction.clone() };
        let mut state = self.lock();
        if let Some(front) = state.model.line_at(&eviction.key, now).spots.first()
            && self.lies(Lie::EvictsTheWrongHold)
        {
            (eviction.id, eviction.seq) = (front.id, front.seq);
        }
        let gently = eviction.when == When::Gently;
        if self.lies(Lie::GentlyFreesAtOnce) {
            eviction.when = When::Now;
        }
        let mut evicted = state.model.evict(&eviction, now);
        if gently && self.lies(Lie::GentlyFreesAtOnce) && evicted == Evicted::Freed {
            evicted = Evicted::Stopped;
        }
        if evicted != Evicted::Gone
            && let Some(owner) = state.owners.get(&eviction.id)
        {
            let wrong = u64::from(self.lies(Lie::LossUnderAnotherNumber));
            let seq = Seq::new(eviction.seq.get() + wrong).unwrap_or(eviction.seq);
            owner.untold.lock().unwrap_or_else(PoisonError::into_inner).push((eviction.id, seq));
            owner.news.notify_one();
        }
        drop(state);
        self.tell(Lie::TellsNobody);
        Ok(evicted)
    }

    async fn examine(&self) -> Result<Vec<Fact>> {
        Ok(Vec::new())
    }
}
