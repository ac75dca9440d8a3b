//! Connections end at any point: what was asked for is found again, never doubled and never lost.

use std::time::Duration;

use tenure_core::{
    Answered, Attempt, Claim, Engine, ErrorKind, Held, Mode, Patience, Released, Renewal, Ttl,
};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    proxy::{Flow, Proxy, Way},
    zookeeper::Zookeeper,
};

use crate::support::{again, claim, corner, let_go, line, open, within};

/// Lost after so many bytes on the way there, or on the way back: an attempt that is asked again finds the place it may have
/// taken, and one that is given up leaves none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_whose_answer_was_lost_is_one_place() -> Result {
    let server = Zookeeper::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let direct = corner("lost")?;
    let there = open(&direct).await?;
    let here = open(&direct.replace(&server.addr().to_string(), &proxy.addr().to_string())).await?;
    let mut in_doubt = 0;
    for (way, bytes) in [0, 10, 60, 150, 300].iter().flat_map(|&bytes| [(Way::Up, bytes), (Way::Down, bytes)])
    {
        for give_up in [false, true] {
            let key = format!("{way:?}/{bytes}/{give_up}");
            let claim = claim(&key, Mode::Exclusive)?;
            proxy.cut_after(way, bytes);
            let first = here.attempt(&claim).await;
            in_doubt += u32::from(first.as_ref().is_err_and(|err| err.may_have_applied()));
            if give_up {
                let released =
                    again("the release", async || here.release(&claim, Answered::InDoubt).await).await?;
                ensure!(released == Released::Freed || first.is_err(), "{key}: {released:?} after {first:?}");
            } else {
                let answer = again("the attempt", async || here.attempt(&claim).await).await?;
                ensure!(matches!(answer, Attempt::Granted(_)), "{key}: {answer:?}");
                ensure_eq!(line(&there, &key).await?.len(), 1, "places of {key}");
                let _ = again("the release", async || here.release(&claim, Answered::All).await).await?;
            }
            ensure_eq!(line(&there, &key).await?.len(), 0, "places of {key} in the end");
            proxy.heal()?;
        }
    }
    ensure!(in_doubt >= 5, "only {in_doubt} attempts were in doubt");
    Ok(())
}

/// A release whose connection ends is asked again until the place is gone, whether it had arrived or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answer_was_lost_is_asked_again() -> Result {
    let server = Zookeeper::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let direct = corner("deleted")?;
    let there = open(&direct).await?;
    let here = open(&direct.replace(&server.addr().to_string(), &proxy.addr().to_string())).await?;
    let mut failed = 0;
    for (way, bytes) in [(Way::Up, 0), (Way::Up, 10), (Way::Down, 0), (Way::Down, 10)] {
        let key = format!("{way:?}/{bytes}");
        let claim = claim(&key, Mode::Exclusive)?;
        let _ = again("the attempt", async || here.attempt(&claim).await).await?;
        proxy.cut_after(way, bytes);
        failed += u32::from(here.release(&claim, Answered::All).await.is_err());
        let _ = again("the release", async || here.release(&claim, Answered::All).await).await?;
        ensure_eq!(line(&there, &key).await?.len(), 0, "places of {key} in the end");
        proxy.heal()?;
    }
    ensure!(failed >= 2, "only {failed} releases failed");
    Ok(())
}

/// An attempt that comes after its own release, as one that was dropped may, takes no place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_after_its_release_is_refused() -> Result {
    let engine = open(&corner("late")?).await?;
    let claim = claim("k", Mode::Exclusive)?;
    ensure_eq!(engine.release(&claim, Answered::InDoubt).await?, Released::NotHeld, "the release");
    let err = engine.attempt(&claim).await.err();
    ensure!(err.as_ref().is_some_and(|err| err.kind() == ErrorKind::Lost), "the attempt: {err:?}");
    ensure_eq!(line(&engine, "k").await?.len(), 0, "places");
    Ok(())
}

/// Of two that do not wait and ask at the same moment one may get in, and the other leaves no place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_wait_leaves_no_place() -> Result {
    let url = corner("tries")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    for round in 0..30 {
        let key = format!("k{round}");
        let one = || Ok::<_, Failure>(Claim { patience: Patience::Try, ..claim(&key, Mode::Exclusive)? });
        let (mine, other) = (one()?, one()?);
        let (a, b) = futures_util::join!(here.attempt(&mine), there.attempt(&other));
        let holders = [a?, b?].iter().filter(|answer| matches!(answer, Attempt::Granted(_))).count();
        ensure!(holders <= 1, "two hold {key}");
        ensure_eq!(line(&here, &key).await?.len(), holders, "places of {key}");
    }
    Ok(())
}

/// A session that cannot be kept up any more ends, and its holders hear of it from the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_told_that_their_session_is_over() -> Result {
    let server = Zookeeper::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let url = corner("over")?.replace(&server.addr().to_string(), &proxy.addr().to_string());
    let engine = open(&url).await?;
    let ttl = Ttl::new(engine.guarantees().min_ttl)?;
    let held = Claim { ttl, ..claim("k", Mode::Exclusive)? };
    let seq = crate::support::hold(&engine, &held).await?.seat.seq;
    proxy.flow(Way::Up, Flow::Swallow)?;
    let holds = [Held { claim: &held, seq }];
    // Under way when the session ends, as those of a holder are.
    let renewed = again("a renewal is answered", async || engine.renew(&holds).await);
    let (lost, renewed) = futures_util::join!(within("the holder is told", engine.lost()), renewed);
    ensure_eq!(lost?, [(held.id, seq)], "what is lost");
    ensure_eq!(renewed?, [Renewal::Lost], "the renewal");
    Ok(())
}

/// Attempts that are dropped at any moment leave what a release takes away, and their answers go to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_a_dropped_call_goes_to_nobody_else() -> Result {
    let engine = open(&corner("dropped")?).await?;
    for round in 0..60_u64 {
        let (dropped, kept) = (
            claim(&format!("dropped/{round}"), Mode::Exclusive)?,
            claim(&format!("kept/{round}"), Mode::Exclusive)?,
        );
        let in_time = tokio::time::timeout(Duration::from_micros(round * 40), engine.attempt(&dropped)).await;
        let seq = crate::support::hold(&engine, &kept).await?.seat.seq;
        let shown = line(&engine, kept.key.as_str()).await?;
        ensure_eq!(shown.iter().map(|place| place.seq).collect::<Vec<_>>(), [seq], "the line");
        let_go(&engine, &kept).await?;
        let answered = if in_time.is_err() { Answered::InDoubt } else { Answered::All };
        let _ = engine.release(&dropped, answered).await?;
        ensure_eq!(line(&engine, dropped.key.as_str()).await?.len(), 0, "what a dropped attempt leaves");
    }
    Ok(())
}
