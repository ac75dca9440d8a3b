//! Another life of the server: a restart between two verbs.

use std::time::Duration;

use tenure_core::{Answered, Claim, Engine, ErrorKind, Held, Mode, Released, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{brief, claim, durable, hold, line, open, queue, says, until_held};

/// A server that restarts when most of a lease is over gives every place and every grave a whole one: a holder may
/// believe as long, if the clock of the server is another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_gives_everybody_a_whole_lease() -> Result {
    let server = durable()?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_secs(2);
    let holder = brief("k", Mode::Exclusive, ttl)?;
    let waiter = brief("k", Mode::Exclusive, ttl)?;
    let grave = brief("k", Mode::Exclusive, ttl)?;
    let before = hold(&engine, &holder).await?.seat;
    queue(&engine, &waiter).await?;
    ensure_eq!(engine.release(&grave, Answered::InDoubt).await?, Released::NotHeld, "a grave");
    tokio::time::sleep(ttl * 3 / 4).await;
    server.kill()?;
    server.restart()?;

    let again = open(&server.url()).await?;
    let left = |place: &tenure_core::Place| place.lease_left.unwrap_or_default();
    let shown = line(&again, "k").await?;
    ensure!(shown.iter().all(|place| left(place) > ttl * 3 / 4), "shown after the restart: {shown:?}");
    // Any verb gives it to all of them; this one names nobody.
    let nobody = claim("k", Mode::Shared)?;
    ensure_eq!(again.release(&nobody, Answered::All).await?, Released::NotHeld, "the release of nobody");
    let shown = line(&again, "k").await?;
    ensure_eq!(shown.len(), 2, "places after the restart");
    ensure!(shown.iter().all(|place| left(place) > ttl * 3 / 4), "kept after the restart: {shown:?}");
    // Only the first verb does: a second life is not counted again.
    tokio::time::sleep(ttl / 4).await;
    let _ = again.release(&nobody, Answered::All).await?;
    let shown = line(&again, "k").await?;
    ensure!(shown.iter().all(|place| left(place) <= ttl * 3 / 4), "given twice: {shown:?}");

    let renewed = again.renew(&[Held { claim: &holder, seq: before.seq }]).await?;
    ensure_eq!(renewed, [Renewal::Renewed(Some(ttl))], "the renewal of a hold that was kept");
    let now = hold(&again, &holder).await?.seat;
    ensure_eq!(now.seq, before.seq, "its number");
    ensure!(now.incarnation != before.incarnation, "the same life after a restart: {now:?}");
    let err = again.attempt(&grave).await.err().ok_or_else(|| Failure::new("the grave was forgotten"))?;
    says(&err, ErrorKind::Lost, "released before")?;
    Ok(())
}

/// Whoever died before the restart is gone one lease after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_of_the_life_before_lapse_in_this_one() -> Result {
    let server = durable()?;
    let engine = open(&server.url()).await?;
    let (dead, next) =
        (brief("k", Mode::Exclusive, Duration::from_millis(300))?, claim("k", Mode::Exclusive)?);
    hold(&engine, &dead).await?;
    server.kill()?;
    server.restart()?;
    let again = open(&server.url()).await?;
    queue(&again, &next).await?;
    until_held(&again, &next).await?;
    Ok(())
}

/// A whole lease is the longest that the place was given, not the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_lease_counts_in_the_next_life_too() -> Result {
    let server = durable()?;
    let engine = open(&server.url()).await?;
    let short = brief("k", Mode::Exclusive, Duration::from_millis(500))?;
    let seq = hold(&engine, &short).await?.seat.seq;
    let long = Claim { ttl: claim("k", Mode::Exclusive)?.ttl, ..short };
    let renewed = engine.renew(&[Held { claim: &long, seq }]).await?;
    ensure_eq!(renewed, [Renewal::Renewed(Some(long.ttl.get()))], "a renewal for longer");
    server.kill()?;
    server.restart()?;
    let again = open(&server.url()).await?;
    let _ = again.release(&claim("k", Mode::Shared)?, Answered::All).await?;
    let shown = line(&again, "k").await?;
    ensure!(shown.iter().all(|place| place.lease_left > Some(long.ttl.get() / 2)), "cut short: {shown:?}");
    ensure_eq!(shown.len(), 1, "places");
    Ok(())
}
