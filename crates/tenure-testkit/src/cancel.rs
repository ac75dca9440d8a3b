//! Dropping a future at every point where it can be dropped.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The most polls that a future under test may need.
pub const MAX_POLLS: usize = 10_000;

/// Drops a future at every point where it waits, and checks after each.
///
/// For n = 0, 1, 2, … a fresh future is made with `make(n)`, polled n times and dropped; then `after_each(n,
/// output)` runs to its end, with the output if the future completed within n polls. It stops after the first
/// run that completed, and returns the number of polls which that took.
///
/// Between two polls the future is woken as usual, so what it waits for must come by itself: other tasks, timers
/// (which on a paused runtime come at once) or a server. Meant for a current-thread runtime with a paused clock,
/// where the number of polls is the same every time; it works on any.
///
/// # Panics
/// If the future still waits after [`MAX_POLLS`] polls.
///
/// # Examples
/// ```
/// use std::cell::Cell;
/// use tenure_testkit::cancel::drop_at_every_poll;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let steps = Cell::new(0);
/// let polls = drop_at_every_poll(
///     |_n| async {
///         steps.set(1);
///         tokio::task::yield_now().await;
///         steps.set(2);
///     },
///     |n, output| {
///         assert_eq!(steps.get(), n);
///         assert_eq!(output.is_some(), n == 2);
///         async {}
///     },
/// )
/// .await;
/// assert_eq!(polls, 2);
/// # });
/// ```
pub async fn drop_at_every_poll<F, C>(
    mut make: impl FnMut(usize) -> F,
    mut after_each: impl FnMut(usize, Option<F::Output>) -> C,
) -> usize
where
    F: Future,
    C: Future<Output = ()>,
{
    for n in 0..=MAX_POLLS {
        let output = poll_times(make(n), n).await;
        let completed = output.is_some();
        after_each(n, output).await;
        if completed {
            return n;
        }
    }
    panic!("the future still waits after {MAX_POLLS} polls");
}

/// Polls a future at most n times and drops it; gives its output if it completed.
pub async fn poll_times<F: Future>(future: F, n: usize) -> Option<F::Output> {
    Polls { future: Box::pin(future), left: n }.await
}

/// Polls a future n times and gives it back if it still waits.
///
/// # Errors
/// The output, if the future completed.
pub async fn pause_after<F: Future>(future: F, n: usize) -> Result<Pin<Box<F>>, F::Output> {
    let mut polls = Polls { future: Box::pin(future), left: n };
    match (&mut polls).await {
        Some(output) => Err(output),
        None => Ok(polls.future),
    }
}

struct Polls<F> {
    future: Pin<Box<F>>,
    left: usize,
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_await_is_a_place_to_drop() {
        let seen = RefCell::new(Vec::new());
        let polls = drop_at_every_poll(
            |_| async {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_secs(3600)).await;
                tokio::task::yield_now().await;
                7
            },
            |n, output| {
                seen.borrow_mut().push((n, output));
                async {}
            },
        )
        .await;
        assert_eq!(polls, 4);
        assert_eq!(seen.into_inner(), [(0, None), (1, None), (2, None), (3, None), (4, Some(7))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_that_is_ready_at_once_is_still_dropped_unpolled_first() {
        let polled = RefCell::new(0);
        let polls = drop_at_every_poll(|_| async { *polled.borrow_mut() += 1 }, |_, _| async {}).await;
        assert_eq!((polls, polled.into_inner()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_future_goes_on_where_it_was() {
        let work = async {
            tokio::task::yield_now().await;
            5
        };
        assert_eq!(pause_after(work, 1).await.ok().unwrap().await, 5);
        assert_eq!(pause_after(async { 6 }, 1).await.err(), Some(6));
    }
}
