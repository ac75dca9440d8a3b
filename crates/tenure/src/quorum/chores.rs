//! What goes on behind the callers' backs: late answers, and releases that nobody waits for.
//!
//! All of it is one task for a quorum, which is called when one of them can go on. Nearly every lock leaves something to
//! be heard later; a task for each would be made, and often wake another thread, to do nothing yet.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, PoisonError, TryLockError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::runtime::Handle;

use crate::sync::{Mutex, lock};

type Job = BoxFuture<'static, ()>;

/// Ends its task when it goes. A job may hold what holds this: it is there until the job is done, or its runtime gone.
#[derive(Default)]
pub(super) struct Chores(Arc<Shared>);

#[derive(Default)]
struct Shared {
    jobs: Mutex<FuturesUnordered<Job>>,
    /// Those that were begun while others had the jobs, who then look here.
    new: Mutex<Vec<Job>>,
    task: Mutex<Task>,
    /// How many are about to see to the jobs themselves, so that the task need not be called.
    quiet: AtomicUsize,
}

/// The task that sees to the jobs.
#[derive(Default)]
struct Task {
    runs: bool,
    waker: Option<Waker>,
    over: bool,
}

impl Chores {
    /// Begins on the spot, and goes on in the background if need be.
    pub(super) fn begin(&self, job: impl Future<Output = ()> + Send + 'static) {
        let mut job = Box::pin(job);
        let done = job.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if !done && self.0.has_a_task() {
            lock(&self.0.new).push(job);
            self.0.try_go_on();
        }
    }

    /// Does what may let jobs go on, and sees to them here: that wakes no thread.
    pub(super) fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.quiet.fetch_add(1, Ordering::AcqRel);
        let done = work();
        self.0.quiet.fetch_sub(1, Ordering::AcqRel);
        if !self.0.try_go_on() {
            self.0.call();
        }
        done
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        lock(&self.0.task).over = true;
        self.0.call();
    }
}

impl Shared {
    /// Whether there is a task, which is started if a runtime is here.
    fn has_a_task(self: &Arc<Self>) -> bool {
        let mut task = lock(&self.task);
        if task.runs {
            return true;
        }
        let Ok(runtime) = Handle::try_current() else { return false };
        task.runs = true;
        drop(task);
        runtime.spawn(see_to(Caretaker(self.clone())));
        true
    }

    fn call(&self) {
        // Written, though nothing changes: whoever is quiet then sees what was made ready before.
        if self.quiet.fetch_add(0, Ordering::AcqRel) == 0
            && let Some(waker) = &lock(&self.task).waker
        {
            waker.wake_by_ref();
        }
    }

    /// Polls what is ready, unless somebody else does.
    fn try_go_on(self: &Arc<Self>) -> bool {
        loop {
            let mut jobs = match self.jobs.try_lock() {
                Ok(jobs) => jobs,
                Err(TryLockError::Poisoned(jobs)) => jobs.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            self.poll(&mut jobs);
            drop(jobs);
            if lock(&self.new).is_empty() {
                return true;
            }
        }
    }

    fn poll(self: &Arc<Self>, jobs: &mut FuturesUnordered<Job>) {
        if jobs.is_empty() {
            // It calls its task once more whenever it has looked at all it has: so it always has one that is never ready.
            jobs.push(Box::pin(pending()));
        }
        jobs.extend(lock(&self.new).drain(..));
        let waker = Waker::from(self.clone());
        while jobs.poll_next_unpin(&mut Context::from_waker(&waker)) == Poll::Ready(Some(())) {}
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

async fn see_to(chores: Caretaker) {
    poll_fn(|cx| {
        let shared = &chores.0;
        {
            let mut task = lock(&shared.task);
            if task.over {
                return Poll::Ready(());
            }
            if !task.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                task.waker = Some(cx.waker().clone());
            }
        }
        // It waits for whoever has the jobs: that one may have looked already when this was called.
        let mut jobs = shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        shared.poll(&mut jobs);
        drop(jobs);
        if !lock(&shared.new).is_empty() {
            shared.try_go_on();
        }
        Poll::Pending
    })
    .await;
}

/// What the task has. It may end before the jobs do, with its runtime; another is started by the next job.
struct Caretaker(Arc<Shared>);

impl Drop for Caretaker {
    fn drop(&mut self) {
        let mut task = lock(&self.0.task);
        (task.runs, task.waker) = (false, None);
        drop(task);
        let jobs = std::mem::take(&mut *lock(&self.0.jobs));
        drop(jobs);
        let new = std::mem::take(&mut *lock(&self.0.new));
        drop(new);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        sync::{mpsc, oneshot},
        time::timeout,
    };

    use super::*;

    /// Whether it is let go on by another thread, by whoever is quiet, or both at once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_job_is_seen_to_whoever_lets_it_go_on() {
        let chores = Arc::new(Chores::default());
        let (done, mut finished) = mpsc::unbounded_channel();
        for round in 0..1000 {
            let (elsewhere, quietly) = (oneshot::channel(), oneshot::channel());
            for go_on in [elsewhere.1, quietly.1] {
                let (weak, done) = (Arc::downgrade(&chores), done.clone());
                let job = async move {
                    let () = go_on.await.unwrap();
                    // A job may leave another one to do.
                    weak.upgrade().unwrap().begin(async move { done.send(()).unwrap() });
                };
                chores.begin(job);
            }
            tokio::spawn(async move { elsewhere.0.send(()).unwrap() });
            chores.quietly(|| quietly.0.send(()).unwrap());
            for _ in 0..2 {
                let soon = timeout(Duration::from_secs(10), finished.recv());
                soon.await.unwrap_or_else(|_| panic!("a job of round {round} was forgotten"));
            }
        }
    }

    #[test]
    fn jobs_end_with_the_runtime_and_others_go_on_with_the_next() {
        let chores = Chores::default();
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (kept, gone) = oneshot::channel::<()>();
        let job = async move {
            let _kept = kept;
            std::future::pending().await
        };
        let first = runtime();
        first.block_on(async { chores.begin(job) });
        drop(first);
        let second = runtime();
        let soon = |what| second.block_on(async { timeout(Duration::from_secs(10), what).await.unwrap() });
        assert!(soon(gone).is_err(), "what a job has is dropped with its runtime");
        let (go_on, gone_on) = oneshot::channel::<()>();
        let (done, finished) = oneshot::channel::<()>();
        second.block_on(async {
            chores.begin(async move {
                gone_on.await.unwrap();
                done.send(()).unwrap();
            });
        });
        go_on.send(()).unwrap();
        soon(finished).unwrap();
    }
}
