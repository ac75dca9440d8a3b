//! A connection of the driver's, driven by whoever asks.
//!
//! The driver leaves a connection to a task: every request wakes that task first, mostly on another thread, and is then
//! written by it. To wake a thread takes longer than to write, so here whoever asks does what the task would do, on the
//! spot. The task is there for what comes by itself: answers, and pushes.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{future::poll_fn, task::AtomicWaker};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Connection};

use crate::news::News;

/// One connection, until it ends.
pub(crate) struct Wire {
    /// Reads and writes what there is to read and write, and gives what was not asked for. Nothing once it has ended.
    connection: Mutex<Option<Drive>>,
    bell: Arc<Bell>,
    /// Rings the bell: what the connection is to wake, whoever drove it last.
    waker: Waker,
    news: Arc<News>,
    ended: AtomicBool,
    /// The channel that is this client's own.
    channel: String,
}

type Drive =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> + Send>;

impl Wire {
    /// Starts the task of a connection.
    pub(crate) fn start<S, T>(mut connection: Connection<S, T>, news: Arc<News>, channel: String) -> Arc<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let bell = Arc::new(Bell::default());
        let drive: Drive = Box::new(move |cx| connection.poll_message(cx));
        let wire = Arc::new(Self {
            connection: Mutex::new(Some(drive)),
            waker: bell.clone().into(),
            bell,
            news,
            ended: AtomicBool::new(false),
            channel,
        });
        let task = Task(wire.clone());
        tokio::spawn(async move { poll_fn(|cx| task.poll(cx)).await });
        wire
    }

    /// Sees a request through. What it sends is written before this waits.
    pub(crate) async fn ask<F: Future>(&self, request: F) -> F::Output {
        let mut request = pin!(request);
        poll_fn(|cx| {
            let _asking = Asking::new(self);
            request.as_mut().poll(cx)
        })
        .await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Uses the connection no more. Whoever waits for news on it asks again.
    pub(crate) fn end(&self) {
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.news.interrupted();
        }
    }

    /// Does what there is to do, without waiting. Ready when the connection has ended.
    fn drive(&self, connection: &mut Option<Drive>) -> Poll<()> {
        let Some(drive) = connection else { return Poll::Ready(()) };
        let mut cx = Context::from_waker(&self.waker);
        loop {
            match drive(&mut cx) {
                Poll::Pending => return Poll::Pending,
                // A pooler passes on what was meant for somebody else.
                Poll::Ready(Some(Ok(AsyncMessage::Notification(told)))) if told.channel() == self.channel => {
                    self.news.hear(told.payload());
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(None | Some(Err(_))) => {
                    *connection = None;
                    self.end();
                    return Poll::Ready(());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Drive>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives the connection whenever it is woken. Dropped, it takes the connection with it: nobody else hears of answers.
struct Task(Arc<Wire>);

impl Task {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Before it is driven, so that nothing rings unheard.
        self.0.bell.task.register(cx.waker());
        self.0.drive(&mut self.0.lock())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.end();
    }
}

/// Wakes the task, unless somebody is asking, who then does what it would.
#[derive(Debug, Default)]
struct Bell {
    task: AtomicWaker,
    /// How many ask at this moment, and `RUNG` if the bell rang meanwhile.
    asking: AtomicUsize,
}

const RUNG: usize = 1 << (usize::BITS - 1);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let note = |asking: usize| (asking & !RUNG > 0).then_some(asking | RUNG);
        if self.asking.fetch_update(Ordering::AcqRel, Ordering::Acquire, note).is_err() {
            self.task.wake();
        }
    }
}

/// Somebody asks, which takes no longer than one poll. Dropped, it does what the bell rang for.
struct Asking<'a>(&'a Wire);

impl<'a> Asking<'a> {
    fn new(wire: &'a Wire) -> Self {
        wire.bell.asking.fetch_add(1, Ordering::AcqRel);
        Self(wire)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Self(wire) = self;
        // Whoever of several leaves first answers for all that was noted.
        let leave = |asking: usize| Some((asking & !RUNG) - 1);
        let before = wire.bell.asking.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
        if before.unwrap_or(RUNG) & RUNG == 0 {
            return;
        }
        let driven = wire.connection.try_lock().map(|mut connection| wire.drive(&mut connection));
        // Somebody else is at it, and may be past what rang; or it has ended, and the task with it.
        if !matches!(driven, Ok(Poll::Pending)) {
            wire.bell.task.wake();
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({})", if self.has_ended() { "ended" } else { "works" })
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
