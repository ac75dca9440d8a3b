//! A client as a process: everything of it can be stopped, or ended.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tenure::{Around, Task};
use tokio::time::Instant;

use crate::history::Nanos;

pub(super) struct Process {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nothing that people wrote runs before this.
    stopped: Nanos,
    /// Nothing in the background runs before this.
    starved: Nanos,
    dead: bool,
    asleep: Vec<Waker>,
    /// For how long it was suspended so far, and since when it is now and until when.
    suspended: Nanos,
    suspension: Option<(Nanos, Nanos)>,
}

impl Process {
    pub(super) fn new(start: Instant) -> Arc<Self> {
        Arc::new(Self { start, state: Mutex::default() })
    }

    fn now(&self) -> Nanos {
        nanos(self.start.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    pub(super) fn kill(&self) {
        self.lock().dead = true;
    }

    /// Stops it, its background work for a while longer.
    pub(super) fn stop(self: &Arc<Self>, pause: Nanos, lag: Nanos, suspends: bool) {
        let now = self.now();
        let mut state = self.lock();
        state.stopped = state.stopped.max(now + pause);
        state.starved = state.starved.max(now + pause + lag);
        if suspends {
            let before = state.suspension.replace((now, now + pause));
            if let Some((from, to)) = before {
                state.suspended += to.min(now) - from;
            }
        }
        drop(state);
        for wake in [pause, pause + lag] {
            let process = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_nanos(wake)).await;
                process.wake();
            });
        }
    }

    /// Wakes what waits, in any order.
    fn wake(&self) {
        let mut asleep = std::mem::take(&mut self.lock().asleep);
        fastrand::shuffle(&mut asleep);
        for waker in asleep {
            waker.wake();
        }
    }

    /// How much of the time a clock has missed that stops in suspend.
    pub(super) fn suspended(&self, now: Nanos) -> Nanos {
        let state = self.lock();
        state.suspended + state.suspension.map_or(0, |(from, to)| to.min(now).saturating_sub(from))
    }

    /// Runs a task as a part of the process.
    pub(super) fn run(self: &Arc<Self>, task: Task, background: bool) -> Task {
        Box::pin(Stoppable { process: Arc::clone(self), task, background })
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

/// What the client itself runs.
#[derive(Debug)]
pub(super) struct Background(pub(super) Arc<Process>);

impl Around for Background {
    fn around(&self, task: Task) -> Task {
        self.0.run(task, true)
    }
}

struct Stoppable {
    process: Arc<Process>,
    task: Task,
    background: bool,
}

impl Future for Stoppable {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.process.now();
        {
            let mut state = self.process.lock();
            if state.dead {
                return Poll::Pending;
            }
            if now < if self.background { state.starved } else { state.stopped } {
                state.asleep.push(cx.waker().clone());
                return Poll::Pending;
            }
        }
        // Which of those that could run runs first is for the seed to say.
        if fastrand::u8(0..8) == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.task.as_mut().poll(cx)
    }
}

pub(super) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
