//! The server goes away and comes back, with all it has acknowledged.

use std::time::Instant;

use tenure::Loss;

use crate::bed::{
    client, empties, gets, line, millis, renewed_since, runs_down_to, secs, server, told, waits,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_in_time_costs_nobody_anything() {
    for kill in [true, false] {
        let server = server(&[]);
        let ttl = secs(6);
        let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        if kill {
            server.kill().unwrap()
        } else {
            server.terminate().unwrap()
        }
        // Renewals are due when two thirds are left: some have failed.
        runs_down_to(&held, millis(3500)).await;
        server.restart().unwrap();
        renewed_since(&held, ttl, Instant::now()).await;
        assert!(!waiting.is_finished());
        let fence = held.fence();
        held.release().await.unwrap();
        let next = gets(waiting).await;
        assert!(next.fence() > fence);
        next.release().await.unwrap();
        empties(&here, "k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_away_too_long_costs_the_lock_and_no_more() {
    for freeze in [true, false] {
        let server = server(&[]);
        let ttl = secs(2);
        let here = client(&server.url(), ttl).await;
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        if freeze {
            server.pause().unwrap()
        } else {
            server.kill().unwrap()
        }
        assert_eq!(told(&held, ttl).await, Loss::Expired);
        let fence = held.fence();
        drop(held);
        if freeze {
            server.resume().unwrap()
        } else {
            server.restart().unwrap()
        }
        let next = here.mutex("k").unwrap().acquire_within(secs(15)).await.unwrap();
        assert!(next.fence() > fence);
        assert_eq!(
            line(&here, "k").await.len(),
            1,
            "the old place is gone, by its release or with its lease"
        );
        next.release().await.unwrap();
        empties(&here, "k").await;
    }
}
