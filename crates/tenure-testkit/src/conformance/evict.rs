use tenure_core::{Answered, Attempt, Claim, ErrorKind, Evicted, Eviction, Released, Renewal, Seq, When};

use crate::{Cx, Failure, Result, ensure, ensure_eq, steps::*};

super::area! { "evict":
    now_frees_at_once,
    gently_never_two_holders,
    gently_frees_at_the_deadline (Leases),
    gently_stopped_is_not_granted_anew (Leases),
    a_wrong_number_touches_nobody,
    of_somebody_gone_is_gone,
    of_a_waiter_leaves_the_rest (Fifo),
    an_evicted_waiter_stays_out (Fifo),
    the_owner_is_told,
}

fn eviction(claim: &Claim, seq: Seq, when: When) -> Eviction {
    Eviction { key: claim.key.clone(), id: claim.id, seq, when }
}

/// An eviction at once frees the place, and its owner's next renewal is `Lost`.
async fn now_frees_at_once(cx: Cx) -> Result<()> {
    let (holder, next) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    ensure_eq!(cx.b.evict(&eviction(&holder, seq, When::Now)).await?, Evicted::Freed, "the eviction");
    let new = hold(&cx.b, &next).await?.seat.seq;
    ensure!(new > seq, "the next holder has number {new}, the evicted one had {seq}");
    ensure_eq!(renew(&cx.a, &holder, seq).await?, Renewal::Lost, "a renewal by the evicted");
    ensure_eq!(cx.a.release(&holder, Answered::All).await?, Released::NotHeld, "a release by the evicted");
    still_holds(&cx.b, &next, new).await
}

/// A gentle eviction stops renewals, but nobody else holds until the owner let go.
async fn gently_never_two_holders(cx: Cx) -> Result<()> {
    let (holder, next) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    ensure_eq!(cx.b.evict(&eviction(&holder, seq, When::Gently)).await?, Evicted::Stopped, "the eviction");
    wait(&cx.b, &next).await?;
    ensure_eq!(renew(&cx.a, &holder, seq).await?, Renewal::Lost, "a renewal by the evicted");
    wait(&cx.b, &next).await?;
    let_go(&cx.a, &holder).await?;
    hold(&cx.b, &next).await?;
    Ok(())
}

/// A gently evicted place is free at its deadline, whatever its owner tries meanwhile.
async fn gently_frees_at_the_deadline(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    let _ = cx.b.evict(&eviction(&holder, seq, When::Gently)).await?;
    cx.pass(holder.ttl.get() / 2).await;
    let _ = renew(&cx.a, &holder, seq).await?;
    let _ = cx.a.attempt(&holder).await;
    cx.pass(holder.ttl.get() / 2).await;
    cx.eventually("the evicted place was free", holder.ttl.get() / 4 + cx.grace, async || {
        Ok(matches!(cx.b.attempt(&cx.hasty_exclusive()).await?, Attempt::Granted(_)))
    })
    .await
}

/// A gently evicted holder that asks again, because it never saw its grant, is not promised time which its
/// place does not have.
async fn gently_stopped_is_not_granted_anew(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    let _ = cx.b.evict(&eviction(&holder, seq, When::Gently)).await?;
    cx.pass(holder.ttl.get() / 2).await;
    match cx.a.attempt(&holder).await {
        Ok(Attempt::Granted(grant)) => {
            let shown = line(&cx.b, &cx.key).await?;
            let left = shown.iter().find(|place| place.id == holder.id).and_then(|place| place.lease_left);
            ensure!(
                grant.ttl.is_none_or(|ttl| left.is_some_and(|left| ttl <= left + holder.ttl.margin())),
                "a stopped place was granted for {:?}, and has {left:?} left",
                grant.ttl
            );
        }
        Ok(Attempt::Busy(_)) => {}
        Err(error) => ensure_eq!(error.kind(), ErrorKind::Lost, "the kind of the refusal"),
    }
    Ok(())
}

/// An eviction that names another number than the place has is `Gone`, and everybody stays.
async fn a_wrong_number_touches_nobody(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    wait(&cx.b, &waiter).await?;
    for when in [When::Now, When::Gently] {
        for wrong in [seq.get() + 100, seq.get() - 1].into_iter().filter_map(Seq::new) {
            ensure_eq!(cx.b.evict(&eviction(&holder, wrong, when)).await?, Evicted::Gone, "a wrong number");
        }
        let stranger = cx.exclusive();
        ensure_eq!(cx.b.evict(&eviction(&stranger, seq, when)).await?, Evicted::Gone, "a wrong claim");
    }
    still_holds(&cx.a, &holder, seq).await?;
    ensure_eq!(renew(&cx.a, &holder, seq).await? == Renewal::Lost, false, "the holder is lost");
    Ok(())
}

/// An eviction of a place that has gone by itself is `Gone`, and its successor stays.
async fn of_somebody_gone_is_gone(cx: Cx) -> Result<()> {
    let (holder, next) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    let_go(&cx.a, &holder).await?;
    ensure_eq!(cx.b.evict(&eviction(&holder, seq, When::Now)).await?, Evicted::Gone, "nobody's eviction");
    nobody(&cx.b, &cx.key).await?;
    let new = hold(&cx.b, &next).await?.seat.seq;
    ensure_eq!(cx.b.evict(&eviction(&holder, seq, When::Now)).await?, Evicted::Gone, "a late eviction");
    still_holds(&cx.b, &next, new).await
}

/// Evicting a waiter takes its place and no other.
async fn of_a_waiter_leaves_the_rest(cx: Cx) -> Result<()> {
    let (holder, waiter, last) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    let held = hold(&cx.a, &holder).await?.seat.seq;
    let seq = queue(&cx.a, &waiter).await?.seq;
    queue(&cx.b, &last).await?;
    ensure_eq!(cx.b.evict(&eviction(&waiter, seq, When::Now)).await?, Evicted::Freed, "the eviction");
    let line: Vec<_> = line(&cx.b, &cx.key).await?.iter().map(|place| place.id).collect();
    ensure_eq!(line, [holder.id, last.id], "the line after the eviction");
    still_holds(&cx.a, &holder, held).await
}

/// A waiter that was evicted does not get back into the line by asking again.
async fn an_evicted_waiter_stays_out(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    let _ = cx.a.evict(&eviction(&waiter, seq, When::Now)).await?;
    match cx.b.attempt(&waiter).await {
        Err(error) => ensure_eq!(error.kind(), ErrorKind::Lost, "the kind of the refusal"),
        Ok(Attempt::Busy(_)) => {}
        Ok(Attempt::Granted(grant)) => return Err(Failure::new(format!("an evicted waiter got {grant:?}"))),
    }
    ensure_eq!(places(&cx.a, &waiter).await?, 0, "places of an evicted waiter");
    Ok(())
}

/// The client whose place was evicted is told, with claim and number; or never, but it is not told of others.
async fn the_owner_is_told(cx: Cx) -> Result<()> {
    let (holder, other) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    let _ = wait(&cx.b, &other).await?;
    let evict = async { cx.b.evict(&eviction(&holder, seq, When::Now)).await };
    let told = tokio::time::timeout(std::time::Duration::from_secs(2), cx.a.lost());
    let (told, evicted) = futures_util::join!(told, evict);
    let _ = evicted?;
    match told {
        Ok(told) => ensure_eq!(told, [(holder.id, seq)], "the losses that the owner was told"),
        // The contract allows silence; the next renewal tells.
        Err(_) => ensure_eq!(renew(&cx.a, &holder, seq).await?, Renewal::Lost, "a renewal by the evicted"),
    }
    Ok(())
}
