use std::{
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use crate::{ClaimId, Seq};

/// The places that an engine learned to be gone, until they are told: what [`Engine::lost`](crate::Engine::lost)
/// resolves with.
///
/// # Examples
/// ```
/// # use std::{pin::pin, task::{Context, Poll, Waker}};
/// use tenure_core::{ClaimId, Losses, Seq};
///
/// let (losses, id, seq) = (Losses::default(), ClaimId::fresh(), Seq::new(7).expect("a number"));
/// losses.tell([(id, seq)]);
/// # let mut context = Context::from_waker(Waker::noop());
/// # let next = pin!(losses.next()).poll(&mut context);
/// // losses.next().await
/// assert_eq!(next, Poll::Ready(vec![(id, seq)]));
/// ```
#[derive(Debug, Default)]
pub struct Losses(Mutex<Untold>);

#[derive(Debug, Default)]
struct Untold {
    places: Vec<(ClaimId, Seq)>,
    waker: Option<Waker>,
}

impl Losses {
    /// Adds places that are gone, and wakes who waits for them.
    pub fn tell(&self, gone: impl IntoIterator<Item = (ClaimId, Seq)>) {
        let mut untold = self.lock();
        untold.places.extend(gone);
        let waker = if untold.places.is_empty() { None } else { untold.waker.take() };
        drop(untold);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes back what was not told yet of a claim that no longer cares.
    pub fn withdraw(&self, id: ClaimId) {
        self.lock().places.retain(|&(lost, _)| lost != id);
    }

    /// How many wait to be told.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.lock().places.len()
    }

    /// Resolves with all that was not told before, as soon as that is something. One caller at a time: of several, only
    /// the last is woken.
    ///
    /// # Cancel safety
    /// What a dropped future did not return stays to be told.
    pub async fn next(&self) -> Vec<(ClaimId, Seq)> {
        poll_fn(|context| {
            let mut untold = self.lock();
            if untold.places.is_empty() {
                untold.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut untold.places))
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Untold> {
        // It is changed in single steps, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake},
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_is_woken_and_told_once() {
        let (losses, woken) = (Losses::default(), Arc::new(Count::default()));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let [a, b] = [1, 2].map(|seq| (ClaimId::fresh(), Seq::new(seq).unwrap()));
        {
            let mut next = pin!(losses.next());
            assert!(next.as_mut().poll(&mut context).is_pending());
            losses.tell([]);
            assert_eq!(woken.0.load(Ordering::Relaxed), 0, "there is nothing to tell");
            losses.tell([a]);
            losses.tell([b]);
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            losses.withdraw(a.0);
            assert_eq!(next.poll(&mut context), Poll::Ready(vec![b]));
        }
        assert_eq!(losses.untold(), 0);
        assert!(pin!(losses.next()).poll(&mut context).is_pending(), "told twice");
    }
}
