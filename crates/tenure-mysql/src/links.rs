//! The connections of a client: a few for attempts and releases, one for renewals, which must not wait behind them.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how
//! often to try is decided above, once for all engines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tenure_core::Result;

use crate::{
    link::{Link, Purpose, Way},
    url::MysqlOptions,
};

/// How many connections carry everything but renewals. Verbs of one key always share one, so that a release follows
/// the attempt it belongs to.
const WORKERS: usize = 3;

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<MysqlOptions>,
    pub(crate) way: Arc<Way>,
    workers: [Port; WORKERS],
    renewals: Port,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    /// The verbs of one key, by a byte of its hash.
    Key(u8),
    /// Renewals.
    Renewals,
}

/// Where one connection is kept.
#[derive(Debug, Default)]
struct Port {
    link: Mutex<Option<Arc<Link>>>,
    /// Shared by all who wait for it. It goes on where it was when those who waited have given up: a connection may
    /// take longer to make than a verb may last.
    connecting: Mutex<Option<Connecting>>,
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Link>>>>;

impl Links {
    pub(crate) fn new(options: MysqlOptions) -> Self {
        let (workers, renewals) = Default::default();
        Self { options: Arc::new(options), way: Way::new(), workers, renewals }
    }

    /// The connection for this use, made if there is none.
    pub(crate) async fn get(&self, purpose: Use) -> Result<Arc<Link>> {
        let port = match purpose {
            Use::Key(byte) => &self.workers[usize::from(byte) % WORKERS],
            Use::Renewals => &self.renewals,
        };
        if let Some(link) = port.working() {
            return Ok(link);
        }
        let connecting = {
            let mut connecting = lock(&port.connecting);
            if let Some(link) = port.working() {
                return Ok(link);
            }
            let (options, way) = (self.options.clone(), self.way.clone());
            let start = || async move { Link::open(&options, way, Purpose::Verbs).await }.boxed().shared();
            connecting.get_or_insert_with(start).clone()
        };
        let outcome = connecting.clone().await;
        let mut current = lock(&port.connecting);
        if current.as_ref().is_some_and(|current| current.ptr_eq(&connecting)) {
            *current = None;
            if let Ok(link) = &outcome {
                *lock(&port.link) = Some(link.clone());
            }
        }
        outcome
    }
}

impl Port {
    fn working(&self) -> Option<Arc<Link>> {
        lock(&self.link).as_ref().filter(|link| link.works()).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in single steps, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
