//! What wrong ways have in common: they ask again and again, and believe until a deadline of their own.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    clock::now,
    history::Nanos,
    locks::{Look, Unanswered, Wish},
};

/// Asks again and again until it gets something, or whoever wishes for it has waited long enough.
pub(super) async fn until_granted<T, F: Future<Output = Result<Option<T>, Unanswered>>>(
    wish: &Wish,
    every: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<Option<T>, Unanswered> {
    let deadline = Instant::now() + wish.patience.unwrap_or_default();
    loop {
        if let Some(got) = ask().await? {
            return Ok(Some(got));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(every).await;
    }
}

/// Believes until then.
pub(super) fn believed_until(until: Nanos) -> Look {
    if now() < until { Look::Until(Some(until)) } else { Look::Lost }
}
