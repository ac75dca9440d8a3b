//! The server ends sessions that are idle, or gives them other defaults: nobody loses anything.

use std::time::Instant;

use futures_util::future::join_all;

use crate::bed::{
    LIMIT, Work, client, empties, eventually, gets, line, listening, listens, millis, secs, server, waits,
};

/// The doorbell died with the holder's session, and the one who listened for it too.
/// Whatever a server gives its sessions by default, and whether waiters are told or ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_isolation_level_and_both_ways_to_wait_will_do() {
    const ROUNDS: usize = 15;
    for (settings, option) in [
        (&["transaction_isolation=READ-COMMITTED", "wait_timeout=1", "interactive_timeout=1"][..], ""),
        (&["transaction_isolation=REPEATABLE-READ", "max_statement_time=0.5"], ""),
        (&["transaction_isolation=SERIALIZABLE", "autocommit=0"], ""),
        (&["transaction_isolation=SERIALIZABLE"], "?wake=poll"),
    ] {
        let server = server(settings);
        let (ttl, url) = (secs(5), format!("{}{option}", server.url()));
        let clients = join_all((0..3).map(|_| client(&url, ttl))).await;
        Work::start(clients, "k", ROUNDS).done().await;
        empties(&client(&url, ttl).await, "k").await;
    }
}

/// A server that ends idle sessions after a second ends neither those of a holder nor those of a waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_wait_are_not_idle() {
    let server = server(&["wait_timeout=1", "interactive_timeout=1", "max_statement_time=0.5"]);
    let ttl = secs(30);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let mut other = server.admin().unwrap();
    let ended = async || {
        // One that is not ours shows that the time has passed: each look makes it wait for a second anew.
        tokio::time::sleep(millis(1500)).await;
        if other.sql("DO 0").is_err() { Ok(()) } else { Err("it lives".to_owned()) }
    };
    eventually("an idle session is ended", LIMIT, ended).await;
    let asked = Instant::now();
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    assert!(asked.elapsed() < secs(5), "it took {:?}", asked.elapsed());
}

/// A wait that is given up leaves neither a place nor a session that blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let server = server(&[]);
    let (here, there) = (client(&server.url(), secs(60)).await, client(&server.url(), secs(60)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    for _ in 0..5 {
        let waiting = waits(&there, "k").await;
        listens(&server).await;
        waiting.abort();
        let alone = async || match line(&here, "k").await.len() {
            1 => Ok(()),
            places => Err(format!("{places} places")),
        };
        eventually("its place is given up", secs(3), alone).await;
    }
    let nobody = async || match listening(&server) {
        0 => Ok(()),
        count => Err(format!("{count} still listen")),
    };
    eventually("nobody listens", secs(5), nobody).await;
    held.release().await.unwrap();
    empties(&here, "k").await;
}
