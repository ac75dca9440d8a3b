//! Transactions that may only be committed while a lock is held.

use std::time::Duration;

use tenure_core::{Answered, Claim, Engine, Eviction, Fence, Held, Mode, Seq, When};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, sql::Session};

use crate::support::{brief, claim, hold, let_go, open, queue, server, somebody_waits, until_held, within};

/// The question as a person types it, with the values in it.
fn question(claim: &Claim, seq: Seq, turn: u16) -> String {
    tenure_postgres::holds(&tenure_postgres::PostgresOptions::default())
        .replace("$1", &format!("'{}'", claim.key.as_str()))
        .replace("$2", &format!("'{}'", claim.id))
        .replace("$3", &Fence::new(seq, turn).to_string())
}

fn holds(session: &mut Session, claim: &Claim, seq: Seq) -> Result<bool> {
    said(&session.sql(&question(claim, seq, 0))?)
}

fn said(rows: &[Vec<String>]) -> Result<bool> {
    match rows {
        [row] if row == &["t"] => Ok(true),
        [row] if row == &["f"] => Ok(false),
        other => Err(Failure::new(format!("no boolean: {other:?}"))),
    }
}

/// The transaction asks in time and commits late: whoever would be granted the lock meanwhile waits for the commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_granted_before_the_transaction_ends() -> Result {
    let server = server(&["default_transaction_isolation=serializable"])?;
    let engine = open(&server.url()).await?;
    server.sql("CREATE TABLE written (by text)")?;
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let ttl = Duration::from_millis(500);
        let (old, next) = (brief("k", ttl)?, claim("k", Mode::Exclusive)?);
        let seq = hold(&engine, &old).await?.seat.seq;
        let mut session = server.admin()?;
        session.sql(&format!("BEGIN ISOLATION LEVEL {level}; INSERT INTO written VALUES ('old')"))?;
        ensure!(holds(&mut session, &old, seq)?, "{level}: the holder is refused");
        // The lease is over, and nobody renewed it; still nobody else gets in.
        tokio::time::sleep(ttl).await;
        let attempt = tokio::spawn({
            let (engine, next) = (engine.clone(), next.clone());
            async move { hold(&engine, &next).await }
        });
        somebody_waits(&server).await?;
        ensure!(!attempt.is_finished(), "{level}: granted inside the transaction");
        session.sql("COMMIT")?;
        within("the next is granted", attempt).await?.map_err(|err| Failure::new(err.to_string()))??;
        ensure_eq!(server.sql("SELECT by FROM written")?.len(), 1, "what the next sees");
        ensure!(!holds(&mut session, &old, seq)?, "{level}: the old one still holds");
        server.sql("TRUNCATE written")?;
        let_go(&engine, &next).await?;
    }
    Ok(())
}

/// Two transactions of one holder do not get past each other either: the second asks when the first has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_guarded_transactions_take_turns() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let held = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &held).await?.seat.seq;
    let (mut first, mut second) = (server.admin()?, server.admin()?);
    first.sql("BEGIN")?;
    ensure!(holds(&mut first, &held, seq)?, "the first is refused");
    second.sql("BEGIN; SET LOCAL lock_timeout = 100")?;
    ensure!(holds(&mut second, &held, seq).is_err(), "both are inside");
    second.sql("ROLLBACK; BEGIN")?;
    // Meanwhile the lease goes on.
    let renewed = engine.renew(&[Held { claim: &held, seq }]).await?;
    ensure_eq!(renewed, [tenure_core::Renewal::Renewed(Some(held.ttl.get()))], "the renewal");
    first.sql("COMMIT")?;
    ensure!(holds(&mut second, &held, seq)?, "the second is refused");
    second.sql("ROLLBACK")?;
    ensure!(holds(&mut second, &held, seq)?, "refused after a transaction that was rolled back");
    let_go(&engine, &held).await
}

