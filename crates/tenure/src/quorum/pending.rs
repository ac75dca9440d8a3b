//! Attempts that were not waited for, because the rest decided.

use std::{
    sync::Arc,
    task::{Poll, Waker},
};

use futures_util::{StreamExt, future::poll_fn, stream::FuturesUnordered};
use tenure_core::{Attempt, Result};

use super::verdict::{Ask, Miss};
use crate::sync::{Mutex, lock};

/// Attempts on their way.
pub(super) type Asks = FuturesUnordered<Ask<Attempt>>;

/// Attempts that go on after the round was won. Whoever releases the claim takes them out and drops them, so that
/// none of them is sent after the release.
#[derive(Debug)]
pub(super) struct Pending(Mutex<Going>);

#[derive(Debug, Default)]
struct Going {
    asks: Option<Asks>,
    /// What was heard last, until the next is asked for: by then it is noted. Whoever takes the attempts out before
    /// finds it here, or would hold the member's answer to be still on its way.
    heard: Option<Heard>,
    /// Whoever listens, to be told that nothing more will come.
    follower: Option<Waker>,
}

/// What a member said to an attempt.
type Heard = (usize, Result<Attempt, Miss>);

impl Pending {
    pub(super) fn new(asks: Asks) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Going { asks: Some(asks), ..Going::default() })))
    }

    /// The next answer. The one before has been noted.
    pub(super) async fn next(&self) -> Option<Heard> {
        poll_fn(|cx| {
            let mut going = lock(&self.0);
            going.heard = None;
            let Some(asks) = &mut going.asks else { return Poll::Ready(None) };
            let next = asks.poll_next_unpin(cx);
            match &next {
                Poll::Ready(heard) => going.heard.clone_from(heard),
                Poll::Pending => going.follower = Some(cx.waker().clone()),
            }
            next
        })
        .await
    }

    /// Takes the attempts out that were not answered, and what was answered and may not be noted yet.
    pub(super) fn take(&self) -> (Option<Asks>, Option<Heard>) {
        let Going { asks, heard, follower } = std::mem::take(&mut *lock(&self.0));
        if let Some(follower) = follower {
            follower.wake();
        }
        (asks, heard)
    }
}
