use std::time::Duration;

use tenure_core::{Claim, Renewal};

use crate::{Cx, Result, ensure, ensure_eq, steps::*};

super::area! { "lapse":
    the_next_gets_in (Leases),
    not_before_its_time (Leases, VirtualTime),
    ends_at_the_instant (Leases, VirtualTime),
    a_waiting_place_ends_too (Leases, Fifo),
    who_comes_back_stands_at_the_end (Leases, Fifo),
    a_waiter_does_not_prolong_the_holder (Leases),
    renewing_keeps_it_alive (Leases),
    busy_says_when (Leases),
    an_abandoned_attempt_ends_too (Leases),
    processes_hold_without_time (Processes),
    sessions_hold_without_renewals (Sessions),
}

/// After its ttl an unrenewed holder has lost the key, and the next attempt holds.
async fn the_next_gets_in(cx: Cx) -> Result<()> {
    let (dead, next) = (cx.brief(), cx.exclusive());
    let old = hold(&cx.a, &dead).await?.seat.seq;
    cx.lapse(&dead).await;
    let new = hold(&cx.b, &next).await?.seat.seq;
    ensure!(new > old, "the next holder has number {new}, the dead one had {old}");
    ensure_eq!(renew(&cx.a, &dead, old).await?, Renewal::Lost, "a renewal by the dead holder");
    Ok(())
}

/// A holder keeps the key for the whole of its lease.
async fn not_before_its_time(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    cx.pass(holder.ttl.get() - Duration::from_millis(1)).await;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    still_holds(&cx.a, &holder, seq).await
}

/// A place is alive while `now < deadline`, and gone at the deadline itself.
async fn ends_at_the_instant(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    cx.pass(holder.ttl.get()).await;
    ensure_eq!(renew(&cx.a, &holder, seq).await?, Renewal::Lost, "a renewal at the deadline");
    hold(&cx.b, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A waiter that stays silent past its ttl loses its place and holds nobody up.
async fn a_waiting_place_ends_too(cx: Cx) -> Result<()> {
    let (holder, dead, next) = (cx.exclusive(), cx.brief(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.b, &dead).await?;
    queue(&cx.b, &next).await?;
    cx.lapse(&dead).await;
    let_go(&cx.a, &holder).await?;
    hold(&cx.b, &next).await?;
    Ok(())
}

/// A waiter that comes back after its place ended stands at the end of the line, with a new number.
async fn who_comes_back_stands_at_the_end(cx: Cx) -> Result<()> {
    let (holder, sleeper, next) = (cx.exclusive(), cx.brief(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.b, &sleeper).await?;
    let before = queue(&cx.a, &next).await?.seq;
    cx.lapse(&sleeper).await;
    let after = queue(&cx.b, &sleeper).await?.seq;
    ensure!(after > before, "who came back has number {after}, who stayed has {before}");
    let_go(&cx.a, &holder).await?;
    hold(&cx.a, &next).await?;
    Ok(())
}

/// Those who ask for the key do not keep its dead holder alive, however long their own leases are.
async fn a_waiter_does_not_prolong_the_holder(cx: Cx) -> Result<()> {
    let (dead, waiter) = (cx.brief(), cx.exclusive());
    hold(&cx.a, &dead).await?;
    for _ in 0..3 {
        wait(&cx.b, &waiter).await?;
        wait(&cx.b, &cx.hasty_exclusive()).await?;
        cx.pass(dead.ttl.get() / 5).await;
    }
    cx.lapse(&Claim { ttl: dead.ttl, ..dead.clone() }).await;
    ensure_eq!(places(&cx.b, &dead).await?, 0, "places of the dead holder");
    hold(&cx.b, &waiter).await?;
    Ok(())
}

/// A holder that renews in time keeps the key past its first deadline.
async fn renewing_keeps_it_alive(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    for _ in 0..5 {
        cx.pass(holder.ttl.renew_every()).await;
        still_holds(&cx.a, &holder, seq).await?;
        wait(&cx.b, &cx.hasty_exclusive()).await?;
    }
    Ok(())
}

/// A busy claim learns when the first lease ahead of it ends, so that it asks again in time; never too early.
async fn busy_says_when(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    hold(&cx.a, &holder).await?;
    let busy = wait(&cx.b, &cx.exclusive()).await?;
    let Some(ends) = busy.lapses_in else { return Ok(()) };
    ensure!(ends <= holder.ttl.get(), "a lease of {:?} is said to end in {ends:?}", holder.ttl);
    ensure!(ends > holder.ttl.get() / 4, "a fresh lease of {:?} is said to end in {ends:?}", holder.ttl);
    Ok(())
}

/// An attempt whose caller died at any point of it leaves a place that ends like any other, or none.
async fn an_abandoned_attempt_ends_too(cx: Cx) -> Result<()> {
    for polls in 0..64 {
        let abandoned = cx.brief();
        let done = crate::cancel::poll_times(cx.a.attempt(&abandoned), polls).await.is_some();
        cx.lapse(&abandoned).await;
        if cx.time == crate::Time::Real {
            // Nobody knows when it arrived: it was on its way when its caller went.
            let over = || async { Ok(line(&cx.b, &cx.key).await?.is_empty()) };
            cx.eventually("an abandoned place ends", Cx::LIMIT / 2, over).await?;
        }
        nobody(&cx.b, &cx.key).await?;
        let next = cx.hasty_exclusive();
        hold(&cx.b, &next).await?;
        let_go(&cx.b, &next).await?;
        // Where time is real, the first and the last point must do.
        if done || (cx.time == crate::Time::Real && polls > 3) {
            return Ok(());
        }
    }
    Err(crate::Failure::new("an attempt needed more than 64 polls"))
}

/// Where places end with their process, time alone ends none, whatever ttl was asked for.
async fn processes_hold_without_time(cx: Cx) -> Result<()> {
    let holder = cx.brief();
    let grant = hold(&cx.a, &holder).await?;
    ensure_eq!(grant.ttl, None, "the lease of a place that ends with its process");
    cx.pass(holder.ttl.get() + Duration::from_millis(200)).await;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    still_holds(&cx.a, &holder, grant.seat.seq).await
}

/// Where places end with a session, no place of a client that lives ends, renewed or not, held or waiting; and a renewal
/// never promises more than was asked for.
async fn sessions_hold_without_renewals(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.brief(), cx.brief());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    let waiting = queue(&cx.b, &waiter).await?.seq;
    cx.lapse(&holder).await;
    cx.lapse(&holder).await;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    ensure_eq!(queue(&cx.b, &waiter).await?.seq, waiting, "the place of a waiter that was silent");
    match renew(&cx.a, &holder, seq).await? {
        Renewal::Renewed(Some(ttl)) => ensure!(ttl <= holder.ttl.get(), "renewed for {ttl:?}"),
        other => return Err(crate::Failure::new(format!("the hold of a session that lives is {other:?}"))),
    }
    still_holds(&cx.a, &holder, seq).await
}
