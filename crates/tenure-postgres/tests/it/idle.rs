//! Nothing stays in the database of keys that nobody uses.

use std::{sync::Arc, time::Duration};

use tenure_core::{Answered, Engine, Mode, Released};
use tenure_postgres::PostgresEngine;
use tenure_testkit::{Result, ensure, ensure_eq, postgres::Postgres};

use crate::support::{brief, claim, count, hold, let_go, open, queue, rows, server, until_held, within};

/// Comes and goes on a key of its own until there are so many rows: every so often it takes a step of the walk.
async fn until_rows(server: &Postgres, engine: &Arc<PostgresEngine>, wanted: u64) -> Result {
    within(&format!("{wanted} rows are left"), async {
        while count(server, "true")? != wanted {
            for _ in 0..64 {
                let other = claim("m", Mode::Exclusive)?;
                hold(engine, &other).await?;
                let_go(engine, &other).await?;
            }
        }
        Ok(())
    })
    .await?
}

/// As if nobody had asked for the keys that start so for an hour.
fn an_hour_ago(server: &Postgres, prefix: &str) -> Result {
    let sql = format!(
        "UPDATE tenure_places SET taken = taken - 3600000000 WHERE encode(key, 'escape') LIKE '{prefix}%'"
    );
    server.sql(&sql).map(drop)
}

/// When the last of a line leaves, by whatever way, no row of a claim is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_to_leave_leaves_nothing_of_itself() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for number in 0..50 {
        let (one, two) =
            (claim(&format!("k/{number}"), Mode::Shared)?, claim(&format!("k/{number}"), Mode::Exclusive)?);
        hold(&engine, &one).await?;
        queue(&engine, &two).await?;
        let_go(&engine, &one).await?;
        let_go(&engine, &two).await?;
    }
    ensure_eq!(
        engine.release(&claim("never", Mode::Shared)?, Answered::All).await?,
        Released::NotHeld,
        "a stranger"
    );
    ensure_eq!(rows(&server)?, 0, "rows afterwards");
    // A grave is a row for one lease; the next to leave takes it along.
    let ttl = Duration::from_millis(200);
    let doubtful = brief("grave", ttl)?;
    ensure_eq!(engine.release(&doubtful, Answered::InDoubt).await?, Released::NotHeld, "nobody");
    ensure_eq!(rows(&server)?, 1, "rows with a grave");
    tokio::time::sleep(ttl).await;
    let next = claim("grave", Mode::Exclusive)?;
    until_held(&engine, &next).await?;
    let_go(&engine, &next).await?;
    ensure_eq!(rows(&server)?, 0, "rows at last");
    Ok(())
}

/// The row of a key that nobody wants stays for a minute, that of one in use for as long as that lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_idle_keys_go() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for number in 0..300 {
        let one = claim(&format!("idle/{number}"), Mode::Exclusive)?;
        hold(&engine, &one).await?;
        let_go(&engine, &one).await?;
    }
    let held = claim("held", Mode::Exclusive)?;
    let seat = hold(&engine, &held).await?.seat;
    let waits = claim("held", Mode::Exclusive)?;
    let behind = queue(&engine, &waits).await?;
    // The key's own row is nobody's, and another stands all the same.
    let (first, second) = (claim("handed", Mode::Exclusive)?, claim("handed", Mode::Exclusive)?);
    hold(&engine, &first).await?;
    queue(&engine, &second).await?;
    let_go(&engine, &first).await?;
    let next = hold(&engine, &second).await?.seat;
    until_rows(&server, &engine, 305).await?;
    an_hour_ago(&server, "idle/1")?;
    until_rows(&server, &engine, 305 - 111).await?;
    an_hour_ago(&server, "")?;
    // What is left: a holder and a waiter, one to whom a key was handed and that key's own row; `m` comes and goes.
    until_rows(&server, &engine, 5).await?;
    ensure_eq!(hold(&engine, &held).await?.seat, seat, "the seat of the holder");
    ensure_eq!(queue(&engine, &waits).await?, behind, "the seat of the waiter");
    ensure_eq!(hold(&engine, &second).await?.seat, next, "the seat of one who was handed its key");
    let third = claim("handed", Mode::Exclusive)?;
    queue(&engine, &third).await?;
    let_go(&engine, &second).await?;
    let_go(&engine, &third).await?;
    let_go(&engine, &held).await?;
    let_go(&engine, &waits).await?;
    ensure_eq!(count(&server, "many")?, 0, "keys that are said to have other rows");
    an_hour_ago(&server, "h")?;
    until_rows(&server, &engine, 1).await
}

/// What the dead leave on keys that nobody asks for goes as others come and go, however many of the living are between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_leave_is_swept_up() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    // A verb has a third of it, which must be enough on a busy machine too.
    let ttl = Duration::from_secs(2);
    let mut alive = Vec::new();
    for number in 0..300 {
        // More than one step of the walk looks at.
        let claim = claim(&format!("alive/{number}"), Mode::Exclusive)?;
        alive.push((hold(&engine, &claim).await?.seat, claim));
    }
    for round in ["z", "0", "n"] {
        for number in 0..200 {
            hold(&engine, &brief(&format!("{round}/{number}"), ttl)?).await?;
        }
        let dead = format!("encode(key, 'escape') LIKE '{round}%'");
        ensure!(count(&server, &dead)? > 150, "the dead were swept up before they could be");
        an_hour_ago(&server, round)?;
        until_rows(&server, &engine, 301).await?;
    }
    for (seat, claim) in alive {
        ensure_eq!(hold(&engine, &claim).await?.seat, seat, "the seat of the living");
    }
    Ok(())
}

/// Whoever has held a key for long keeps it when the walk comes by to remove a waiter that died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_leaves_an_old_hold_alone() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let holder = claim("k", Mode::Exclusive)?;
    let seat = hold(&engine, &holder).await?.seat;
    queue(&engine, &brief("k", Duration::from_secs(2))?).await?;
    an_hour_ago(&server, "k")?;
    // The holder's, the waiter's and the walker's; then without the waiter's.
    until_rows(&server, &engine, 3).await?;
    until_rows(&server, &engine, 2).await?;
    ensure_eq!(hold(&engine, &holder).await?.seat, seat, "the seat of the holder");
    Ok(())
}
