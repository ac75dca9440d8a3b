//! `replicas=1`: a lock counts when a replica has it, and what becomes of it when none does.

use std::time::Instant;

use tenure::{Client, Error, ErrorKind};
use tenure_testkit::{
    proxy::Proxy,
    redis::{Persistence, Redis, RedisOptions, Role},
};
use tokio::task::JoinHandle;

use crate::bed::{
    LIMIT, client, empties, empties_within, eventually, gets, grows_to, redis, renewed_since, secs, waits,
    within,
};

/// Asks in vain, waiting and not; nothing is left in the line.
async fn in_vain(client: &Client, looker: &Client) {
    let lease = secs(2);
    let mutex = client.mutex("k").unwrap().ttl(lease);
    let says_so = |err: Error| {
        assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
        assert!(err.to_string().contains("0 of 1 replicas"), "{err}");
    };
    says_so(within("the wait ends", mutex.acquire()).await.unwrap_err());
    empties_within(looker, "k", lease / 2).await;
    says_so(within("the try ends", mutex.try_acquire()).await.unwrap_err());
    empties_within(looker, "k", lease / 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_granted_only_with_its_replica_and_kept_without() {
    let master = redis(Persistence::None);
    let role = Role::ReplicaOf(master.port());
    let replica = Redis::start(RedisOptions { role, ..RedisOptions::default() }).unwrap();
    replica.wait_for_info("master_link_status", "up", LIMIT).unwrap();
    let (ttl, url) = (secs(1), format!("{}?replicas=1", master.url()));
    let (here, there, looker) =
        (client(&url, ttl).await, client(&url, ttl).await, client(&master.url(), ttl).await);

    let mut fence = None;
    for _ in 0..3 {
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        held.release().await.unwrap();
        let next = gets(waiting).await;
        assert!(Some(next.fence()) > fence);
        fence = Some(next.fence());
        next.release().await.unwrap();
    }

    let kept = here.mutex("kept").unwrap().acquire().await.unwrap();
    replica.pause().unwrap();
    in_vain(&here, &looker).await;
    // Each of these waits for the replica, one after the other, for half a second.
    let crowd: Vec<_> = (0..10)
        .map(|n| {
            let mutex = here.mutex(format!("crowd{n}")).unwrap().ttl(secs(5));
            tokio::spawn(async move { mutex.acquire().await })
        })
        .collect();
    for n in 0..10 {
        grows_to(&looker, &format!("crowd{n}"), 1).await;
        renewed_since(&kept, ttl, Instant::now()).await;
    }
    crowd.iter().for_each(JoinHandle::abort);
    replica.resume().unwrap();
    for n in 0..10 {
        empties(&looker, &format!("crowd{n}")).await;
    }
    works_again(&here).await;

    replica.kill().unwrap();
    in_vain(&here, &looker).await;
    renewed_since(&kept, ttl, Instant::now()).await;
    replica.restart().unwrap();
    works_again(&here).await;
    kept.release().await.unwrap();
    empties(&looker, "k").await;
    empties(&looker, "kept").await;
}

async fn works_again(client: &Client) {
    let mutex = client.mutex("k").unwrap();
    let again = async || mutex.acquire().await.map_err(|err| err.to_string());
    let held = eventually("the replica follows again", LIMIT, again).await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_an_operator_makes_a_replica_is_left_for_the_new_one() {
    let first = redis(Persistence::None);
    let role = Role::ReplicaOf(first.port());
    let second = Redis::start(RedisOptions { role, ..RedisOptions::default() }).unwrap();
    second.wait_for_info("master_link_status", "up", LIMIT).unwrap();
    // A name that always leads to the master.
    let proxy = Proxy::start(first.addr()).unwrap();
    let (ttl, url) = (secs(4), format!("redis://{}?replicas=1", proxy.addr()));
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    proxy.retarget(second.addr()).unwrap();
    // No connection ends by this: it only answers that it is read-only.
    second.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    first.command(&["REPLICAOF", "127.0.0.1", &second.port().to_string()]).unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    assert!(!waiting.is_finished(), "one holder");
    first.wait_for_info("master_link_status", "up", LIMIT).unwrap();
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    // Its release may be the first verb to find that it speaks to a replica, and then goes on in the background.
    drop(next);
    empties(&here, "k").await;
}
