//! What keeps the locks of a client together, and how it ends.

use std::time::{Duration, Instant};

use tenure::{ErrorKind, Loss};
use tenure_testkit::etcd::{Etcd, EtcdOptions};

use crate::bed::{
    client, empties, gets, grows_to, millis, renewed_since, runs_down_to, secs, told, waits, within,
};

/// A lease that an operator revokes takes all locks of the client with it; holders are told at once, and its waiters
/// go on under a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lease_revoked_by_force_is_told_to_holders_and_replaced_for_waiters() {
    let server = Etcd::start(EtcdOptions::default()).unwrap();
    let ttl = secs(20);
    let here = client(&server.url(), ttl).await;
    let held = [
        here.mutex("a").unwrap().acquire().await.unwrap(),
        here.mutex("b").unwrap().acquire().await.unwrap(),
    ];
    let before = server.admin().leases().unwrap();
    assert_eq!(before.len(), 1, "one lease for all");
    let there = client(&server.url(), ttl).await;
    let other = there.mutex("c").unwrap().acquire().await.unwrap();
    let waiting = waits(&here, "c").await;
    server.admin().revoke(&before[0]).unwrap();
    for guard in &held {
        // Much sooner than any renewal is due.
        assert_eq!(told(guard, Duration::from_secs(2)).await, Loss::Gone);
    }
    let fence = held[0].fence();
    for guard in held {
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
    let again = here.mutex("a").unwrap().acquire().await.unwrap();
    assert!(again.fence() > fence);
    grows_to(&there, "c", 2).await;
    other.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    again.release().await.unwrap();
    empties(&here, "c").await;
}

/// Waiters do not miss their turn when the server forgets the history that they wait in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiters_outlive_a_compaction() {
    let server = Etcd::start(EtcdOptions::default()).unwrap();
    let ttl = secs(15);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    for _ in 0..3 {
        server.admin().compact().unwrap();
    }
    held.release().await.unwrap();
    // Told, not found out by asking again when a third of the lease has passed.
    let next = tokio::time::timeout(secs(3), waiting).await.unwrap().unwrap().unwrap();
    next.release().await.unwrap();
    empties(&here, "k").await;
}

/// A server that stands still for less than a lease costs nothing; for longer, it costs the lock, and gives it to one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_frozen_server_is_borne_for_a_lease_and_no_longer() {
    let server = Etcd::start(EtcdOptions::default()).unwrap();
    let (ttl, long) = (secs(4), secs(12));
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), long).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    server.pause().unwrap();
    // Renewals are due when two thirds are left: some have gone unanswered.
    runs_down_to(&held, millis(1500)).await;
    server.resume().unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    assert!(!waiting.is_finished());
    server.pause().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Expired, "while the server is still frozen");
    server.resume().unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > held.fence());
    let rival = within("the server answers", here.mutex("k").unwrap().try_acquire()).await;
    assert!(rival.unwrap().is_none(), "one holder");
    next.release().await.unwrap();
    empties(&there, "k").await;
}

/// A lock with a fixed lease ends with it, though others of the client go on under the same one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fixed_lease_ends_though_its_session_lives() {
    let url = format!("{}?ns=fixed", Etcd::shared().unwrap().url());
    let ttl = secs(2);
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let kept = here.mutex("kept").unwrap().acquire().await.unwrap();
    let fixed = here.mutex("fixed").unwrap().fixed_lease(ttl).acquire().await.unwrap();
    let waiting = waits(&there, "fixed").await;
    assert_eq!(told(&fixed, ttl).await, Loss::Expired);
    gets(waiting).await.release().await.unwrap();
    renewed_since(&kept, ttl, Instant::now()).await;
    kept.release().await.unwrap();
    empties(&there, "fixed").await;
}
