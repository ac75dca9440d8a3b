use tenure_core::{Answered, Claim, Eviction, Filter, Held, Renewal, Seq, When};

use crate::{Cx, Failure, Result, cancel::poll_times, ensure, faults::Yielding, steps::*};

super::area! { "cancel":
    attempt_leaves_nothing,
    waiting_attempt_leaves_nothing,
    turn_leaves_nothing,
    renew_keeps_the_hold,
    downgrade_keeps_the_hold (Shared),
    release_can_be_asked_again,
    evict_can_be_asked_again,
    line_changes_nothing,
}

/// The most polls a verb may need before it is taken to hang.
const MAX_POLLS: usize = 64;

/// After a release nothing is left of the claim: at once, or, if its attempt was still on its way, within the
/// lease which that attempt asked for.
async fn gone(cx: &Cx, claim: &Claim) -> Result<()> {
    let _ = cx.a.release(claim, Answered::InDoubt).await?;
    cx.eventually("nothing was left of a cancelled claim", claim.ttl.get() + cx.grace, async || {
        Ok(places(&cx.b, claim).await? == 0)
    })
    .await
}

fn too_many() -> Failure {
    Failure::new(format!("a verb needed more than {MAX_POLLS} polls"))
}

/// An attempt dropped at any point of it is undone by one release.
async fn attempt_leaves_nothing(cx: Cx) -> Result<()> {
    for engine in [cx.a.clone(), Yielding::over(cx.a.clone())] {
        for polls in 0..=MAX_POLLS {
            ensure!(polls < MAX_POLLS, "{}", too_many());
            let claim = cx.brief();
            let done = poll_times(engine.attempt(&claim), polls).await.is_some();
            gone(&cx, &claim).await?;
            let next = cx.hasty_exclusive();
            hold(&cx.b, &next).await?;
            let_go(&cx.b, &next).await?;
            if done {
                break;
            }
        }
    }
    Ok(())
}

/// A waiter's attempt dropped at any point of it is undone by one release, and the holder stays.
async fn waiting_attempt_leaves_nothing(cx: Cx) -> Result<()> {
    let holder = cx.exclusive();
    let seq = hold(&cx.b, &holder).await?.seat.seq;
    for polls in 0..MAX_POLLS {
        let claim = cx.brief();
        let done = poll_times(cx.a.attempt(&claim), polls).await.is_some();
        gone(&cx, &claim).await?;
        still_holds(&cx.b, &holder, seq).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}

/// A wait dropped at any point of it is undone by one release, also while the lock is being handed to it.
async fn turn_leaves_nothing(cx: Cx) -> Result<()> {
    for polls in 0..8 {
        let (holder, waiter) = (cx.exclusive(), cx.brief());
        hold(&cx.b, &holder).await?;
        wait(&cx.a, &waiter).await?;
        {
            let mut turn = Box::pin(cx.a.turn(&waiter));
            let early = poll_times(turn.as_mut(), 1).await;
            let_go(&cx.b, &holder).await?;
            // Polled until the news is there or the engine is slow: then it is dropped as it is. (A turn may be
            // spurious, and then there is nothing left to poll.)
            if early.is_none() {
                let limit = std::time::Duration::from_millis(50);
                let _ = tokio::time::timeout(limit, poll_times(turn, polls)).await;
            }
        }
        gone(&cx, &waiter).await?;
        let next = cx.hasty_exclusive();
        hold(&cx.b, &next).await?;
        let_go(&cx.b, &next).await?;
    }
    Ok(())
}

/// A renewal dropped at any point of it loses nothing: the next one renews.
async fn renew_keeps_the_hold(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    for polls in 0..MAX_POLLS {
        let hold = [Held { claim: &claim, seq }];
        let done = poll_times(cx.a.renew(&hold), polls).await.is_some();
        still_holds(&cx.a, &claim, seq).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}

/// A downgrade dropped at any point of it happened or did not, and can be asked again.
async fn downgrade_keeps_the_hold(cx: Cx) -> Result<()> {
    for polls in 0..MAX_POLLS {
        let claim = cx.exclusive();
        let seq = hold(&cx.a, &claim).await?.seat.seq;
        let done = poll_times(cx.a.downgrade(Held { claim: &claim, seq }), polls).await.is_some();
        still_holds(&cx.a, &claim, seq).await?;
        let again = cx.a.downgrade(Held { claim: &claim, seq }).await?;
        ensure!(matches!(again, Renewal::Renewed(_)), "a downgrade asked again is {again:?}");
        let_go(&cx.a, &claim).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}

/// A release dropped at any point of it happened or did not, and asked again leaves nothing.
async fn release_can_be_asked_again(cx: Cx) -> Result<()> {
    for polls in 0..MAX_POLLS {
        let claim = cx.exclusive();
        hold(&cx.a, &claim).await?;
        let done = poll_times(cx.a.release(&claim, Answered::All), polls).await.is_some();
        let _ = cx.a.release(&claim, Answered::All).await?;
        nobody(&cx.b, &cx.key).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}

/// An eviction dropped at any point of it happened or did not, and asked again has happened.
async fn evict_can_be_asked_again(cx: Cx) -> Result<()> {
    for polls in 0..MAX_POLLS {
        let claim = cx.exclusive();
        let seq: Seq = hold(&cx.a, &claim).await?.seat.seq;
        let eviction = Eviction { key: cx.key.clone(), id: claim.id, seq, when: When::Now };
        let done = poll_times(cx.b.evict(&eviction), polls).await.is_some();
        let _ = cx.b.evict(&eviction).await?;
        let next = cx.hasty_exclusive();
        hold(&cx.b, &next).await?;
        let_go(&cx.b, &next).await?;
        // At a minority of a quorum the attempt itself may come later than the eviction: its owner frees that.
        let _ = cx.a.release(&claim, Answered::All).await?;
        nobody(&cx.a, &cx.key).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}

/// A look at the line dropped at any point of it changes nothing.
async fn line_changes_nothing(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    for polls in 0..MAX_POLLS {
        let filter = Filter::Key(cx.key.clone());
        let done = poll_times(cx.b.line(&filter), polls).await.is_some();
        still_holds(&cx.a, &claim, seq).await?;
        if done {
            return Ok(());
        }
    }
    Err(too_many())
}
