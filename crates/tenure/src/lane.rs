//! The lane: many tasks of one process, one place in the engine's line.
//!
//! A release hands the lock to the next task of the process without a round trip, a bounded number of times and
//! for a bounded time; then the place is given up and a new one taken at the end of the line, so that other
//! processes wait a bounded time too (lock cohorting, Dice et al. 2012, carried to distributed locks). The lane's
//! own task asks the engine: a waiter that is cancelled takes nobody else's claim with it.

mod queue;

use std::{
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenure_core::{Error, ErrorKind, Fence, Key, Mode, Moment, Note, Op, Patience, Result, Ttl};
use tokio::sync::Notify;

pub(crate) use self::queue::{Baton, Then};
use self::queue::{Entry, Queue, Relay};
use crate::{
    acquire::Asking,
    client::Shared,
    hold::Hold,
    sync::{self, lock},
    watchdog::Upkeep,
};

/// The waiters of one client on one key with one ttl.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    key: Key,
    ttl: Ttl,
    /// Of whoever opened the lane: a place in the engine's line stands for the process.
    note: Note,
    queue: Queue<Self>,
    deserted: Notify,
    /// How many tasks ask on its behalf: one, and for a moment another that has nobody left to ask for.
    drivers: AtomicUsize,
    /// One of them ended, or found somebody to ask for after all.
    drove: Notify,
}

/// One task's turn on a place.
pub(crate) struct Stint {
    pub(crate) hold: Arc<Hold>,
    turn: u16,
    /// When the process got the place.
    began: Moment,
    /// When this turn began.
    pub(crate) since: Moment,
}

impl Stint {
    fn first(hold: Arc<Hold>) -> Self {
        Self { turn: 0, began: hold.granted, since: hold.granted, hold }
    }

    /// Each turn has its own, larger fence.
    pub(crate) fn fence(&self) -> Fence {
        Fence::new(self.hold.seq, self.turn)
    }
}

impl Lane {
    /// The lane of this key and ttl, the same for all locks of the client.
    pub(crate) fn of(shared: &Arc<Shared>, key: &Key, ttl: Ttl, note: &Note) -> Arc<Self> {
        let mut lanes = lock(&shared.lanes);
        let slot = lanes.entry((key.clone(), ttl)).or_default();
        if let Some(lane) = slot.upgrade() {
            return lane;
        }
        let lane = Arc::new(Self {
            shared: shared.clone(),
            key: key.clone(),
            ttl,
            note: note.clone(),
            queue: Queue::new(),
            deserted: Notify::new(),
            drivers: AtomicUsize::new(0),
            drove: Notify::new(),
        });
        *slot = Arc::downgrade(&lane);
        lane
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// As [`Asking::run`]; `Unavailable` if too many wait already.
    /// # Cancel safety
    /// Dropping the future gives up the turn, which passes to the next.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        began: Moment,
        deadline: Option<Moment>,
    ) -> Result<Baton<Self>> {
        let mut waiting = match Queue::enter(self, self.shared.settings.max_waiters) {
            Some(Entry::Behind(waiting)) => waiting,
            Some(Entry::First(driver)) => {
                let mut asking = self.asking(Patience::Queue, began);
                match asking.attempt(deadline).await {
                    Ok(Some(hold)) => return driver.arrived(Stint::first(hold)).ok_or_else(vanished),
                    Ok(None) => {}
                    Err(err) if err.is_retryable() => {}
                    Err(err) => return Err(err.in_op(Op::Acquire)),
                }
                let waiting = driver.wait().ok_or_else(vanished)?;
                self.drive(asking);
                waiting
            }
            None => return Err(self.crowded()),
        };
        loop {
            let turn = match deadline {
                None => waiting.turn().await,
                Some(deadline) => {
                    let left = deadline.since(self.shared.now());
                    tokio::time::timeout(left, waiting.turn()).await.map_err(|_| self.timed_out())?
                }
            };
            let baton = turn.ok_or_else(vanished)??;
            // Whether the place is worth anything is asked now, not when it was handed over.
            if baton.stint().is_some_and(|stint| self.is_fit(stint, self.shared.now())) {
                return Ok(baton);
            }
            waiting.again(baton);
        }
    }

    /// Takes a turn if nobody of this process has one and the engine grants it at once.
    pub(crate) async fn try_acquire(self: &Arc<Self>, began: Moment) -> Result<Option<Baton<Self>>> {
        let Some(driver) = Queue::try_enter(self) else { return Ok(None) };
        match self.asking(Patience::Try, began).run(None).await? {
            Some(hold) => Ok(driver.arrived(Stint::first(hold))),
            None => Ok(None),
        }
    }

    fn asking(&self, patience: Patience, began: Moment) -> Asking {
        let claim = self.shared.claim(&self.key, Mode::Exclusive, patience, self.ttl, &self.note);
        Asking::new(self.shared.clone(), claim, Upkeep::Renewed, began)
    }

