//! Attempts that were not waited for, because the rest decided.

use std::{
    sync::Arc,
    task::{Poll, Waker},
};

use futures_util::future::poll_fn;
use tenure_core::Attempt;

use super::asks::{Asks, Said};
use crate::sync::{Mutex, lock};

/// Attempts that go on after the round was won. Whoever releases the claim takes them out and drops them, so that
/// none of them is sent after the release.
#[derive(Debug)]
pub(super) struct Pending(Mutex<Going>);

#[derive(Debug, Default)]
struct Going {
    asks: Option<Asks<Attempt>>,
    /// What was heard last, until the next is asked for: by then it is noted. Whoever takes the attempts out before
    /// finds it here, or would hold the member's answer to be still on its way.
    heard: Option<Said<Attempt>>,
    /// Whoever listens, to be told that nothing more will come.
    follower: Option<Waker>,
}

impl Pending {
    pub(super) fn new(asks: Asks<Attempt>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Going { asks: Some(asks), ..Going::default() })))
    }

    /// The next answer. The one before has been noted.
    pub(super) async fn next(&self) -> Option<Said<Attempt>> {
        poll_fn(|cx| {
            let mut going = lock(&self.0);
            going.heard = None;
            let Some(asks) = &mut going.asks else { return Poll::Ready(None) };
            let next = asks.poll_next(cx);
            match &next {
                Poll::Ready(heard) => going.heard.clone_from(heard),
                Poll::Pending => going.follower = Some(cx.waker().clone()),
            }
            next
        })
        .await
    }

    /// Takes the attempts out that were not answered, and what was answered and may not be noted yet.
    pub(super) fn take(&self) -> (Option<Asks<Attempt>>, Option<Said<Attempt>>) {
        let Going { asks, heard, follower } = std::mem::take(&mut *lock(&self.0));
        if let Some(follower) = follower {
            follower.wake();
        }
        (asks, heard)
    }
}
