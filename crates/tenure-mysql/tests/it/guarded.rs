//! Transactions of users that commit only if the lock is still their own.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tenure_core::{Attempt, Claim, Engine, Evicted, Eviction, Held, Mode, Seq, Ttl, When};
use tenure_mysql::{MysqlEngine, StillHeld};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    mariadb::{DATABASE, MariaDb},
    sql::Session,
};

use crate::support::{claim, deadlines, exclusive, hash, hold, let_go, open, wait, within};

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// What a transaction would ask before it commits.
fn check(claim: &Claim, seq: Seq) -> Result<StillHeld> {
    Ok(StillHeld::new(DATABASE, "tenure", Held { claim, seq })?)
}

/// The answer that it gets in a session of its own.
fn answer(session: &mut Session, check: &StillHeld) -> Result<String> {
    Ok(session.sql(check.text())?.pop().and_then(|mut row| row.pop()).unwrap_or_default())
}

/// Begins a transaction that has a view of the data and has written some before it asks.
fn begin(server: &MariaDb, level: &str, table: &str) -> Result<Session> {
    let mut session = server.admin()?;
    session.sql(&format!(
        "CREATE TABLE IF NOT EXISTS {table} (n INT) ENGINE=InnoDB; SET time_zone = '+05:00';
         SET TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION WITH CONSISTENT SNAPSHOT;
         INSERT INTO {table} VALUES (1)"
    ))?;
    Ok(session)
}

/// Takes the key as soon as it is to be had, which must not be before the transaction of another commits.
async fn take(engine: Arc<MysqlEngine>, claim: Claim, commits: Arc<AtomicBool>) -> Result<Seq> {
    let granted = async {
        loop {
            match engine.attempt(&claim).await {
                Ok(Attempt::Granted(grant)) => {
                    ensure!(commits.load(Ordering::SeqCst), "granted within a guarded transaction");
                    return Ok(grant.seat.seq);
                }
                Ok(Attempt::Busy(_)) => tokio::task::yield_now().await,
                // The row was locked for longer than a verb waits.
                Err(err) if err.is_retryable() => {}
                Err(err) => return Err(err.into()),
            }
        }
    };
    within("the other is granted the key", granted).await?
}

/// Nobody is granted the key between the answer and the commit, though the lease has long ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_comes_between_the_answer_and_the_commit() -> Result {
    let server = MariaDb::shared()?;
    let (engine, other) = (open(&server.url()).await?, open(&server.url()).await?);
    for (number, level) in LEVELS.iter().enumerate() {
        let (key, table) = (format!("guarded/{number}"), format!("guarded_{number}"));
        let first = Claim { ttl: Ttl::new(std::time::Duration::from_secs(1))?, ..exclusive(&key)? };
        let seq = hold(&engine, &first).await?.seat.seq;
        let mut session = begin(server, level, &table)?;
        ensure_eq!(answer(&mut session, &check(&first, seq)?)?, "1", "while it holds, at {level}");
        let lapsed = format!("SELECT deadline <= {NOW} FROM tenure_lines WHERE h = {}", hash(&key)?);
        let mut look = server.admin()?;
        let lapse = async {
            while look.sql(&lapsed)? != [["1"]] {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Ok::<_, Failure>(())
        };
        within("the lease ends", lapse).await??;
        let commits = Arc::new(AtomicBool::new(false));
        let taking = tokio::spawn(take(other.clone(), exclusive(&key)?, commits.clone()));
        server.until_waiting().await?;
        commits.store(true, Ordering::SeqCst);
        session.sql("COMMIT")?;
        let next = taking.await.map_err(|err| Failure::new(err.to_string()))??;
        ensure!(next > seq, "{next} after {seq}");
        ensure_eq!(answer(&mut session, &check(&first, seq)?)?, "0", "once another holds, at {level}");
        ensure_eq!(server.sql(&format!("SELECT COUNT(*) FROM {table}"))?[0][0], "1", "what was committed");
    }
    Ok(())
}

/// An operator cannot break a hold between the answer and the commit either; after it, the answer is no.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_waits_for_the_commit() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    for (when, done) in [(When::Now, Evicted::Freed), (When::Gently, Evicted::Stopped)] {
        let first = exclusive(&format!("guarded/{when:?}"))?;
        let seq = hold(&engine, &first).await?.seat.seq;
        let mut session = begin(server, "REPEATABLE READ", "guarded_evicted")?;
        ensure_eq!(answer(&mut session, &check(&first, seq)?)?, "1", "while it holds");
        let eviction = Eviction { key: first.key.clone(), id: first.id, seq, when };
        let err = engine.evict(&eviction).await.err();
        ensure!(err.is_some_and(|err| !err.may_have_applied()), "evicted within a guarded transaction");
        session.sql("COMMIT")?;
        ensure_eq!(engine.evict(&eviction).await?, done, "the eviction");
        ensure_eq!(answer(&mut session, &check(&first, seq)?)?, "0", "after {when:?}");
    }
    Ok(())
}

