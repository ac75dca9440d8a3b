//! The server stands still for less than a lease, or for longer.

use std::time::Instant;

use tenure::{ErrorKind, Loss, connect};

use crate::bed::{
    client, empties, gets, grows_to, millis, renewed_since, runs_down_to, secs, server, told, waits, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_frozen_for_less_than_a_lease_is_not_noticed() {
    let server = server(&[]);
    let (ttl, url) = (secs(4), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    server.pause().unwrap();
    // Renewals are due when two thirds are left: some have gone unanswered.
    runs_down_to(&held, millis(1800)).await;
    server.resume().unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_frozen_for_longer_than_a_lease_costs_the_lock_and_gives_it_to_one() {
    let server = server(&[]);
    let url = server.url();
    // Waiters bear a server that is out of reach for as long as their lease.
    let (ttl, long) = (secs(2), secs(12));
    let (here, there) = (client(&url, ttl).await, client(&url, long).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let first = waits(&there, "k").await;
    let fair = there.mutex("k").unwrap().fair();
    let second = tokio::spawn(async move { fair.acquire().await });
    grows_to(&there, "k", 3).await;
    server.pause().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Expired, "while the server is still frozen");
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    // Also by the server's count everything has ended, or is about to.
    server.resume().unwrap();
    let first = gets(first).await;
    assert!(!second.is_finished(), "one holder");
    let rival = within("the server answers", here.mutex("k").unwrap().ttl(long).try_acquire()).await;
    assert!(rival.unwrap().is_none(), "one holder");
    let fence = first.fence();
    first.release().await.unwrap();
    let second = gets(second).await;
    assert!(second.fence() > fence);
    second.release().await.unwrap();
    empties(&there, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answering_does_not_keep_a_new_client_for_ever() {
    let server = server(&[]);
    server.pause().unwrap();
    let err = within("the connection is given up", connect(&server.url())).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
    server.resume().unwrap();
    within("it is there again", connect(&server.url())).await.unwrap();
}
