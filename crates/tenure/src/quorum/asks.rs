//! Questions on their way to the members of a quorum.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tenure_core::{Engine, Error, Op, Result};

use super::{Inner, verdict::Miss};
use crate::client::limited;

/// What a member said.
pub(super) type Said<T> = (usize, Result<T, Miss>);
/// One member's answer, on its way.
pub(super) type Ask<T> = BoxFuture<'static, Said<T>>;

/// Answers on their way, one for each member at most.
///
/// They are few, so all are looked at whenever one of them may be there. `FuturesUnordered` would keep a waker for each,
/// and call its task once more whenever it has looked at all.
pub(super) struct Asks<T>(Vec<Ask<T>>);

impl<T> Asks<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next answer; `None` when all have answered.
    pub(super) async fn next(&mut self) -> Option<Said<T>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Said<T>>> {
        for at in 0..self.0.len() {
            if let Poll::Ready(said) = self.0[at].as_mut().poll(cx) {
                drop(self.0.swap_remove(at));
                return Poll::Ready(Some(said));
            }
        }
        if self.0.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Listens until `hear` says that it has heard enough, and to whatever else has been said by then.
    pub(super) async fn listen(&mut self, mut hear: impl FnMut(usize, Result<T, Miss>) -> bool) {
        poll_fn(|cx| {
            let mut enough = false;
            loop {
                match self.poll_next(cx) {
                    Poll::Ready(Some((member, answer))) => enough = hear(member, answer),
                    Poll::Pending if !enough => return Poll::Pending,
                    Poll::Ready(None) | Poll::Pending => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
}

impl<T> Default for Asks<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<Ask<T>> for Asks<T> {
    fn from_iter<I: IntoIterator<Item = Ask<T>>>(asks: I) -> Self {
        Self(asks.into_iter().collect())
    }
}

impl<T> fmt::Debug for Asks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asks({})", self.0.len())
    }
}

impl Inner {
    /// Asks one member, within a limit that opening it counts towards.
    pub(super) fn ask<T, V, F>(&self, member: usize, limit: Duration, verb: V) -> Ask<T>
    where
        T: Send + 'static,
        V: FnOnce(Arc<dyn Engine>) -> F + Send + 'static,
        F: Future<Output = Result<T>> + Send,
    {
        let roster = self.roster.clone();
        Box::pin(async move {
            let work = pin!(async {
                let engine = roster.engine(member).await.map_err(Miss::Absent)?;
                verb(engine).await.map_err(Miss::Failed)
            });
            let answer = limited(limit, work).await.unwrap_or_else(|| {
                Err(match roster.opened(member) {
                    Some(_) => Miss::Silent(limit),
                    None => {
                        Miss::Absent(Error::unavailable(Op::Connect, format!("not open within {limit:?}")))
                    }
                })
            });
            (member, answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn it_listens_until_it_has_heard_enough_and_to_what_else_was_said_by_then() {
        let said = |member: usize| -> Ask<()> { Box::pin(ready((member, Ok(())))) };
        let mut asks = Asks::from_iter([said(0), Box::pin(pending()), said(2), said(3)]);
        let mut heard = Vec::new();
        let hear = |member, _| {
            heard.push(member);
            heard.len() >= 2
        };
        assert!(asks.listen(hear).now_or_never().is_some());
        heard.sort_unstable();
        assert_eq!(heard, [0, 2, 3]);
        assert!(asks.listen(|_, _| true).now_or_never().is_none(), "the last has not answered");
        assert!(asks.next().now_or_never().is_none() && !asks.is_empty());
        assert!(Asks::<()>::default().listen(|_, _| false).now_or_never().is_some(), "nobody is left");
    }
}
