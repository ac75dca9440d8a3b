//! Transactions of others get in the way: deadlocks (1213) and rows that stay locked (1205).

use std::time::Instant;

use tenure::Loss;

use crate::bed::{
    Work, client, empties, gets, millis, renewed_since, runs_down_to, secs, server, told, value, waits,
    within,
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

/// Somebody locks our rows in the other order, with more at stake, so that ours is the one that is undone: the release
/// goes through all the same, and the waiter has its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_costs_time_and_nothing_else() {
    let server = server(&[]);
    let (here, there) = (client(&server.url(), secs(10)).await, client(&server.url(), secs(10)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let mut other = server.admin().unwrap();
    // The server undoes whoever has changed fewer rows.
    other
        .sql(
            "CREATE TABLE weight (x INT) ENGINE=InnoDB; BEGIN; INSERT INTO weight SELECT seq FROM seq_1_to_1000;
             SELECT * FROM tenure_places FOR UPDATE",
        )
        .unwrap();
    let release = tokio::spawn(held.release());
    server.until_waiting().await.unwrap();
    other.sql("SELECT * FROM tenure_lines FOR UPDATE").unwrap();
    let deadlocks = server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").unwrap();
    assert_ne!(deadlocks[0][1], "0", "there was no deadlock");
    assert!(!waiting.is_finished());
    other.sql("ROLLBACK").unwrap();
    within("it is released", release).await.unwrap().unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&here, "k").await;
}

/// Every third change of a line is taken back, early or late, as by a deadlock or a row that stays locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_back_is_tried_again() {
    const ROUNDS: usize = 12;
    for code in [1213, 1205] {
        let server = server(&[]);
        let (ttl, url) = (secs(6), server.url());
        let clients = [client(&url, ttl).await, client(&url, ttl).await, client(&url, ttl).await];
        server.sql("CREATE SEQUENCE provoked").unwrap();
        // The first thing that a verb does, and the last of a release.
        let triggers = [("lines", "UPDATE", "NEW.turns > OLD.turns AND"), ("places", "DELETE", "")];
        for (table, change, and) in triggers {
            server
                .sql(&format!(
                    "DELIMITER //\n\
                     CREATE TRIGGER provoke_{table}_{change} AFTER {change} ON tenure_{table} FOR EACH ROW \
                     IF {and} NEXTVAL(provoked) % 3 = 0 THEN SIGNAL SQLSTATE '40001' \
                     SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'provoked'; END IF //\n\
                     DELIMITER ;\n"
                ))
                .unwrap();
        }
        Work::start(clients.clone(), "k", ROUNDS).done().await;
        let provoked: u32 = value(&server, "SELECT NEXTVAL(provoked)").parse().unwrap();
        assert!(provoked > 50, "only {provoked} changes");
        for (table, change, _) in triggers {
            server.sql(&format!("DROP TRIGGER provoke_{table}_{change}")).unwrap();
        }
        empties(&clients[0], "k").await;
    }
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
