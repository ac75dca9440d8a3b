//! What the server pushes: whose turn it is, and whose place an operator took.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Incarnation, Seat, Seq, Turn};
use tokio::sync::Notify;

/// The most losses that wait to be read. More than that, and the next renewal tells.
const MOST_LOSSES: usize = 10_000;

/// Who listens in this process. A waiter is known from before its attempt is sent, so a push that overtakes the
/// answer is not missed.
#[derive(Debug, Default)]
pub(crate) struct News {
    waiters: Mutex<HashMap<ClaimId, Waiter>>,
    losses: Mutex<Vec<(ClaimId, Seq)>>,
    lost: Notify,
}

#[derive(Debug, Default)]
struct Waiter {
    heard: Option<Turn>,
    wake: Arc<Notify>,
}

impl News {
    /// Listens for a claim from here on. What was heard of its place before is kept, unless that was nothing but
    /// the wish for this attempt.
    pub(crate) fn expect(&self, id: ClaimId) {
        let mut waiters = lock(&self.waiters);
        let waiter = waiters.entry(id).or_default();
        if waiter.heard == Some(Turn::Again) {
            waiter.heard = None;
        }
    }

    /// Stops listening for a claim. Says whether it was listened for: then it waits, or was told that it holds.
    pub(crate) fn forget(&self, id: ClaimId) -> bool {
        lock(&self.waiters).remove(&id).is_some()
    }

    /// Resolves with what is heard of a claim.
    pub(crate) async fn turn(&self, id: ClaimId) -> Turn {
        loop {
            let wake = {
                let mut waiters = lock(&self.waiters);
                let Some(waiter) = waiters.get_mut(&id) else { return Turn::Again };
                if let Some(turn) = waiter.heard.take() {
                    return turn;
                }
                waiter.wake.clone()
            };
            wake.notified().await;
        }
    }

    /// Resolves with the places that operators took.
    pub(crate) async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        loop {
            let losses = std::mem::take(&mut *lock(&self.losses));
            if !losses.is_empty() {
                return losses;
            }
            self.lost.notified().await;
        }
    }

    /// Takes in a message of this client's channel. One that cannot be read is as good as none.
    pub(crate) fn hear(&self, message: &[u8]) {
        let Some((kind, id, seat)) = parse(message) else { return };
        match kind {
            b'H' => {
                if let Some(waiter) = lock(&self.waiters).get_mut(&id) {
                    waiter.heard = Some(Turn::Holds(seat));
                    waiter.wake.notify_one();
                }
            }
            b'L' => {
                let mut losses = lock(&self.losses);
                if losses.len() < MOST_LOSSES {
                    losses.push((id, seat.seq));
                }
                drop(losses);
                self.lost.notify_one();
                // A waiter that was evicted learns it from its next attempt.
                if let Some(waiter) = lock(&self.waiters).get_mut(&id) {
                    waiter.heard = Some(Turn::Again);
                    waiter.wake.notify_one();
                }
            }
            _ => {}
        }
    }

    /// A connection ended, and with it whatever was on its way: everybody who waits asks again.
    pub(crate) fn interrupted(&self) {
        for waiter in lock(&self.waiters).values_mut() {
            // A hold that was heard of before stays what it was: it names its place and its server's life.
            waiter.heard.get_or_insert(Turn::Again);
            waiter.wake.notify_one();
        }
    }
}

/// `kind id seq incarnation`, as `tell` in line.lua packs it.
fn parse(message: &[u8]) -> Option<(u8, ClaimId, Seat)> {
    let (&kind, rest) = message.split_first()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (seq, incarnation) = rest.split_first_chunk::<8>()?;
    let seat = Seat {
        seq: crate::words::seq(f64::from_be_bytes(*seq))?,
        incarnation: Incarnation(u64::from_be_bytes(incarnation.try_into().ok()?)),
    };
    Some((kind, ClaimId::from_bytes(*id), seat))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in single steps, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, id: ClaimId, seq: u64) -> Vec<u8> {
        [&[kind][..], &id.to_bytes(), &(seq as f64).to_be_bytes(), &7u64.to_be_bytes()].concat()
    }

    fn holds(seq: u64) -> Turn {
        Turn::Holds(Seat { seq: Seq::new(seq).unwrap(), incarnation: Incarnation(7) })
    }

    #[tokio::test]
    async fn a_push_that_comes_before_anybody_waits_is_kept() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.hear(&message(b'H', id, 1));
        news.expect(id);
        news.hear(&message(b'H', id, 2));
        news.expect(id);
        assert_eq!(news.turn(id).await, holds(2), "not the one from before anybody expected it");
    }

    #[tokio::test]
    async fn an_end_of_the_connection_wakes_all_and_forgets_no_hold() {
        let (news, ids) = (News::default(), [ClaimId::fresh(), ClaimId::fresh()]);
        for id in ids {
            news.expect(id);
        }
        news.hear(&message(b'H', ids[0], 5));
        news.interrupted();
        assert_eq!(news.turn(ids[0]).await, holds(5));
        assert_eq!(news.turn(ids[1]).await, Turn::Again);
    }

    #[tokio::test]
    async fn losses_are_told_once() {
        let (news, id) = (News::default(), ClaimId::fresh());
        news.hear(&message(b'L', id, 9));
        assert_eq!(news.lost().await, [(id, Seq::new(9).unwrap())]);
        assert!(lock(&news.losses).is_empty());
    }

    #[test]
    fn nonsense_is_no_message() {
        let whole = message(b'H', ClaimId::fresh(), 1);
        let (short, long) = (&whole[..32], [&whole[..], b"x"].concat());
        let negative = [&whole[..17], &(-1f64).to_be_bytes(), &whole[25..]].concat();
        let broken = [&whole[..17], &1.5f64.to_be_bytes(), &whole[25..]].concat();
        for text in [&b""[..], b"H", b"Hshort", short, &long, &negative, &broken] {
            assert!(parse(text).is_none());
            News::default().hear(text);
        }
    }
}