    fn drive(self: &Arc<Self>, asking: Asking) {
        self.drivers.fetch_add(1, Ordering::AcqRel);
        self.shared.tasks.spawn(drive(Driving(self.clone()), Steering(Some(self.clone())), asking));
    }

    /// Resolves once a place that nobody waits for any more is in the hands of the cleaner.
    pub(crate) async fn settles(&self) {
        loop {
            let mut drove = pin!(self.drove.notified());
            drove.as_mut().enable();
            if self.drivers.load(Ordering::Acquire) == 0 || !self.queue.is_deserted() {
                return;
            }
            drove.await;
        }
    }

    /// A third of the lease is enough to finish a turn or notice that renewals fail.
    fn is_fit(&self, stint: &Stint, now: Moment) -> bool {
        let hold = &stint.hold;
        hold.loss(now).is_none()
            && hold.deadline().is_none_or(|deadline| deadline.since(now) >= hold.lease / 3)
    }

    /// Releases the place in the background and stands in line again if somebody waits.
    pub(crate) fn give_up(self: &Arc<Self>, stint: Stint, then: Then) {
        self.shared.watchdog.unwatch(&stint.hold);
        self.shared.cleaner.release(stint.hold.claim.clone(), stint.hold.answered);
        if then == Then::Ask {
            self.ask();
        }
    }

    fn timed_out(&self) -> Error {
        let message = "others of this process held it until the deadline, or stood in line for it";
        self.name(Error::new(ErrorKind::Timeout, Op::Acquire, message).not_applied())
    }

    fn crowded(&self) -> Error {
        let max = self.shared.settings.max_waiters;
        self.name(
            Error::unavailable(Op::Acquire, format!("{max} tasks of this process wait for it already"))
                .not_applied(),
        )
    }

    fn name(&self, err: Error) -> Error {
        err.with_key(&self.key).with_engine(self.shared.guarantees.engine)
    }
}

impl Relay for Lane {
    type Stint = Stint;
    type Failure = Error;

    fn queue(&self) -> &Queue<Self> {
        &self.queue
    }

    fn now(&self) -> Moment {
        self.shared.now()
    }

    fn next(&self, stint: &Stint, now: Moment) -> Option<Stint> {
        let settings = &self.shared.settings;
        let within = stint.turn < settings.turns && now.since(stint.began) < settings.turn_time;
        (within && self.is_fit(stint, now)).then(|| Stint {
            hold: stint.hold.clone(),
            turn: stint.turn + 1,
            began: stint.began,
            since: now,
        })
    }

    fn vacate(self: &Arc<Self>, stint: Stint, then: Then) {
        self.give_up(stint, then);
    }

    fn ask(self: &Arc<Self>) {
        self.drive(self.asking(Patience::Queue, self.shared.now()));
    }

    fn deserted(&self) {
        self.deserted.notify_one();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut lanes = lock(&self.shared.lanes);
        let key = (self.key.clone(), self.ttl);
        if lanes.get(&key).is_some_and(|lane| Weak::strong_count(lane) == 0) {
            lanes.remove(&key);
        }
    }
}

/// Asks on behalf of the lane until it has a place, has failed, or nobody waits any more.
///
/// Its arguments are dropped last to first: who waits for the end of the driving finds the place given back.
async fn drive(_driving: Driving, mut steering: Steering, mut asking: Asking) {
    let Some(lane) = steering.0.clone() else { return };
    let asked = {
        let mut run = pin!(asking.run(None));
        loop {
            tokio::select! {
                biased;
                asked = &mut run => break asked,
                () = lane.deserted.notified() => {
                    if Queue::leave_if_deserted(&lane) {
                        steering.0 = None;
                        return;
                    }
                    // Somebody came: whoever waits for this to settle looks again.
                    lane.drove.notify_waiters();
                }
            }
        }
    };
    steering.0 = None;
    match asked {
        Ok(Some(hold)) => Queue::arrived(&lane, Stint::first(hold)),
        Ok(None) => Queue::failed(&lane, &vanished()),
        Err(err) => Queue::failed(&lane, &err),
    }
}

/// Counts a task that asks.
struct Driving(Arc<Lane>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.drivers.fetch_sub(1, Ordering::AcqRel);
        self.0.drove.notify_waiters();
    }
}

/// Tells the waiters if the asking ends with the runtime it ran on.
struct Steering(Option<Arc<Lane>>);

impl Drop for Steering {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            let err =
                Error::new(ErrorKind::Closed, Op::Acquire, "the runtime that the client was made on is gone");
            Queue::failed(&lane, &lane.name(err));
        }
    }
}

pub(crate) fn vanished() -> Error {
    Error::new(ErrorKind::Broken, Op::Acquire, "a lane lost its baton")
}
