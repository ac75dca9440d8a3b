//! Who reads a connection.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{
    FutureExt, StreamExt,
    future::{AbortHandle, BoxFuture, abortable, pending},
    stream::FuturesUnordered,
};
use tokio::{
    runtime::{Handle, Id},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Who reads the connections that are made with the same options.
#[derive(Clone, Default)]
pub(crate) enum Reader {
    /// A task for each.
    #[default]
    Each,
    /// One task for all of a runtime.
    ///
    /// The members of a quorum answer at nearly the same time. With a task for each, a runtime wakes another thread to
    /// share that work, which takes longer than to do it.
    One(Arc<Mutex<Option<Task>>>),
}

pub(crate) struct Task {
    runtime: Id,
    new: UnboundedSender<Reading>,
}

/// Reads one connection until its end.
type Reading = BoxFuture<'static, ()>;

impl Reader {
    pub(crate) fn one() -> Self {
        Self::One(Arc::default())
    }

    /// Begins to read in the background. It is dropped when it is aborted, or its runtime ends.
    pub(crate) fn begin(&self, reading: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let (reading, abort) = abortable(reading);
        let runtime = Handle::current();
        match self {
            Self::Each => drop(runtime.spawn(reading)),
            Self::One(task) => {
                let mut task = task.lock().unwrap_or_else(PoisonError::into_inner);
                let reading: Reading = Box::pin(reading.map(drop));
                let unread = match task.as_ref().filter(|task| task.runtime == runtime.id()) {
                    Some(task) => task.new.send(reading).err().map(|unsent| unsent.0),
                    None => Some(reading),
                };
                if let Some(first) = unread {
                    let (new, readings) = unbounded_channel();
                    runtime.spawn(read_all(first, readings));
                    *task = Some(Task { runtime: runtime.id(), new });
                }
            }
        }
        abort
    }
}

async fn read_all(first: Reading, mut new: UnboundedReceiver<Reading>) {
    let mut readings = FuturesUnordered::from_iter([first]);
    // It calls its task once more whenever it has looked at all it has: so it always has one that is never ready.
    readings.push(Box::pin(pending()));
    loop {
        tokio::select! {
            biased;
            Some(()) = readings.next() => {}
            reading = new.recv() => match reading {
                Some(reading) => readings.push(reading),
                None => break,
            },
        }
    }
    // One is never ready.
    while readings.len() > 1 {
        readings.next().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        runtime::{Builder, Runtime},
        sync::oneshot,
        task::yield_now,
        time::timeout,
    };

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn soon<T>(runtime: &Runtime, what: impl Future<Output = T>) -> T {
        runtime.block_on(async { timeout(Duration::from_secs(10), what).await.expect("within 10 s") })
    }

    /// Something to read that never ends, and how to see that it is gone.
    fn endless() -> (impl Future<Output = ()> + Send + 'static, oneshot::Receiver<()>) {
        let (kept, gone) = oneshot::channel();
        let reading = async move {
            let _kept = kept;
            pending().await
        };
        (reading, gone)
    }

    #[test]
    fn all_of_a_runtime_are_read_by_one_task_which_ends_with_the_last() {
        let (runtime, reader) = (runtime(), Reader::one());
        let tasks = || runtime.metrics().num_alive_tasks();
        let readings: Vec<_> = (0..5)
            .map(|_| {
                let (reading, gone) = endless();
                (runtime.block_on(async { reader.begin(reading) }), gone)
            })
            .collect();
        assert_eq!(tasks(), 1);
        drop(reader);
        for (abort, gone) in readings {
            assert_eq!(tasks(), 1);
            abort.abort();
            assert!(soon(&runtime, gone).is_err(), "what is aborted is dropped");
        }
        let ended = async {
            while tasks() > 0 {
                yield_now().await;
            }
        };
        soon(&runtime, ended);
    }

    /// A runtime may be there and not run, so what another one begins is not left to it.
    #[test]
    fn every_runtime_reads_its_own() {
        let (first, second, reader) = (runtime(), runtime(), Reader::one());
        let (reading, gone) = endless();
        first.block_on(async { reader.begin(reading) });
        let (done, read) = oneshot::channel();
        second.block_on(async { reader.begin(async { done.send(()).unwrap() }) });
        soon(&second, read).unwrap();
        drop(first);
        assert!(soon(&second, gone).is_err(), "what a runtime reads ends with it");
        let third = runtime();
        drop(second);
        let (done, read) = oneshot::channel();
        third.block_on(async { reader.begin(async { done.send(()).unwrap() }) });
        soon(&third, read).unwrap();
    }
}
