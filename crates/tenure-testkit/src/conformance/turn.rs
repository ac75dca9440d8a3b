use std::time::Duration;

use tenure_core::{Evicted, Eviction, When};

use crate::{Cx, Result, ensure, ensure_eq, steps::*};

super::area! { "turn":
    comes_after_release (Fifo, Push),
    comes_if_the_release_was_first (Fifo, Push),
    comes_when_the_one_ahead_gives_up (Fifo, Push),
    comes_to_every_reader (Fifo, Push, Shared),
    comes_after_eviction (Fifo, Push),
    comes_after_a_lease_that_ended (Fifo, Push, Leases),
    ends_for_a_cancelled_claim (Fifo, Push),
    can_be_dropped_and_asked_again (Fifo, Push),
    does_not_lie_while_waiting (Fifo),
}

/// A waiter is told when the holder lets go.
async fn comes_after_release(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    futures_util::try_join!(turn(&cx.b, &waiter, seq, Cx::LIMIT), let_go(&cx.a, &holder))?;
    Ok(())
}

/// A waiter that asks for its turn after the holder let go does not miss it.
async fn comes_if_the_release_was_first(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    let_go(&cx.a, &holder).await?;
    turn(&cx.b, &waiter, seq, Cx::LIMIT).await
}

/// A reader behind a waiting writer is told when the writer gives up.
async fn comes_when_the_one_ahead_gives_up(cx: Cx) -> Result<()> {
    let (holder, ahead, waiter) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.a, &ahead).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    let leave = async {
        let_go(&cx.a, &ahead).await?;
        let_go(&cx.a, &holder).await
    };
    futures_util::try_join!(turn(&cx.b, &waiter, seq, Cx::LIMIT), leave)?;
    Ok(())
}

/// Every reader that comes to hold by one release is told.
async fn comes_to_every_reader(cx: Cx) -> Result<()> {
    let (writer, one, two) = (cx.exclusive(), cx.shared(), cx.shared());
    hold(&cx.a, &writer).await?;
    let (first, second) = (queue(&cx.b, &one).await?.seq, queue(&cx.a, &two).await?.seq);
    futures_util::try_join!(
        turn(&cx.b, &one, first, Cx::LIMIT),
        turn(&cx.a, &two, second, Cx::LIMIT),
        let_go(&cx.a, &writer)
    )?;
    Ok(())
}

/// A waiter is told when an operator removes the holder.
async fn comes_after_eviction(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    let held = hold(&cx.a, &holder).await?.seat.seq;
    let seq = queue(&cx.b, &waiter).await?.seq;
    let eviction = Eviction { key: cx.key.clone(), id: holder.id, seq: held, when: When::Now };
    let evict = async {
        ensure_eq!(cx.a.evict(&eviction).await?, Evicted::Freed, "the eviction");
        Ok(())
    };
    futures_util::try_join!(turn(&cx.b, &waiter, seq, Cx::LIMIT), evict)?;
    Ok(())
}

/// The verb that removes places whose lease has ended tells those who now hold, whoever calls it.
async fn comes_after_a_lease_that_ended(cx: Cx) -> Result<()> {
    let (dead, waiter) = (cx.brief(), cx.exclusive());
    hold(&cx.a, &dead).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    let other = async {
        cx.lapse(&dead).await;
        wait(&cx.a, &cx.hasty_exclusive()).await?;
        Ok(())
    };
    let limit = Cx::LIMIT + dead.ttl.get();
    futures_util::try_join!(turn(&cx.b, &waiter, seq, limit), other)?;
    Ok(())
}

/// A turn of a claim that was released meanwhile ends or stays silent, and never says that it holds.
async fn ends_for_a_cancelled_claim(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.b, &waiter).await?;
    let cancel = async {
        let_go(&cx.b, &waiter).await?;
        let_go(&cx.a, &holder).await
    };
    let news = tokio::time::timeout(Duration::from_secs(1), cx.b.turn(&waiter));
    let (news, cancelled) = futures_util::join!(news, cancel);
    cancelled?;
    if let Ok(tenure_core::Turn::Holds(seat)) = news {
        return Err(crate::Failure::new(format!("a cancelled claim was told that it holds {seat:?}")));
    }
    nobody(&cx.a, &cx.key).await
}

/// A turn that was dropped unheard takes nothing with it: the next one still comes.
async fn can_be_dropped_and_asked_again(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    for _ in 0..3 {
        let early = crate::cancel::poll_times(cx.b.turn(&waiter), 1).await;
        ensure!(!matches!(early, Some(tenure_core::Turn::Holds(_))), "a waiter was told that it holds");
    }
    futures_util::try_join!(turn(&cx.b, &waiter, seq, Cx::LIMIT), let_go(&cx.a, &holder))?;
    Ok(())
}

/// While others are ahead, no turn says that the claim holds.
async fn does_not_lie_while_waiting(cx: Cx) -> Result<()> {
    let (holder, middle, last) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.a, &middle).await?;
    queue(&cx.b, &last).await?;
    let_go(&cx.a, &holder).await?;
    let news = tokio::time::timeout(Duration::from_millis(300), cx.b.turn(&last)).await;
    ensure!(!matches!(news, Ok(tenure_core::Turn::Holds(_))), "one behind another was told {news:?}");
    Ok(())
}
