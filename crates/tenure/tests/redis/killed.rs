//! The server ends connections: nobody loses anything.

use std::time::Instant;

use futures_util::future::join_all;

use crate::bed::{Work, client, empties, gets, kill_all, line, listens, renewed_since, secs, server, waits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_costs_neither_holder_nor_waiter_anything() {
    let server = server(&[]);
    let (ttl, url) = (secs(3), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let places =
        async || line(&here, "k").await.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>();
    let before = places().await;
    kill_all(&server);
    renewed_since(&held, ttl, Instant::now()).await;
    assert_eq!(before, places().await);
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_ear_was_cut_off_does_not_sleep_through_its_turn() {
    let server = server(&[]);
    let url = server.url();
    // A waiter that hears nothing looks again after a third of this.
    let (here, there) = (client(&url, secs(60)).await, client(&url, secs(60)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    listens(&server).await;
    kill_all(&server);
    let asked = Instant::now();
    drop(held);
    let next = gets(waiting).await;
    assert!(asked.elapsed() < secs(10), "it took {:?}", asked.elapsed());
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_doubled_while_connections_are_killed_again_and_again() {
    const ROUNDS: usize = 60;
    let server = server(&[]);
    let (ttl, url) = (secs(5), server.url());
    let clients = join_all((0..3).map(|_| client(&url, ttl))).await;
    let work = Work::start(clients, "k", ROUNDS);
    work.disturbed(9, || kill_all(&server)).await;
    work.done().await;
    empties(&client(&url, ttl).await, "k").await;
}
