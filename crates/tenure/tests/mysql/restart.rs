//! The server goes away, and comes back or not.

use std::time::Instant;

use tenure::Loss;

use crate::bed::{client, empties, gets, renewed_since, secs, server, told, waits};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_in_time_has_forgotten_nothing() {
    for kill in [true, false] {
        let server = server(&[]);
        let ttl = secs(15);
        let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        if kill {
            server.kill().unwrap()
        } else {
            server.terminate().unwrap()
        }
        server.restart().unwrap();
        renewed_since(&held, ttl, Instant::now()).await;
        assert!(!waiting.is_finished(), "two hold the lock");
        let fence = held.fence();
        held.release().await.unwrap();
        let next = gets(waiting).await;
        assert!(next.fence() > fence);
        next.release().await.unwrap();
        empties(&there, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_away_is_told_in_time() {
    let server = server(&[]);
    let ttl = secs(2);
    let client = client(&server.url(), ttl).await;
    let held = client.mutex("k").unwrap().acquire().await.unwrap();
    server.kill().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Expired);
    let fence = held.fence();
    drop(held);
    server.restart().unwrap();
    let next = client.mutex("k").unwrap().acquire().await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&client, "k").await;
}
