use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::Result;

/// Where one connection is kept: whoever needs it first makes it, and when it has ended, makes it again.
///
/// Nothing here runs by itself, so that how often to try is decided above, once for all engines.
pub struct Port<L> {
    works: fn(&L) -> bool,
    link: Mutex<Option<Arc<L>>>,
    /// Shared by all who wait for it. It goes on where it was when those who waited have given up: a connection may
    /// take longer to make than a verb may last.
    connecting: Mutex<Option<Connecting<L>>>,
}

type Connecting<L> = Shared<BoxFuture<'static, Result<Arc<L>>>>;

impl<L: Send + Sync + 'static> Port<L> {
    /// One with no connection yet; `works` says whether one can still be used.
    #[must_use]
    pub const fn new(works: fn(&L) -> bool) -> Self {
        Self { works, link: Mutex::new(None), connecting: Mutex::new(None) }
    }

    /// The connection there is, if it works.
    pub fn working(&self) -> Option<Arc<L>> {
        lock(&self.link).as_ref().filter(|link| (self.works)(link)).cloned()
    }

    /// The connection there is, or a new one, which all share who ask meanwhile.
    ///
    /// # Errors
    /// As `open` fails; the next who asks tries again.
    ///
    /// # Cancel safety
    /// A connection that is being made goes on with the next who asks.
    pub async fn get<F>(&self, open: impl FnOnce() -> F) -> Result<Arc<L>>
    where
        F: Future<Output = Result<Arc<L>>> + Send + 'static,
    {
        let connecting = {
            let mut connecting = lock(&self.connecting);
            if let Some(link) = self.working() {
                return Ok(link);
            }
            connecting.get_or_insert_with(|| open().boxed().shared()).clone()
        };
        let outcome = connecting.clone().await;
        let mut current = lock(&self.connecting);
        if current.as_ref().is_some_and(|current| current.ptr_eq(&connecting)) {
            *current = None;
            if let Ok(link) = &outcome {
                *lock(&self.link) = Some(link.clone());
            }
        }
        outcome
    }
}

impl<L: fmt::Debug> fmt::Debug for Port<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Port").field(&*lock(&self.link)).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in single steps, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;
    use crate::{Error, Op};

    #[derive(Debug)]
    struct Link {
        number: u32,
        ended: AtomicBool,
    }

    impl Link {
        fn new(number: u32) -> Arc<Self> {
            Arc::new(Self { number, ended: AtomicBool::new(false) })
        }

        fn works(&self) -> bool {
            !self.ended.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_connection_is_kept_until_it_ends() {
        let port = Port::new(Link::works);
        let get = |number| port.get(|| ready(Ok(Link::new(number)))).now_or_never().unwrap().unwrap();
        assert!(port.working().is_none());
        let first = get(1);
        assert_eq!((first.number, get(2).number), (1, 1));
        first.ended.store(true, Ordering::Relaxed);
        assert!(port.working().is_none());
        assert_eq!((get(3).number, port.working().unwrap().number), (3, 3));
    }

    #[test]
    fn a_failure_is_not_kept() {
        let port = Port::new(Link::works);
        let failed = port.get(|| ready(Err(Error::unavailable(Op::Connect, "down")))).now_or_never().unwrap();
        assert!(failed.is_err());
        assert_eq!(port.get(|| ready(Ok(Link::new(2)))).now_or_never().unwrap().unwrap().number, 2);
    }

    #[test]
    fn all_share_the_one_that_is_being_made_and_it_outlives_who_began_it() {
        let port = Port::new(Link::works);
        let made = Arc::new(AtomicBool::new(false));
        let seen = made.clone();
        let slow = async move {
            std::future::poll_fn(|_| match seen.load(Ordering::Relaxed) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            })
            .await;
            Ok(Link::new(1))
        };
        assert!(port.get(|| slow).now_or_never().is_none(), "who began it gives up");
        assert!(port.get(pending).now_or_never().is_none(), "another waits for the same");
        made.store(true, Ordering::Relaxed);
        assert_eq!(port.get(pending).now_or_never().unwrap().unwrap().number, 1);
    }
}
