use tenure_core::{Attempt, Claim, Key, Mode, Standing, Ttl};

use crate::{Cx, Result, ensure, ensure_eq, steps::*};

super::area! { "attempt":
    says_so_when_it_holds,
    repeated_is_one_place,
    repeated_by_a_waiter_is_one_place (Fifo),
    try_leaves_nothing_behind,
    never_changes_the_mode (Shared),
    never_changes_the_mode_to_permits (Permits),
    never_shortens_a_lease (Leases),
    refreshes_a_waiting_place (Leases, Fifo),
    says_how_many_are_ahead (Fifo),
    says_how_long_a_waiting_place_lives (Fifo),
    takes_every_ttl (Leases),
}

/// On a free key the answer is `Granted`, with the lease that was asked for, and the line agrees.
async fn says_so_when_it_holds(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let grant = hold(&cx.a, &claim).await?;
    match grant.ttl {
        Some(ttl) => {
            ensure!(cx.leases(), "an engine without leases granted one of {ttl:?}");
            ensure!(ttl <= claim.ttl.get(), "a lease of {ttl:?} was granted, {:?} asked for", claim.ttl);
        }
        None => ensure!(!cx.leases(), "an engine with leases granted none"),
    }
    let line = line(&cx.b, &cx.key).await?;
    ensure_eq!(line.len(), 1, "places in the line");
    ensure_eq!(line[0].standing, Standing::Holds, "the standing of a granted claim");
    ensure_eq!(line[0].seq, grant.seat.seq, "the number in the line");
    Ok(())
}

/// An attempt that is repeated keeps its place: one line entry, one number, still granted.
async fn repeated_is_one_place(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let first = hold(&cx.a, &claim).await?;
    for _ in 0..3 {
        let again = hold(&cx.a, &claim).await?;
        ensure_eq!(again.seat, first.seat, "the seat of a repeated attempt");
    }
    ensure_eq!(line(&cx.b, &cx.key).await?.len(), 1, "places of one claim");
    let_go(&cx.a, &claim).await?;
    nobody(&cx.b, &cx.key).await
}

/// A waiter learns how long its place lives: a push is good for no longer.
async fn says_how_long_a_waiting_place_lives(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let answer = cx.b.attempt(&waiter).await?;
    ensure!(matches!(answer, Attempt::Busy(_)), "two hold at once: {answer:?}");
    let lives = if let Attempt::Busy(busy) = answer { busy.ttl } else { None };
    match lives {
        Some(ttl) => {
            ensure!(cx.leases(), "an engine without leases gave a waiter one of {ttl:?}");
            ensure!(ttl <= waiter.ttl.get(), "a waiter got a lease of {ttl:?}, {:?} asked for", waiter.ttl);
        }
        None => ensure!(!cx.leases(), "an engine with leases gave a waiter none"),
    }
    Ok(())
}

/// A waiter that asks again keeps its place and stays before those who came later.
async fn repeated_by_a_waiter_is_one_place(cx: Cx) -> Result<()> {
    let (holder, early, late) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let (first, behind) = (queue(&cx.a, &early).await?.seq, queue(&cx.b, &late).await?.seq);
    for _ in 0..3 {
        ensure_eq!(queue(&cx.a, &early).await?.seq, first, "the seat of a repeated attempt");
    }
    ensure!(first < behind, "the later waiter has number {behind}, the earlier one {first}");
    ensure_eq!(line(&cx.b, &cx.key).await?.len(), 3, "places of three claims");
    Ok(())
}

