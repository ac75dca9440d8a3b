//! Servers with other defaults, and transactions that get in the way.

use std::time::{Duration, Instant};

use tenure_core::{Engine, ErrorKind, Fences, Grade, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, mariadb::MariaDb};

use crate::support::{exclusive, hash, hold, let_go, line, open, renew, says, server, wait, within};

/// Every isolation level, time zone and mode that a server may give its sessions is as good as another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_defaults_of_a_server_do_not_matter() -> Result {
    for settings in [
        &["transaction_isolation=READ-UNCOMMITTED", "default_time_zone=+05:00"][..],
        &["transaction_isolation=REPEATABLE-READ", "autocommit=0", "sql_mode="],
        &["transaction_isolation=SERIALIZABLE", "sql_mode=ANSI,TRADITIONAL", "completion_type=CHAIN"],
    ] {
        let server = server(settings)?;
        let (one, two) = (open(&server.url()).await?, open(&server.url()).await?);
        let other = open(&server.url().replace("mysql:", "mariadb:")).await?;
        let mut last = tenure_core::Seq::ZERO;
        for _ in 0..20 {
            let (first, second) = (exclusive("defaults")?, exclusive("defaults")?);
            let grant = hold(&one, &first).await?;
            ensure!(grant.seat.seq > last, "{} after {last}", grant.seat.seq);
            last = grant.seat.seq;
            // Numbers are not below the clock, and a fresh server has drawn few.
            let ahead = last.get().abs_diff(micros(&server)?.unsigned_abs());
            ensure!(ahead < 60_000_000, "{settings:?}: the clock is {ahead}us from UTC");
            let left = wait(&two, &second).await?.lapses_in.unwrap_or_default();
            ensure!(left > first.ttl.get() / 2 && left <= first.ttl.get(), "{settings:?}: {left:?}");
            ensure_eq!(
                renew(&one, &first, last).await?,
                Renewal::Renewed(Some(first.ttl.get())),
                "a renewal with {settings:?}"
            );
            ensure_eq!(line(&other, "defaults").await?.len(), 2, "places seen by another");
            let_go(&one, &first).await?;
            hold(&two, &second).await?;
            let_go(&two, &second).await?;
        }
    }
    Ok(())
}

/// The clock is read and the number drawn after the wait for the row: a lease is whole when it is granted, and numbers
/// follow the order in which places are taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_is_read_after_the_wait() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let first = exclusive("waited")?;
    hold(&engine, &first).await?;
    let h = hash("waited")?;
    let mut other = server.admin()?;
    other.sql(&format!("BEGIN; SELECT * FROM tenure_lines WHERE h = {h} FOR UPDATE"))?;
    let second = exclusive("waited")?;
    let attempt = {
        let (engine, second) = (engine.clone(), second.clone());
        tokio::spawn(async move { wait(&engine, &second).await })
    };
    server.until_waiting().await?;
    let before = micros(server)?;
    other.sql("COMMIT")?;
    let busy = attempt.await.map_err(|err| Failure::new(err.to_string()))??;
    let seq = busy.seat.ok_or_else(|| Failure::new("no seat"))?.seq;
    ensure!(seq.get() >= before.unsigned_abs(), "the number {seq} was drawn before {before}");
    let rows =
        server.sql(&format!("SELECT deadline - ttl FROM tenure_places WHERE h = {h} AND seq = {seq}"))?;
    let counted_from: i64 = rows[0][0].parse().map_err(|_| Failure::new("no number"))?;
    ensure!(
        counted_from >= before,
        "the lease counts from {}us before the wait ended",
        before - counted_from
    );
    let_go(&engine, &second).await?;
    let_go(&engine, &first).await
}

/// A row that somebody else keeps locked is an error within seconds, without effect; then all is well again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_stays_locked_is_an_error() -> Result {
    let server = MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    let first = exclusive("locked")?;
    let seq = hold(&engine, &first).await?.seat.seq;
    let h = hash("locked")?;
    let mut other = server.admin()?;
    other.sql(&format!("BEGIN; SELECT * FROM tenure_lines WHERE h = {h} FOR UPDATE"))?;
    let start = Instant::now();
    let err = within("the attempt fails", engine.attempt(&exclusive("locked")?)).await?.err();
    says(
        err.as_ref().ok_or_else(|| Failure::new("it was answered"))?,
        ErrorKind::Unavailable,
        "stayed locked",
    )?;
    ensure!(start.elapsed() < Duration::from_secs(4), "it took {:?}", start.elapsed());
    let err = within("the renewal fails", renew(&engine, &first, seq)).await?.err();
    says(
        err.as_ref().ok_or_else(|| Failure::new("it was answered"))?,
        ErrorKind::Unavailable,
        "stayed locked",
    )?;
    other.sql("ROLLBACK")?;
    ensure_eq!(renew(&engine, &first, seq).await?, Renewal::Renewed(Some(first.ttl.get())), "the renewal");
    ensure_eq!(line(&engine, "locked").await?.len(), 1, "places");
    let_go(&engine, &first).await
}

