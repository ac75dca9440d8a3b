//! Transactions of others get in the way: deadlocks (1213) and rows that stay locked (1205).

use std::{sync::Arc, time::Instant};

use tenure::Loss;

use crate::bed::{
    LIMIT, Ledger, client, contend, empties, eventually, gets, millis, renewed_since, runs_down_to, secs,
    server, told, waits, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_row_is_free_again_in_time_keeps_the_lock() {
    let server = server(&[]);
    let ttl = secs(6);
    let client = client(&server.url(), ttl).await;
    let held = client.mutex("k").unwrap().acquire().await.unwrap();
    let mut other = server.admin().unwrap();
    other.sql("BEGIN; SELECT * FROM tenure_lines FOR UPDATE").unwrap();
    // Renewals are due when two thirds are left: some have failed.
    runs_down_to(&held, millis(2500)).await;
    other.sql("ROLLBACK").unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    held.release().await.unwrap();
    empties(&client, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_row_stays_locked_is_told_before_anybody_else_holds() {
    let server = server(&[]);
    let ttl = secs(2);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let witness = held.witness();
    let mut other = server.admin().unwrap();
    other.sql("BEGIN; SELECT * FROM tenure_lines FOR UPDATE").unwrap();
    let mutex = there.mutex("k").unwrap();
    let waiting = tokio::spawn(async move {
        loop {
            match mutex.acquire().await {
                Ok(guard) => {
                    assert!(witness.check().is_err(), "two hold the lock");
                    return guard;
                }
                // A server that fails for a whole lease is told to whoever waits.
                Err(err) => assert_eq!(err.kind(), tenure::ErrorKind::Unavailable, "{err}"),
            }
        }
    });
    assert_eq!(told(&held, ttl).await, Loss::Expired);
    other.sql("ROLLBACK").unwrap();
    let next = within("the other has the lock", waiting).await.unwrap();
    assert!(next.fence() > held.fence());
    drop(held);
    renewed_since(&next, ttl, Instant::now()).await;
    next.release().await.unwrap();
    empties(&there, "k").await;
}

/// Somebody locks our rows in the other order, with more at stake, so that ours is the one that is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_cost_time_and_nothing_else() {
    const ROUNDS: usize = 15;
    let server = server(&["innodb_print_all_deadlocks=ON"]);
    let ledger = Arc::new(Ledger::default());
    let mut workers = Vec::new();
    for _ in 0..2 {
        let (client, ledger) = (client(&server.url(), secs(10)).await, ledger.clone());
        workers.push(tokio::spawn(async move { contend(&client, "k", ROUNDS, &ledger).await }));
    }
    let mut other = server.admin().unwrap();
    other.sql("CREATE TABLE weight (x INT) ENGINE=InnoDB").unwrap();
    for goal in (1..2 * ROUNDS as u64).step_by(5) {
        let progress = async || if ledger.count() >= goal { Ok(()) } else { Err(format!("{ledger:?}")) };
        eventually("work goes on", LIMIT, progress).await;
        // It may be the victim itself.
        let _ = other.sql(
            "BEGIN; INSERT INTO weight SELECT seq FROM seq_1_to_1000; SELECT * FROM tenure_places FOR UPDATE;
             DO SLEEP(0.05); SELECT * FROM tenure_lines FOR UPDATE; ROLLBACK",
        );
    }
    for worker in workers {
        within("all work is done", worker).await.unwrap();
    }
    ledger.check(2 * ROUNDS as u64);
    let rows = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").unwrap();
    assert_ne!(rows[0][1], "0", "there was no deadlock");
    empties(&client(&server.url(), secs(5)).await, "k").await;
}

/// A user's transaction that is guarded by one lock keeps its renewals waiting, not its holder from holding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_comes_after_the_transaction_that_locks_the_row() {
    let server = server(&[]);
    let ttl = secs(10);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let mut other = server.admin().unwrap();
    other.sql("BEGIN; SELECT * FROM tenure_lines LOCK IN SHARE MODE").unwrap();
    drop(held);
    assert!(!waiting.is_finished());
    other.sql("COMMIT").unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&here, "k").await;
}
