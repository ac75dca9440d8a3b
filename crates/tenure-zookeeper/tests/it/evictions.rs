//! Evictions are written down: whom they concern learns of them, and nothing of them stays.

use tenure_core::{
    Answered, Engine, ErrorKind, Evicted, Eviction, Held, Mode, Released, Renewal, Turn, When,
};
use tenure_testkit::{Result, ensure, ensure_eq};

use crate::support::{claim, corner, hold, let_go, line, open, queue, turn, within};

/// A holder is told at once, gently or not; a release clears away what was written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_is_told_and_nothing_stays() -> Result {
    let url = corner("told")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    for when in [When::Now, When::Gently] {
        let held = claim("k", Mode::Exclusive)?;
        let seq = hold(&here, &held).await?.seat.seq;
        let eviction = Eviction { key: held.key.clone(), id: held.id, seq, when };
        let want = if when == When::Now { Evicted::Freed } else { Evicted::Stopped };
        ensure_eq!(there.evict(&eviction).await?, want, "{when:?}");
        ensure_eq!(within("the holder is told", here.lost()).await?, [(held.id, seq)], "{when:?}");
        ensure_eq!(here.renew(&[Held { claim: &held, seq }]).await?, [Renewal::Lost], "{when:?}");
        let err = here.attempt(&held).await.err().map(|err| err.kind());
        ensure_eq!(err, Some(ErrorKind::Lost), "an attempt of the evicted, {when:?}");
        let want = if when == When::Now { Released::NotHeld } else { Released::Freed };
        ensure_eq!(here.release(&held, Answered::All).await?, want, "{when:?}");
    }
    ensure_eq!(line(&there, "k").await?.len(), 0, "places that are left");
    Ok(())
}

/// An evicted waiter does not come to believe that it holds when the one ahead of it goes, however soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evicted_waiter_is_not_told_that_it_holds() -> Result {
    let url = corner("waiter")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    for round in 0..20 {
        let key = format!("k{round}");
        let (holder, waiter) = (claim(&key, Mode::Exclusive)?, claim(&key, Mode::Exclusive)?);
        hold(&there, &holder).await?;
        let seq = queue(&here, &waiter).await?.seq;
        let eviction = Eviction { key: waiter.key.clone(), id: waiter.id, seq, when: When::Now };
        let remove = async {
            ensure_eq!(there.evict(&eviction).await?, Evicted::Freed, "the eviction");
            let_go(&there, &holder).await
        };
        let (turn, removed) = futures_util::join!(turn(&here, &waiter), remove);
        removed?;
        let turn = turn?;
        ensure!(turn == Turn::Again, "an evicted waiter was told {turn:?}");
        let _ = here.release(&waiter, Answered::All).await?;
    }
    Ok(())
}
