//! `replicas=1`: a lock counts when a replica has it, and what becomes of it when none does.

use std::time::Instant;

use tenure::{Client, ErrorKind};
use tenure_testkit::redis::{Persistence, Redis, RedisOptions, Role};

use crate::bed::{LIMIT, client, empties, eventually, gets, redis, renewed_since, secs, waits, within};

/// Asks in vain, waiting and not; nothing is left in the line.
async fn in_vain(client: &Client, looker: &Client) {
    let mutex = client.mutex("k").unwrap();
    let waited = within("the wait ends", mutex.acquire()).await.unwrap_err();
    let tried = within("the try ends", mutex.try_acquire()).await.unwrap_err();
    for err in [waited, tried] {
        assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
        assert!(err.to_string().contains("0 of 1 replicas"), "{err}");
    }
    empties(looker, "k").await;
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
    renewed_since(&kept, ttl, Instant::now()).await;
    replica.resume().unwrap();
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
