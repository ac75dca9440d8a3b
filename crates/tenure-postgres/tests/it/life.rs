//! Another life of the server: killed and started again.

use std::time::Duration;

use tenure_core::{Answered, Engine, ErrorKind, Held, Mode, Released, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{brief, claim, count, hold, let_go, line, open, queue, says, server, until_held};

/// A server that restarts when most of a lease is over gives every place and every grave a whole one, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_gives_everybody_a_whole_lease() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_secs(4);
    let [holder, waiter, grave] = [brief("k", ttl)?, brief("k", ttl)?, brief("k", ttl)?];
    let before = hold(&engine, &holder).await?.seat;
    queue(&engine, &waiter).await?;
    ensure_eq!(engine.release(&grave, Answered::InDoubt).await?, Released::NotHeld, "a grave");
    tokio::time::sleep(ttl * 3 / 4).await;
    server.kill()?;
    server.restart()?;

    let again = open(&server.url()).await?;
    let left = |place: &tenure_core::Place| place.lease_left.unwrap_or_default();
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
    says(&err, ErrorKind::Lost, "released before")
}

/// A renewal alone gives a hold of the life before a whole lease, whatever another clock wrote, and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_believes_no_other_life() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let held = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &held).await?.seat.seq;
    let hold = [Held { claim: &held, seq }];
    let whole = [Renewal::Renewed(Some(held.ttl.get()))];
    // By a clock that was slow, and by one that was fast.
    for deadline in ["1", "deadline + 86400000000"] {
        server.sql(&format!("UPDATE tenure_places SET life = 1, deadline = {deadline}"))?;
        ensure_eq!(engine.renew(&hold).await?, whole, "the renewal, {deadline}");
        let clock = "date_part('epoch', clock_timestamp()) * 1000000";
        let left = count(&server, &format!("deadline - {clock} BETWEEN 20000000 AND 30000000"))?;
        ensure_eq!(left, 1, "rows with a whole lease left, {deadline}");
    }
    // Nothing is given while somebody else has the row, and nothing is said to be lost.
    server.sql("UPDATE tenure_places SET life = 1, deadline = 1")?;
    let mut somebody = server.admin()?;
    somebody.sql("BEGIN; SELECT 1 FROM tenure_places FOR UPDATE")?;
    let brief = Duration::from_micros(1);
    ensure_eq!(
        engine.renew(&hold).await?,
        [Renewal::Renewed(Some(brief))],
        "the renewal of a row that is locked"
    );
    somebody.sql("COMMIT")?;
    ensure_eq!(engine.renew(&hold).await?, whole, "the renewal of a row that is free again");
    // It is of this life now, in which a deadline that has passed is one.
    server.sql("UPDATE tenure_places SET deadline = 1")?;
    ensure_eq!(engine.renew(&hold).await?, [Renewal::Lost], "the renewal of what has lapsed");
    Ok(())
}

/// A renewal alone finds a hold of the life before, and numbers go on above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_nothing_that_was_acknowledged() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut held = Vec::new();
    for number in 0..20 {
        let claim = claim(&format!("k/{number}"), Mode::Exclusive)?;
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let gone = claim("gone", Mode::Exclusive)?;
    let last = hold(&engine, &gone).await?.seat.seq;
    let_go(&engine, &gone).await?;
    for _ in 0..2 {
        server.kill()?;
        server.restart()?;
        let next = claim("gone", Mode::Exclusive)?;
        let seq = until_held(&engine, &next).await?.seat.seq;
        ensure!(seq > last, "the number {seq} after a restart comes after {last}");
        let_go(&engine, &next).await?;
        let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
        let renewed = engine.renew(&holds).await?;
        ensure!(renewed.iter().all(|one| matches!(one, Renewal::Renewed(_))), "{renewed:?}");
    }
    Ok(())
}