/// An attempt that fails halfway is undone at once: it leaves no row, and none that is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_halfway_is_undone_at_once() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let claim = exclusive("halfway")?;
    hold(&engine, &claim).await?;
    let mut other = server.admin()?;
    // The place of the first is moved after the key's row was locked.
    other.sql(&in_the_way(&claim)?)?;
    let err = within("the attempt fails", engine.attempt(&exclusive("halfway")?)).await?.err();
    says(
        err.as_ref().ok_or_else(|| Failure::new("it was answered"))?,
        ErrorKind::Unavailable,
        "stayed locked",
    )?;
    let rows = other.sql(
        "SET innodb_lock_wait_timeout = 1; SELECT SUM(turns), SUM(many) FROM tenure_lines FOR UPDATE; ROLLBACK",
    )?;
    ensure_eq!(rows, [["1", "0"]], "turns and moves");
    let_go(&engine, &claim).await
}

/// What keeps anybody from moving the place of a claim, in a transaction.
fn in_the_way(claim: &tenure_core::Claim) -> Result<String> {
    let h = hash(claim.key.as_str())?;
    let id = claim.id;
    Ok(format!("BEGIN; INSERT INTO tenure_places VALUES ({h}, X'{id}', 0,0,0,0,0,0,0,0,'','', X'{id}')"))
}

/// The victim of a deadlock is told so, has done nothing, and can try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_victim_of_a_deadlock_has_done_nothing() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let (first, second) = (exclusive("deadlock")?, exclusive("deadlock")?);
    hold(&engine, &first).await?;
    let h = hash("deadlock")?;
    let mut other = server.admin()?;
    // The server undoes whoever has changed fewer rows.
    other.sql(&format!(
        "CREATE TABLE weight (x INT) ENGINE=InnoDB; {}; INSERT INTO weight SELECT seq FROM seq_1_to_1000",
        in_the_way(&first)?
    ))?;
    let attempt = {
        let (engine, second) = (engine.clone(), second.clone());
        tokio::spawn(async move { engine.attempt(&second).await })
    };
    server.until_waiting().await?;
    other.sql(&format!("UPDATE tenure_lines SET turns = turns + 1 WHERE h = {h}"))?;
    let err = within("the attempt ends", attempt).await?.map_err(|err| Failure::new(err.to_string()))?.err();
    says(
        err.as_ref().ok_or_else(|| Failure::new("it was answered"))?,
        ErrorKind::Unavailable,
        "another transaction",
    )?;
    other.sql("ROLLBACK")?;
    ensure_eq!(line(&engine, "deadlock").await?.len(), 1, "places");
    wait(&engine, &second).await?;
    Ok(())
}

/// A server that flushes late promises less, and says what to change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grade_follows_the_settings() -> Result {
    let lazy = server(&["innodb_flush_log_at_trx_commit=2"])?;
    let engine = open(&lazy.url()).await?;
    let promised = engine.guarantees();
    ensure_eq!((promised.grade, promised.fences), (Grade::Advisory, Fences::ClockBound), "late flushes");
    let facts = engine.examine().await?;
    ensure!(
        facts.iter().any(|fact| fact.warns && fact.text.contains("innodb_flush_log_at_trx_commit is 2")),
        "{facts:?}"
    );
    let claim = exclusive("grade")?;
    let remembers = hold(&engine, &claim).await?.remembers;
    ensure!(remembers.is_some_and(|time| time < Duration::from_secs(60)), "it remembers {remembers:?}");
    let engine = open(&MariaDb::shared()?.url()).await?;
    let promised = engine.guarantees();
    ensure_eq!((promised.grade, promised.fences), (Grade::Fenced, Fences::Durable), "one durable server");
    ensure!(engine.examine().await?.iter().all(|fact| !fact.warns), "a warning");
    let with_log = server(&["log-bin", "sync_binlog=0", "server_id=1"])?;
    let engine = open(&with_log.url()).await?;
    ensure_eq!(engine.guarantees().grade, Grade::Advisory, "a binary log that is flushed late");
    let statements = server(&["log-bin", "sync_binlog=1", "server_id=1", "binlog_format=STATEMENT"])?;
    says(&crate::support::refusal(&statements.url()).await?, ErrorKind::Invalid, "binlog_format")
}

fn micros(server: &MariaDb) -> Result<i64> {
    let rows = server.sql("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")?;
    rows[0][0].parse().map_err(|_| Failure::new("no number"))
}
