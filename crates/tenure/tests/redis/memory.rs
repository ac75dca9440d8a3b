//! The server forgets: flushed by somebody, or restarted with all, most or nothing of what it knew.

use std::time::Instant;

use tenure::{ErrorKind, Loss, Standing};
use tenure_testkit::redis::Persistence;

use crate::bed::{
    client, empties, forgets, gets, line, millis, redis, renewed_since, runs_down_to, secs, told, waits,
    within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_tells_the_holder_at_its_next_renewal_and_serves_the_waiters() {
    let redis = redis(Persistence::None);
    forgets(&redis.url(), secs(3), || drop(redis.command(&["FLUSHALL"]).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_a_restart_of_a_server_that_writes_what_it_knows() {
    for persistence in [Persistence::AofAlways, Persistence::AofEverysec] {
        let redis = redis(persistence);
        let (ttl, url) = (secs(4), redis.url());
        let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        let before = line(&here, "k").await;
        redis.kill().unwrap();
        redis.restart().unwrap();
        let restarted = Instant::now();
        renewed_since(&held, ttl, restarted).await;
        let after = line(&here, "k").await;
        assert_eq!(
            (after[0].id, after[0].seq, after[0].standing),
            (before[0].id, before[0].seq, Standing::Holds)
        );
        assert_eq!((after[1].id, after[1].seq), (before[1].id, before[1].seq), "the waiter keeps its place");
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
async fn a_restart_gives_every_place_a_whole_lease() {
    let redis = redis(Persistence::AofAlways);
    let (lease, url) = (secs(2), redis.url());
    let (here, there) = (client(&url, secs(6)).await, client(&url, secs(6)).await);
    let held = here.mutex("k").unwrap().fixed_lease(lease).acquire().await.unwrap();
    redis.kill().unwrap();
    runs_down_to(&held, millis(500)).await;
    let down = Instant::now();
    redis.restart().unwrap();
    let left = line(&there, "k").await[0].lease_left.unwrap();
    assert!(left > lease * 9 / 10, "only {left:?} are left");
    assert!(there.mutex("k").unwrap().try_acquire().await.unwrap().is_none());
    let next = within("the lease ends", there.mutex("k").unwrap().acquire()).await.unwrap();
    assert!(down.elapsed() >= lease, "freed {:?} after the restart began", down.elapsed());
    assert!(held.is_lost());
    assert_eq!(told(&held, lease).await, Loss::Expired);
    next.release().await.unwrap();
    empties(&there, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_empty_tells_the_holder_and_serves_the_waiter() {
    let redis = redis(Persistence::None);
    let (ttl, url) = (secs(4), redis.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    redis.kill().unwrap();
    redis.restart().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Gone, "the server said so, not the clock");
    let next = gets(waiting).await;
    assert!(next.fence() > held.fence(), "{:?} after {:?}", next.fence(), held.fence());
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!next.is_lost());
    next.release().await.unwrap();
    empties(&here, "k").await;
}
