//! Nobody is told of a turn here: how soon waiters find out, and how often they ask.

use std::time::Instant;

use tenure_testkit::memcached::Memcached;

use crate::bed::{client, empties, gets, millis, secs, waits};

/// A lock that was held for a moment changes hands in a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_wait_ends_soon() {
    let url = Memcached::shared().unwrap().url();
    let (here, there) = (client(&url, secs(15)).await, client(&url, secs(15)).await);
    let mut waits_for = Vec::new();
    for _ in 0..10 {
        let held = here.mutex("soon").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "soon").await;
        tokio::time::sleep(millis(10)).await;
        let freed = Instant::now();
        held.release().await.unwrap();
        let next = gets(waiting).await;
        waits_for.push(freed.elapsed());
        next.release().await.unwrap();
    }
    waits_for.sort();
    assert!(waits_for[5] < millis(15), "hand-offs took {waits_for:?}");
    empties(&here, "soon").await;
}

/// A long wait costs the server a few questions a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_wait_is_patient() {
    let server = Memcached::start(Default::default()).unwrap();
    let (here, there) = (client(&server.url(), secs(60)).await, client(&server.url(), secs(60)).await);
    let held = here.mutex("long").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "long").await;
    tokio::time::sleep(secs(3)).await;
    let asked = || server.stat("get_hits").unwrap().parse::<u64>().unwrap();
    let before = asked();
    tokio::time::sleep(secs(2)).await;
    // The line and the own lease each time, and once a second the lease ahead.
    let questions = asked() - before;
    assert!((4..60).contains(&questions), "{questions} in two seconds");
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
}
