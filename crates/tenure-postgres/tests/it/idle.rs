//! Nothing stays in the database of keys that nobody uses.

use std::time::Duration;

use tenure_core::{Answered, Engine, Mode, Released};
use tenure_testkit::{Result, ensure, ensure_eq};

use crate::support::{brief, claim, hold, let_go, open, queue, rows, server, until_held, within};

/// When the last of a line leaves, by whatever way, no row is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_to_leave_takes_the_rows_along() -> Result {
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

/// What the dead leave on keys that nobody asks for goes as others come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_dead_leave_is_swept_up() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(100);
    for number in 0..600 {
        hold(&engine, &brief(&format!("dead/{number}"), ttl)?).await?;
    }
    let alive = claim("dead/alive", Mode::Exclusive)?;
    let seat = hold(&engine, &alive).await?.seat;
    ensure!(rows(&server)? > 500, "the dead were swept up before they could be");
    within("only the living has rows", async {
        while rows(&server)? != 1 {
            for _ in 0..64 {
                let other = claim("other", Mode::Exclusive)?;
                hold(&engine, &other).await?;
                let_go(&engine, &other).await?;
            }
        }
        Ok::<_, tenure_testkit::Failure>(())
    })
    .await??;
    ensure_eq!(hold(&engine, &alive).await?.seat, seat, "the seat of the living");
    Ok(())
}
