use std::{fmt, pin::Pin, sync::Arc};

use tokio::{runtime::Handle, task::AbortHandle};

/// A task that a client runs in the background.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Stands around every task that a client runs in the background: its watchdog, its cleaner, whoever waits in the line
/// for others.
///
/// For simulations, which stop and delay a client as a whole. A task that is never polled again is what a client that
/// died looks like to everybody else.
pub trait Around: fmt::Debug + Send + Sync + 'static {
    /// The task to run in place of this one.
    fn around(&self, task: Task) -> Task;
}

/// Where the background work of a client runs.
#[derive(Clone)]
pub(crate) struct Tasks {
    pub(crate) runtime: Handle,
    pub(crate) around: Option<Arc<dyn Around>>,
}

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        match &self.around {
            None => self.runtime.spawn(task).abort_handle(),
            Some(around) => self.runtime.spawn(around.around(Box::pin(task))).abort_handle(),
        }
    }
}
