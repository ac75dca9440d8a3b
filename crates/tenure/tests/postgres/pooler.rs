//! PgBouncer in between, which lends its connections for a transaction.

use std::time::Instant;

use tenure::{Loss, Wake};
use tenure_testkit::pgbouncer::{PgBouncer, PgBouncerOptions};

use crate::bed::{
    LIMIT, Work, client, empties, eventually, gets, renewed_since, runs_down_to, secs, server, told, value,
    waits, within,
};

/// Clients through the pooler and one past it keep out of each other's way, and leave nothing in its sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_gets_in_twice_and_nothing_stays_in_a_session() {
    const ROUNDS: usize = 15;
    let server = server(&[]);
    let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default()).unwrap();
    let (ttl, url) = (secs(5), pooler.url());
    let clients = [client(&url, ttl).await, client(&url, ttl).await, client(&server.url(), ttl).await];
    Work::start(clients, "k", ROUNDS).done().await;
    let looking = client(&pooler.url(), secs(5)).await;
    empties(&looking, "k").await;
    assert_eq!(value(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
    let mut borrowed = pooler.session().unwrap();
    for question in [
        "SELECT count(*) FROM pg_listening_channels()",
        "SELECT count(*) FROM pg_prepared_statements",
        "SELECT count(*) FROM pg_settings WHERE name IN ('lock_timeout', 'statement_timeout') AND setting <> '0'",
    ] {
        assert_eq!(borrowed.sql(question).unwrap().concat().concat(), "0", "{question}");
    }
}

/// Waiters are not told behind it, so they ask; and are there in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_behind_it_asks_again() {
    let server = server(&[]);
    let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default()).unwrap();
    let (here, there) = (client(&server.url(), secs(9)).await, client(&pooler.url(), secs(9)).await);
    assert_eq!(there.guarantees().wake, Wake::Poll);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let released = Instant::now();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(released.elapsed() < secs(3), "it took {:?}", released.elapsed());
    next.release().await.unwrap();
    empties(&here, "k").await;
}

/// It ends, or loses its connections to the server: a short while costs nothing, a long one the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_goes_away_is_noticed_in_time() {
    let server = server(&[]);
    let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default()).unwrap();
    let ttl = secs(4);
    let (here, past) = (client(&pooler.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    pooler.console("RECONNECT").unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    server
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure'")
        .unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    pooler.kill().unwrap();
    runs_down_to(&held, secs(2)).await;
    pooler.restart().unwrap();
    renewed_since(&held, ttl, Instant::now()).await;

    let waiting = waits(&past, "k").await;
    let witness = held.witness();
    let rival = tokio::spawn(async move {
        let guard = gets(waiting).await;
        assert!(witness.check().is_err(), "two hold the lock");
        guard
    });
    pooler.kill().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Expired);
    drop(held);
    let next = within("the other has the lock", rival).await.unwrap();
    next.release().await.unwrap();
    let nothing = async || match &*value(&server, "SELECT count(*) FROM tenure_places WHERE state < 4") {
        "0" => Ok(()),
        rows => Err(format!("{rows} rows")),
    };
    eventually("nothing is left", LIMIT, nothing).await;
}
