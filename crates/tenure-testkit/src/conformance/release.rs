use tenure_core::{Answered, Evicted, Eviction, Released, When};

use crate::{Cx, Result, cancel::pause_after, ensure, ensure_eq, steps::*};

super::area! { "release":
    by_a_stale_owner_frees_nobody (Leases),
    by_a_stranger_frees_nobody,
    touches_no_other_claim (Fifo),
    leaves_the_line_alone (Fifo),
    of_a_waiter_leaves_the_holder (Fifo),
    twice_is_not_held,
    of_an_unknown_key_is_not_held,
    paused_anywhere_frees_nobody_else,
}

/// A holder that outlived its lease frees nothing when it wakes up.
async fn by_a_stale_owner_frees_nobody(cx: Cx) -> Result<()> {
    let (slow, next) = (cx.brief(), cx.exclusive());
    hold(&cx.a, &slow).await?;
    cx.lapse(&slow).await;
    let seq = hold(&cx.b, &next).await?.seat.seq;
    ensure_eq!(cx.a.release(&slow, Answered::All).await?, Released::NotHeld, "the stale owner's release");
    still_holds(&cx.b, &next, seq).await
}

/// A claim that has no place frees nobody's.
async fn by_a_stranger_frees_nobody(cx: Cx) -> Result<()> {
    let holder = cx.exclusive();
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    for engine in [&cx.b, &cx.a] {
        for answered in [Answered::All, Answered::InDoubt] {
            let stranger = cx.exclusive();
            ensure_eq!(engine.release(&stranger, answered).await?, Released::NotHeld, "a stranger's release");
        }
    }
    still_holds(&cx.a, &holder, seq).await
}

/// A release takes exactly one claim out of the line.
async fn touches_no_other_claim(cx: Cx) -> Result<()> {
    let claims = [cx.exclusive(), cx.exclusive(), cx.exclusive(), cx.exclusive()];
    hold(&cx.a, &claims[0]).await?;
    for claim in &claims[1..] {
        queue(&cx.b, claim).await?;
    }
    for (gone, left) in [(2, vec![0, 1, 3]), (0, vec![1, 3]), (3, vec![1])] {
        let_go(if gone == 0 { &cx.a } else { &cx.b }, &claims[gone]).await?;
        let line: Vec<_> = line(&cx.a, &cx.key).await?.iter().map(|place| place.id).collect();
        let want: Vec<_> = left.iter().map(|&n: &usize| claims[n].id).collect();
        ensure_eq!(line, want, "the line after claim {gone} left");
    }
    Ok(())
}

/// The waiters keep their places and numbers when the holder lets go.
async fn leaves_the_line_alone(cx: Cx) -> Result<()> {
    let (holder, early, late) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let seqs = [queue(&cx.a, &early).await?.seq, queue(&cx.b, &late).await?.seq];
    let_go(&cx.a, &holder).await?;
    let line: Vec<_> = line(&cx.b, &cx.key).await?.iter().map(|place| place.seq).collect();
    ensure_eq!(line, seqs, "the numbers of the waiters");
    ensure_eq!(hold(&cx.a, &early).await?.seat.seq, seqs[0], "the number of the one who now holds");
    Ok(())
}

/// A waiter that gives up leaves, and the holder stays.
async fn of_a_waiter_leaves_the_holder(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&cx.a, &holder).await?.seat.seq;
    queue(&cx.b, &waiter).await?;
    let_go(&cx.b, &waiter).await?;
    ensure_eq!(places(&cx.a, &waiter).await?, 0, "places of a waiter that gave up");
    still_holds(&cx.a, &holder, seq).await
}

/// The second release of a claim says that there was nothing to free.
async fn twice_is_not_held(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    hold(&cx.a, &claim).await?;
    let_go(&cx.a, &claim).await?;
    for answered in [Answered::All, Answered::InDoubt] {
        ensure_eq!(cx.a.release(&claim, answered).await?, Released::NotHeld, "the second release");
    }
    nobody(&cx.b, &cx.key).await
}

/// A release on a key that was never used says so and writes nothing.
async fn of_an_unknown_key_is_not_held(cx: Cx) -> Result<()> {
    ensure_eq!(cx.a.release(&cx.exclusive(), Answered::InDoubt).await?, Released::NotHeld, "the release");
    nobody(&cx.b, &cx.key).await
}

/// A release that is stopped anywhere on its way, and goes on after its place was taken away and given to
/// another, leaves the other alone: asking whose and deleting are one step.
async fn paused_anywhere_frees_nobody_else(cx: Cx) -> Result<()> {
    for polls in 0..64 {
        let (slow, next) = (cx.exclusive(), cx.exclusive());
        let seq = hold(&cx.a, &slow).await?.seat.seq;
        let paused = match pause_after(cx.a.release(&slow, Answered::All), polls).await {
            Ok(paused) => paused,
            Err(released) => {
                ensure_eq!(released?, Released::Freed, "a release that was not stopped");
                return Ok(());
            }
        };
        let eviction = Eviction { key: cx.key.clone(), id: slow.id, seq, when: When::Now };
        let evicted = cx.b.evict(&eviction).await?;
        ensure!(evicted != Evicted::Stopped, "an eviction at once was {evicted:?}");
        let seq = hold(&cx.b, &next).await?.seat.seq;
        // The release may have found its place before it was evicted: either answer is true.
        let _ = cx.within("the release was answered", paused).await??;
        still_holds(&cx.b, &next, seq).await?;
        let_go(&cx.b, &next).await?;
    }
    Err(crate::Failure::new("a release needed more than 64 polls"))
}
