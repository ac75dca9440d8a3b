use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use crate::{ClaimId, Losses, Seat, Seq, Turn};

/// The most losses that wait to be read. More than that, and the next renewal tells.
const MOST_LOSSES: usize = 10_000;

/// Who in this process listens to what a server pushes: whose turn it is, and whose place an operator took.
///
/// A waiter is known from before its attempt is sent, so a push that overtakes the answer is not missed.
#[derive(Debug, Default)]
pub struct News {
    waiters: Mutex<HashMap<ClaimId, Waiter>>,
    losses: Losses,
}

#[derive(Debug, Default)]
struct Waiter {
    heard: Option<Turn>,
    waker: Option<Waker>,
}

impl Waiter {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl News {
    /// Listens for a claim from here on. What was heard of its place before is kept, unless that was nothing but
    /// the wish for this attempt.
    pub fn expect(&self, id: ClaimId) {
        let mut waiters = self.waiters();
        let waiter = waiters.entry(id).or_default();
        if waiter.heard == Some(Turn::Again) {
            waiter.heard = None;
        }
    }

    /// Stops listening for a claim. Says whether it was listened for: then it waits, or was told that it holds.
    pub fn forget(&self, id: ClaimId) -> bool {
        self.waiters().remove(&id).is_some()
    }

    /// Resolves with what is heard of a claim. One caller at a time for each: of several, only the last is woken.
    ///
    /// # Cancel safety
    /// What a dropped future did not return stays to be heard.
    pub async fn turn(&self, id: ClaimId) -> Turn {
        poll_fn(|context| {
            let mut waiters = self.waiters();
            let Some(waiter) = waiters.get_mut(&id) else { return Poll::Ready(Turn::Again) };
            match waiter.heard.take() {
                Some(turn) => Poll::Ready(turn),
                None => {
                    waiter.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Resolves with the places that operators took. One caller at a time.
    pub async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.losses.next().await
    }

    /// The server says that a claim holds at this seat.
    pub fn hear_holds(&self, id: ClaimId, seat: Seat) {
        self.hear(id, Turn::Holds(seat));
    }

    /// The server says that an operator took a claim's place. One that waits learns it from its next attempt.
    pub fn hear_lost(&self, id: ClaimId, seq: Seq) {
        if self.losses.untold() < MOST_LOSSES {
            self.losses.tell([(id, seq)]);
        }
        self.hear(id, Turn::Again);
    }

    /// A connection ended, and with it whatever was on its way: everybody who waits asks again.
    pub fn interrupted(&self) {
        for waiter in self.waiters().values_mut() {
            // A hold that was heard of before stays what it was: it names its place and its server's life.
            waiter.heard.get_or_insert(Turn::Again);
            waiter.wake();
        }
    }

    fn hear(&self, id: ClaimId, turn: Turn) {
        if let Some(waiter) = self.waiters().get_mut(&id) {
            waiter.heard = Some(turn);
            waiter.wake();
        }
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<ClaimId, Waiter>> {
        // They are changed in single steps, so a panic elsewhere leaves them whole.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        task::{Context, Wake},
    };

    use super::*;
    use crate::Incarnation;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn seat(seq: u64) -> Seat {
        Seat { seq: Seq::new(seq).unwrap(), incarnation: Incarnation(7) }
    }

    fn now<T>(work: impl Future<Output = T>) -> Poll<T> {
        pin!(work).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_push_that_comes_before_anybody_waits_is_kept() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.hear_holds(id, seat(1));
        news.expect(id);
        assert_eq!(now(news.turn(id)), Poll::Pending, "not the one from before anybody expected it");
        news.hear_holds(id, seat(2));
        news.expect(id);
        assert_eq!(now(news.turn(id)), Poll::Ready(Turn::Holds(seat(2))));
        assert!(news.forget(id) && !news.forget(id));
        assert_eq!(now(news.turn(id)), Poll::Ready(Turn::Again), "nobody tells it any more");
    }

    #[test]
    fn an_end_of_the_connection_wakes_all_and_forgets_no_hold() {
        let (news, ids) = (News::default(), [ClaimId::fresh(), ClaimId::fresh()]);
        for id in ids {
            news.expect(id);
        }
        news.hear_holds(ids[0], seat(5));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut waits = pin!(news.turn(ids[1]));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(!woken.0.load(Ordering::Relaxed));
        news.interrupted();
        assert!(woken.0.load(Ordering::Relaxed));
        assert_eq!(now(waits), Poll::Ready(Turn::Again));
        assert_eq!(now(news.turn(ids[0])), Poll::Ready(Turn::Holds(seat(5))));
    }

    #[test]
    fn a_wish_to_ask_again_ends_with_the_attempt() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.expect(id);
        news.interrupted();
        news.expect(id);
        assert_eq!(now(news.turn(id)), Poll::Pending);
    }

    #[test]
    fn a_place_that_was_taken_is_told_once_and_its_waiter_asks_again() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.expect(id);
        news.hear_lost(id, seat(9).seq);
        assert_eq!(now(news.lost()), Poll::Ready(vec![(id, seat(9).seq)]));
        assert_eq!(now(news.lost()), Poll::Pending);
        assert_eq!(now(news.turn(id)), Poll::Ready(Turn::Again));
    }

    #[test]
    fn losses_that_nobody_reads_have_a_bound() {
        let (news, id) = (News::default(), ClaimId::fresh());
        for _ in 0..MOST_LOSSES + 1 {
            news.hear_lost(id, seat(1).seq);
        }
        assert_eq!(news.losses.untold(), MOST_LOSSES);
    }
}