/// A claim that does not wait and cannot hold leaves no place, and wakes and delays nobody.
async fn try_leaves_nothing_behind(cx: Cx) -> Result<()> {
    let holder = cx.exclusive();
    hold(&cx.a, &holder).await?;
    for _ in 0..3 {
        let hasty = cx.hasty_exclusive();
        let busy = wait(&cx.b, &hasty).await?;
        ensure!(busy.seat.is_none(), "a claim that does not wait was given {:?}", busy.seat);
        ensure_eq!(places(&cx.a, &hasty).await?, 0, "places of a claim that does not wait");
    }
    let_go(&cx.a, &holder).await?;
    nobody(&cx.b, &cx.key).await?;
    hold(&cx.b, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A repeated attempt that names another mode changes nothing: a reader does not become a writer in place.
async fn never_changes_the_mode(cx: Cx) -> Result<()> {
    let (reader, other) = (cx.shared(), cx.shared());
    hold(&cx.a, &reader).await?;
    let seq = hold(&cx.b, &other).await?.seat.seq;
    // Whatever it answers, or if it refuses: what counts is the line.
    let _ = cx.a.attempt(&Claim { mode: Mode::Exclusive, ..reader.clone() }).await;
    keeps_mode(&cx, &reader).await?;
    still_holds(&cx.b, &other, seq).await?;
    let writer = cx.exclusive();
    let_go(&cx.a, &reader).await?;
    let_go(&cx.b, &other).await?;
    hold(&cx.a, &writer).await?;
    let _ = cx.a.attempt(&Claim { mode: Mode::Shared, ..writer.clone() }).await;
    keeps_mode(&cx, &writer).await
}

/// A repeated attempt that names other permits changes nothing.
async fn never_changes_the_mode_to_permits(cx: Cx) -> Result<()> {
    let claim = cx.permits(1, 3)?;
    hold(&cx.a, &claim).await?;
    let _ = cx.a.attempt(&Claim { mode: cx.permits(3, 3)?.mode, ..claim.clone() }).await;
    keeps_mode(&cx, &claim).await?;
    hold(&cx.b, &cx.permits(2, 3)?).await?;
    Ok(())
}

async fn keeps_mode(cx: &Cx, claim: &Claim) -> Result<()> {
    let line = line(&cx.b, &cx.key).await?;
    let modes: Vec<_> = line.iter().filter(|place| place.id == claim.id).map(|place| place.mode).collect();
    ensure_eq!(modes, [claim.mode], "the modes of the claim's places");
    Ok(())
}

/// A repeated attempt with a shorter ttl does not bring the end of the lease forward.
async fn never_shortens_a_lease(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let short = Claim { ttl: cx.brief_ttl(), ..claim.clone() };
    hold(&cx.a, &short).await?;
    lives_longer(&cx.b, &claim, short.ttl.get()).await?;
    cx.lapse(&short).await;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    still_holds(&cx.a, &claim, seq).await
}

/// A waiter that asks again lives on: its place does not end at the deadline of its first attempt.
async fn refreshes_a_waiting_place(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.brief());
    hold(&cx.a, &holder).await?;
    let seq = queue(&cx.b, &waiter).await?.seq;
    for _ in 0..4 {
        cx.pass(waiter.ttl.get() / 3).await;
        let again = queue(&cx.b, &Claim { ttl: Ttl::new(waiter.ttl.get())?, ..waiter.clone() }).await?.seq;
        ensure_eq!(again, seq, "the seat of a waiter that asks again in time");
    }
    Ok(())
}

/// A waiter learns how many places are ahead of it, if anything.
async fn says_how_many_are_ahead(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.exclusive()).await?;
    for ahead in 1..4 {
        let Attempt::Busy(busy) = cx.b.attempt(&cx.exclusive()).await? else { continue };
        ensure!(busy.ahead.is_none_or(|said| said == ahead), "{ahead} are ahead, not {:?}", busy.ahead);
    }
    Ok(())
}

/// The shortest lease that the engine declares and the longest there is are granted, and shown as what they are.
async fn takes_every_ttl(cx: Cx) -> Result<()> {
    for ttl in [cx.guarantees.min_ttl, Ttl::MAX] {
        let ttl = Ttl::new(ttl)?;
        let key = Key::new(format!("{}/{ttl:?}", cx.key.as_str()))?;
        let grant = hold(&cx.a, &Claim { key: key.clone(), ttl, ..cx.exclusive() }).await?;
        ensure!(
            grant.ttl.is_some_and(|granted| granted <= ttl.get() && granted >= ttl.get() / 2),
            "a lease of {ttl:?} was granted as {:?}",
            grant.ttl
        );
        // The shortest may have ended on the way.
        let left = line(&cx.b, &key).await?.first().and_then(|place| place.lease_left);
        ensure!(left.is_none_or(|left| left <= ttl.get()), "a lease of {ttl:?} has {left:?} left");
    }
    Ok(())
}
