use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

/// A verb of an engine that can be disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `attempt`
    Attempt,
    /// `turn`
    Turn,
    /// `renew`
    Renew,
    /// `downgrade`
    Downgrade,
    /// `release`
    Release,
    /// `lost`
    Lost,
    /// `line`
    Line,
    /// `evict`
    Evict,
    /// `examine`
    Examine,
}

/// Which calls of a verb, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// Only this one.
    Call(usize),
    /// This one and all after it.
    From(usize),
}

impl Nth {
    /// All of them.
    pub const EVERY: Self = Self::From(1);

    const fn is(self, call: usize) -> bool {
        match self {
            Self::Call(nth) => call == nth,
            Self::From(nth) => call >= nth,
        }
    }
}

/// What goes wrong with a call. `turn` and `lost` cannot fail: for them a lost request or reply is silence.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request is lost: no effect, and `Unavailable` which may have applied.
    DropRequest,
    /// The reply is lost: the effect, and `Unavailable` which may have applied.
    DropReply,
    /// The request takes this long to arrive.
    Delay(Duration),
    /// The request arrives twice; the second reply is given.
    Duplicate,
    /// The request is held back until the gate opens.
    Hold(Gate),
}

/// The script of a [`Faulty`](super::Faulty) engine, shared between it and the test. It decides by the count of
/// calls alone, so the same test sees the same faults.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    calls: HashMap<Verb, usize>,
    faults: Vec<(Verb, Nth, Fault)>,
}

impl Faults {
    /// Disturbs these calls of a verb. What was added first happens first.
    pub fn on(&self, verb: Verb, nth: Nth, fault: Fault) {
        self.lock().faults.push((verb, nth, fault));
    }

    /// Holds back one call of a verb until the returned gate is opened.
    #[must_use]
    pub fn hold(&self, verb: Verb, nth: Nth) -> Gate {
        let gate = Gate::default();
        self.on(verb, nth, Fault::Hold(gate.clone()));
        gate
    }

    /// Ends all disturbance.
    pub fn calm(&self) {
        self.lock().faults.clear();
    }

    /// How many calls of a verb were made so far.
    #[must_use]
    pub fn count(&self, verb: Verb) -> usize {
        self.lock().calls.get(&verb).copied().unwrap_or(0)
    }

    /// Counts a call and says what goes wrong with it.
    pub(super) fn call(&self, verb: Verb) -> Vec<Fault> {
        let mut script = self.lock();
        let calls = script.calls.entry(verb).or_default();
        *calls += 1;
        let call = *calls;
        let hits = script.faults.iter().filter(|(v, nth, _)| *v == verb && nth.is(call));
        hits.map(|(_, _, fault)| fault.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds calls back until it is opened. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<(usize, bool)>>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new((0, false))))
    }
}

impl Gate {
    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.0.send_modify(|(_, open)| *open = true);
    }

    /// Resolves once so many calls have come to the gate.
    pub async fn reached_by(&self, calls: usize) {
        // The sender lives as long as this borrow of it.
        let _ = self.0.subscribe().wait_for(|(came, _)| *came >= calls).await;
    }

    pub(super) async fn pass(&self) {
        let mut state = self.0.subscribe();
        self.0.send_modify(|(came, _)| *came += 1);
        let _ = state.wait_for(|(_, open)| *open).await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (came, open) = *self.0.borrow();
        f.debug_struct("Gate").field("came", &came).field("open", &open).finish()
    }
}
