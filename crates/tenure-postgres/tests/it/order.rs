//! A number is drawn under the lock of the key, and never before.

use std::time::Duration;

use tenure_core::{Answered, Engine, ErrorKind, Held, Mode, Released, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{claim, hold, open, server, wait};

/// An attempt that is stopped between its number and its commit keeps the next one from drawing: the next sees it,
/// has the larger number, and waits behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_draws_first_is_first() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut slow = server.admin()?;
    let attempt = |id: &str| {
        format!("SELECT tenure_v1_attempt('k', md5('{id}')::uuid, 0::smallint, 0, 0, 30000000, true, '', '')")
    };
    slow.sql(&format!("BEGIN; {}", attempt("slow")))?;
    let drawn = || -> Result<u64> {
        let rows = server.sql("SELECT last_value FROM tenure_numbers")?;
        let number = rows.first().and_then(|row| row.first()?.parse().ok());
        number.ok_or_else(|| Failure::new(format!("no number: {rows:?}")))
    };
    let before = drawn()?;
    let second = claim("k", Mode::Exclusive)?;
    let attempt = tokio::spawn({
        let (engine, second) = (engine.clone(), second.clone());
        async move { wait(&engine, &second).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure' AND wait_event_type = 'Lock'";
    crate::support::within("the second attempt waits for the key", async {
        while server.sql(waits)? != vec![vec!["1".to_owned()]] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Failure>(())
    })
    .await??;
    ensure_eq!(drawn()?, before, "the last number while the second waits");
    slow.sql("COMMIT")?;
    let busy = attempt.await.map_err(|err| Failure::new(err.to_string()))??;
    ensure_eq!(busy.ahead, Some(1), "places ahead");
    ensure!(
        busy.seat.is_some_and(|seat| seat.seq.get() > before),
        "its number is {:?}, not above {before}",
        busy.seat
    );
    Ok(())
}

/// The clock is read after the wait: a lease is not shorter by what the attempt waited for the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_starts_when_the_key_is_had() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Shared)?;
    hold(&engine, &first).await?;
    let mut somebody = server.admin()?;
    somebody.sql(&crate::support::lock("k"))?;
    let second = claim("k", Mode::Shared)?;
    let free = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        somebody.sql("COMMIT")
    };
    let (granted, freed) = tokio::join!(hold(&engine, &second), free);
    granted?;
    freed?;
    let left = crate::support::line(&engine, "k").await?[1].lease_left.unwrap_or_default();
    ensure!(left > second.ttl.get() - Duration::from_millis(700), "{left:?} are left of {:?}", second.ttl);
    Ok(())
}

/// Two clients that renew the same holds in opposite orders never wait for each other in a circle.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn renewals_in_any_order_do_not_deadlock() -> Result {
    let server = server(&["deadlock_timeout=10ms"])?;
    let engines = [open(&server.url()).await?, open(&server.url()).await?];
    let mut held = Vec::new();
    for number in 0..40 {
        let claim = claim(&format!("k/{number}"), Mode::Exclusive)?;
        let seq = hold(&engines[0], &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let tasks: Vec<_> = (0..4)
        .map(|task: usize| {
            let (engine, mut held) = (engines[task % 2].clone(), held.clone());
            if task / 2 == 1 {
                held.reverse();
            }
            tokio::spawn(async move {
                for _ in 0..30 {
                    let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
                    let renewed = engine.renew(&holds).await?;
                    ensure!(renewed.iter().all(|one| matches!(one, Renewal::Renewed(_))), "{renewed:?}");
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.map_err(|err| Failure::new(err.to_string()))??;
    }
    Ok(())
}

/// The place in the key's own row lapses while others stand: whoever comes then is behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_slips_in_when_the_first_lapses() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let [dead, second, third] =
        [claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?];
    let seq = hold(&engine, &dead).await?.seat.seq;
    wait(&engine, &second).await?;
    server.sql(&format!("UPDATE tenure_places SET deadline = 1 WHERE seq = {seq}"))?;
    hold(&engine, &second).await?;
    wait(&engine, &third).await?;
    Ok(())
}

/// A release in doubt of a claim on a key that was given back before: its attempt, when it arrives, is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_attempt_is_refused_in_a_row_that_was_used_before() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    hold(&engine, &first).await?;
    crate::support::let_go(&engine, &first).await?;
    let late = claim("k", Mode::Exclusive)?;
    ensure_eq!(engine.release(&late, Answered::InDoubt).await?, Released::NotHeld, "the release");
    let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("a late attempt was granted"))?;
    crate::support::says(&err, ErrorKind::Lost, "released before")
}
