//! Whoever goes leaves nothing behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tenure::{Client, Filter, Place};
use tenure_testkit::{
    proxy::{Proxy, Way},
    redis::Persistence,
};

use crate::bed::{client, empties, redis, secs, waits, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_cancelled_at_any_moment_leave_an_empty_line() {
    let redis = redis(Persistence::None);
    // No lease ends while the test runs.
    let (url, ttl) = (redis.url(), secs(60));
    let clients = [client(&url, ttl).await, client(&url, ttl).await];
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = clients
        .iter()
        .map(|client| {
            let (mutex, over) = (client.mutex("k").unwrap(), over.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let guard = within("the lock is free", mutex.acquire()).await.unwrap();
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let cancelling: Vec<_> = (0..4)
        .map(|n| {
            let client = clients[n % 2].clone();
            tokio::spawn(async move {
                for round in 0..50 {
                    let moment = Duration::from_micros(fastrand::u64(0..4000));
                    let _ = tokio::time::timeout(moment, wish(&client, n + round)).await;
                }
            })
        })
        .collect();
    for task in cancelling {
        within("all are cancelled", task).await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for task in busy {
        within("the others end", task).await.unwrap();
    }
    empties(&clients[0], "k").await;
}

/// Waits for the lock in one of the ways there are, and lets it go at once.
async fn wish(client: &Client, kind: usize) {
    match kind % 4 {
        0 => drop(client.mutex("k").unwrap().acquire().await.unwrap()),
        1 => drop(client.mutex("k").unwrap().fair().acquire().await.unwrap()),
        2 => drop(client.rwlock("k").unwrap().read().await.unwrap()),
        _ => drop(client.mutex("k").unwrap().fair().try_acquire().await.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_closed_has_left_every_line() {
    // Also if the first releases are lost with their connection, or only the answers to them.
    for lost in [None, Some(Way::Up), Some(Way::Down)] {
        let redis = redis(Persistence::None);
        let proxy = Proxy::start(redis.addr()).unwrap();
        let (url, ttl) = (format!("redis://{}", proxy.addr()), secs(30));
        let (here, there) = (client(&url, ttl).await, client(&redis.url(), ttl).await);
        let mut guards = Vec::new();
        for n in 0..20 {
            guards.push(here.mutex(format!("k{n}")).unwrap().acquire().await.unwrap());
            guards.push(here.rwlock(format!("rw{n}")).unwrap().read().await.unwrap());
        }
        let permit = here.semaphore("s", 3).unwrap().acquire_many(2).await.unwrap();
        let (mut others, mut waiters) = (Vec::new(), Vec::new());
        for n in 0..5 {
            let key = format!("other{n}");
            others.push(there.mutex(&*key).unwrap().acquire().await.unwrap());
            waiters.push(waits(&here, &key).await);
        }
        if let Some(way) = lost {
            proxy.cut_after(way, 0);
        }
        for waiting in waiters {
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
        }
        drop((guards, permit));
        within("the client is closed", here.close()).await;
        // At once, without another look.
        let left = there.line(&Filter::Prefix(String::new(), 100)).await.unwrap();
        let ours = |place: &&Place| others.iter().all(|other| other.claim_id() != place.id);
        let left: Vec<_> = left.iter().filter(ours).collect();
        assert!(left.is_empty(), "{left:?}");
        drop(others);
        for n in 0..5 {
            empties(&there, &format!("other{n}")).await;
        }
    }
}
