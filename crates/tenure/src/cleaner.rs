//! What nobody waits for any more is released here: dropped guards, cancelled waits, attempts in doubt.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tenure_core::{Answered, Claim, Crash, Engine, Guarantees, Op, Reach};
use tokio::{
    runtime::{Handle, Runtime},
    sync::{mpsc, oneshot},
};

use crate::{
    client::{limited, no_answer},
    observe::Observer,
    tasks::Tasks,
};

/// How many releases may wait to be sent. Past it they are given up, counted, and the places lapse.
const QUEUE: usize = 65_536;
/// How many are under way at once.
const AT_ONCE: usize = 64;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

enum Message {
    Release(Job),
    Flush(oneshot::Sender<()>),
}

pub(crate) struct Cleaner {
    jobs: mpsc::Sender<Message>,
    engine: Arc<dyn Engine>,
    observer: Arc<Observer>,
    /// Verbs of local engines do not wait for a network: a release also works where no runtime is left.
    local: bool,
    lapses: bool,
    runtime: Handle,
    /// Held once by this, and once by each release that has not ended.
    unfinished: Arc<()>,
}

impl Cleaner {
    pub(crate) fn start(
        engine: Arc<dyn Engine>,
        guarantees: &Guarantees,
        observer: Arc<Observer>,
        tasks: &Tasks,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tasks.spawn(clean(queue));
        let local = guarantees.reach < Reach::Network;
        let lapses = guarantees.crash == Crash::Lease;
        let (runtime, unfinished) = (tasks.runtime.clone(), Arc::new(()));
        Self { jobs, engine, observer, local, lapses, runtime, unfinished }
    }

    /// Sees to it that the claim neither holds nor waits, without making anybody wait.
    ///
    /// The release is begun on the spot, unless many are under way. Where a connection carries one request at a time,
    /// whatever the caller asks for next must not come before it: somebody else waits for the release.
    pub(crate) fn release(&self, claim: Claim, answered: Answered) {
        let release =
            release(self.engine.clone(), claim.clone(), answered, self.observer.clone(), self.lapses);
        let unfinished = self.unfinished.clone();
        let mut job: Job = Box::pin(async move {
            let _unfinished = unfinished;
            release.await;
        });
        let orphaned = self.jobs.is_closed();
        let few = Arc::strong_count(&self.unfinished) <= AT_ONCE + 1;
        if self.local || (few && !orphaned) {
            // A verb may need a timer, and a timer a runtime: this client's own or, when that is gone, another.
            let runtime =
                if orphaned { crate::blocking::runtime().map(Runtime::handle) } else { Ok(&self.runtime) };
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(err) => return self.observer.abandoned(&claim, Some(&err)),
            };
            let _inside = runtime.enter();
            if job.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(()) {
                return;
            }
            if orphaned {
                drop(runtime.spawn(job));
                return;
            }
        }
        if self.jobs.try_send(Message::Release(job)).is_err() {
            self.observer.abandoned(&claim, None);
        }
    }

    /// Resolves once everything that was handed in before has been released or given up.
    pub(crate) async fn flush(&self) {
        let (done, all) = oneshot::channel();
        if self.jobs.send(Message::Flush(done)).await.is_ok() {
            let _ = all.await;
        }
    }
}

/// One task per client. It ends when the client and its last guard are gone and nothing is left to release.
async fn clean(mut queue: mpsc::Receiver<Message>) {
    let mut jobs = FuturesUnordered::new();
    loop {
        tokio::select! {
            // In a fixed order, so that a simulation sees the same run again. Those under way are few.
            biased;
            Some(()) = jobs.next() => {}
            message = queue.recv(), if jobs.len() < AT_ONCE => match message {
                Some(Message::Release(job)) => jobs.push(job),
                Some(Message::Flush(done)) => {
                    while jobs.next().await.is_some() {}
                    let _ = done.send(());
                }
                None => break,
            },
        }
    }
    while jobs.next().await.is_some() {}
}

/// Asks until the engine has answered. A place that lapses by itself is not worth asking for much longer than
/// its lease.
async fn release(
    engine: Arc<dyn Engine>,
    claim: Claim,
    answered: Answered,
    observer: Arc<Observer>,
    lapses: bool,
) {
    let tries = if lapses { 8 } else { 64 };
    let mut pause = claim.ttl.get() / 64;
    for left in (0..tries).rev() {
        let answer = limited(claim.ttl.renew_every(), engine.release(&claim, answered)).await;
        match answer.unwrap_or_else(|| Err(no_answer(Op::Release, claim.ttl))) {
            Ok(_) => return,
            Err(err) if left == 0 || !err.is_retryable() => return observer.abandoned(&claim, Some(&err)),
            Err(_) => tokio::time::sleep(crate::acquire::jitter(pause)).await,
        }
        pause = (pause * 2).min(Duration::from_secs(5)).min(claim.ttl.renew_every());
    }
}