/// The answer is no for what was released, has lapsed, or is another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_hold_is_refused() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let (first, stranger) = (exclusive("guarded/refused")?, exclusive("guarded/refused")?);
    let seq = hold(&engine, &first).await?.seat.seq;
    let mut session = server.admin()?;
    let mut asked = |claim: &Claim, seq: Seq| answer(&mut session, &check(claim, seq)?);
    ensure_eq!(asked(&first, seq)?, "1", "the holder");
    ensure_eq!(asked(&stranger, seq)?, "0", "another claim by the holder's number");
    let other = Seq::new(seq.get() - 1).ok_or_else(|| Failure::new("no number"))?;
    ensure_eq!(asked(&first, other)?, "0", "the holder by another number");
    let elsewhere = Claim { key: exclusive("guarded/elsewhere")?.key, ..first.clone() };
    ensure_eq!(asked(&elsewhere, seq)?, "0", "another key");
    deadlines(server, "guarded/refused", NOW)?;
    ensure_eq!(asked(&first, seq)?, "0", "after the lease ended");
    let second = exclusive("guarded/refused")?;
    let seq = hold(&engine, &second).await?.seat.seq;
    ensure_eq!(asked(&second, seq)?, "1", "the next holder");
    let_go(&engine, &second).await?;
    ensure_eq!(asked(&second, seq)?, "0", "after the release");
    for (database, table) in [("a`b", "tenure"), ("", "tenure"), ("shop", "a`b")] {
        ensure!(StillHeld::new(database, table, Held { claim: &first, seq }).is_err(), "{database}.{table}");
    }
    Ok(())
}

/// The answer is as of the end of the wait for the row: neither the beginning of the transaction nor that of the
/// statement counts, whatever the session thinks of the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_is_as_of_the_end_of_the_wait() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    // Who is alone stands in another table than who is not.
    for (number, (alone, change)) in [
        (true, format!("UPDATE tenure_lines SET deadline = {NOW}")),
        (true, "UPDATE tenure_lines SET id = REPEAT(CHAR(0), 16)".to_owned()),
        (true, "DELETE FROM tenure_lines".to_owned()),
        (false, format!("UPDATE tenure_places SET deadline = {NOW}")),
        (false, "UPDATE tenure_places SET state = 3".to_owned()),
        (false, "DELETE FROM tenure_places".to_owned()),
    ]
    .iter()
    .enumerate()
    {
        for level in LEVELS {
            let first = exclusive(&format!("guarded/wait/{number}/{level}"))?;
            let seq = hold(&engine, &first).await?.seat.seq;
            if !alone {
                wait(&engine, &exclusive(first.key.as_str())?).await?;
            }
            let h = hash(first.key.as_str())?;
            let mut session = begin(server, level, "guarded_waited")?;
            session.sql("SET timestamp = 1")?;
            let mut other = server.admin()?;
            other.sql(&format!("BEGIN; SELECT * FROM tenure_lines WHERE h = {h} FOR UPDATE"))?;
            session.send(check(&first, seq)?.text())?;
            server.until_waiting().await?;
            other.sql(&format!("{change} WHERE h = {h}; COMMIT"))?;
            let rows = session.receive()?;
            ensure_eq!(rows, [["0"]], "after `{change}` at {level}");
        }
    }
    Ok(())
}

/// Readers who hold beside each other do not wait for each other's commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_guarded_beside_each_other() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let mut sessions = Vec::new();
    let readers = [claim("guarded/shared", Mode::Shared)?, claim("guarded/shared", Mode::Shared)?];
    let mut held = Vec::new();
    for reader in &readers {
        held.push((reader, hold(&engine, reader).await?.seat.seq));
    }
    for (reader, seq) in held {
        let mut session = begin(server, "SERIALIZABLE", "guarded_shared")?;
        session.sql("SET innodb_lock_wait_timeout = 1")?;
        ensure_eq!(answer(&mut session, &check(reader, seq)?)?, "1", "a reader");
        sessions.push(session);
    }
    Ok(())
}