/// Whoever waits, was evicted, released, outlived its lease, or is somebody else, is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_hold_is_refused() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut session = server.admin()?;
    let (held, waiting) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let seq = hold(&engine, &held).await?.seat.seq;
    let behind = queue(&engine, &waiting).await?.seq;
    ensure!(holds(&mut session, &held, seq)?, "the holder is refused");
    ensure!(!holds(&mut session, &waiting, behind)?, "a waiter holds");
    ensure!(!holds(&mut session, &waiting, seq)?, "another's id holds");
    ensure!(!holds(&mut session, &held, behind)?, "another's number holds");
    ensure!(!holds(&mut session, &claim("other", Mode::Exclusive)?, seq)?, "a key without a line is held");

    let evict = |claim: &Claim, seq, when| Eviction { key: claim.key.clone(), id: claim.id, seq, when };
    let _ = engine.evict(&evict(&held, seq, When::Gently)).await?;
    ensure!(!holds(&mut session, &held, seq)?, "evicted, and holds until its deadline");
    let _ = engine.evict(&evict(&held, seq, When::Now)).await?;
    ensure!(!holds(&mut session, &held, seq)?, "evicted, and holds");
    ensure!(holds(&mut session, &waiting, behind)?, "the next in line is refused");
    let_go(&engine, &waiting).await?;
    ensure!(!holds(&mut session, &waiting, behind)?, "released, and holds");

    let ttl = Duration::from_millis(200);
    let short = brief("short", ttl)?;
    let seq = hold(&engine, &short).await?.seat.seq;
    tokio::time::sleep(ttl).await;
    ensure!(!holds(&mut session, &short, seq)?, "lapsed, not removed, and holds");
    Ok(())
}

/// A snapshot from before an eviction is no look at a line of the past.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_snapshot_does_not_hold() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let held = claim("k", Mode::Exclusive)?;
        let seq = hold(&engine, &held).await?.seat.seq;
        let mut session = server.admin()?;
        session.sql(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1 FROM tenure_places"))?;
        let eviction = Eviction { key: held.key.clone(), id: held.id, seq, when: When::Now };
        let _ = engine.evict(&eviction).await?;
        match holds(&mut session, &held, seq) {
            Err(err) => ensure!(err.to_string().contains("serialize"), "{level}: {err}"),
            Ok(holds) => ensure!(!holds, "{level}: evicted, and holds"),
        }
        session.sql("ROLLBACK")?;
        let _ = engine.release(&held, Answered::All).await?;
    }
    Ok(())
}

/// Each task that shares a place has its own turn; one that another has taken over from is refused, as by its fence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_turn_is_refused() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut session = server.admin()?;
    let held = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &held).await?.seat.seq;
    for (turn, right) in [(0, true), (2, true), (2, true), (1, false), (1023, true), (2, false)] {
        ensure_eq!(said(&session.sql(&question(&held, seq, turn))?)?, right, "turn {turn}");
    }
    server.kill()?;
    server.restart()?;
    let mut session = server.admin()?;
    for (turn, right) in [(2, false), (1023, true)] {
        ensure_eq!(said(&session.sql(&question(&held, seq, turn))?)?, right, "turn {turn} after a restart");
    }
    until_held(&engine, &held).await?;
    let_go(&engine, &held).await
}

/// Another place in the same row starts with its first turn, whichever way it is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_place_starts_with_its_first_turn() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut session = server.admin()?;
    // What a release in doubt leaves is in the way of the short one.
    for left in [Answered::All, Answered::InDoubt] {
        let held = claim("k", Mode::Exclusive)?;
        let seq = hold(&engine, &held).await?.seat.seq;
        ensure!(said(&session.sql(&question(&held, seq, 5))?)?, "the holder is refused");
        let _ = engine.release(&held, left).await?;
        let next = claim("k", Mode::Exclusive)?;
        let seq = hold(&engine, &next).await?.seat.seq;
        ensure!(holds(&mut session, &next, seq)?, "the next is refused its first turn");
        let_go(&engine, &next).await?;
    }
    Ok(())
}
