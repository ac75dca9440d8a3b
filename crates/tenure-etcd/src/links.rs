//! Which server a verb asks: one at a time, and another when that fails.
//!
//! Nothing here runs by itself: a connection that ended is made anew by the next verb that needs it, so that how often
//! to try is decided above, once for all engines.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
    stream::{FuturesUnordered, StreamExt},
};
use tenure_core::{Error, Op, Result};
use tokio::time::timeout;

use crate::{ENGINE, link::Link, tls::Trust, url::EtcdOptions};

/// How long a server may be silent before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) options: Arc<EtcdOptions>,
    trust: Option<Trust>,
    link: Mutex<Option<Arc<Link>>>,
    /// Shared by all who wait for it, and carried on by a task of its own: a connection may take longer to make than a
    /// verb may last.
    connecting: Mutex<Option<Connecting>>,
    /// Who is tried first.
    first: Arc<AtomicUsize>,
}

type Connecting = Shared<BoxFuture<'static, Result<Arc<Link>>>>;

impl Links {
    pub(crate) fn new(options: EtcdOptions, trust: Option<Trust>) -> Self {
        Self {
            options: Arc::new(options),
            trust,
            link: Mutex::default(),
            connecting: Mutex::default(),
            first: Arc::default(),
        }
    }

    /// The connection there is, or a new one.
    pub(crate) async fn at(&self, op: Op) -> Result<Arc<Link>> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let connecting = {
            let mut slot = lock(&self.connecting);
            match &*slot {
                Some(connecting) if connecting.peek().is_none() => connecting.clone(),
                _ => {
                    // Another may have made it since we looked.
                    if let Some(link) = self.current() {
                        return Ok(link);
                    }
                    slot.insert(self.connect()).clone()
                }
            }
        };
        let link = connecting.await.map_err(|err| err.in_op(op).not_applied())?;
        *lock(&self.link) = Some(link.clone());
        Ok(link)
    }

    fn current(&self) -> Option<Arc<Link>> {
        lock(&self.link).as_ref().filter(|link| link.lives()).cloned()
    }

    fn connect(&self) -> Connecting {
        let (options, trust, first) = (self.options.clone(), self.trust.clone(), self.first.clone());
        let task = tokio::spawn(async move { any(&options, trust.as_ref(), &first).await });
        let ended = |_| Error::unavailable(Op::Connect, "the runtime is going down").with_engine(ENGINE);
        task.map(move |link| link.map_err(ended)?.map(Arc::new)).boxed().shared()
    }
}

/// The first server that can be used. Each has a head start over the next.
async fn any(options: &EtcdOptions, trust: Option<&Trust>, first: &AtomicUsize) -> Result<Link> {
    let count = options.hosts.len();
    // Whoever comes back does so because this one failed.
    let start = first.load(Ordering::Relaxed);
    let mut dialling = FuturesUnordered::new();
    let mut failed = None;
    for step in 0..count {
        let at = (start + step) % count;
        dialling.push(async move { (at, Link::dial(options, trust, &options.hosts[at]).await) });
        let last = step + 1 == count;
        loop {
            let next = match (last, timeout(HEAD_START, dialling.next()).await) {
                (_, Ok(next)) => next,
                (true, Err(_)) => continue,
                (false, Err(_)) => break,
            };
            match next {
                Some((at, Ok(link))) => {
                    first.store((at + 1) % count, Ordering::Relaxed);
                    return Ok(link);
                }
                // The most telling is that of the first: the rest may only be down too.
                Some((_, Err(err))) => {
                    failed.get_or_insert(err);
                    if !last {
                        break;
                    }
                }
                None => break,
            }
        }
    }
    Err(failed.unwrap_or_else(|| Error::unavailable(Op::Connect, "no server answers").with_engine(ENGINE)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
