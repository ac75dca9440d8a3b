//! One server is cut off from the others, for real: nothing passes between it and them, and clients still reach it.

use std::time::Instant;

use tenure::Loss;
use tenure_testkit::etcd::Cluster;

use crate::bed::{client, empties, gets, renewed_since, secs, told, waits, within};

/// Whoever knows only the server that is cut off has lost its lock before anybody else can have it, be it the leader
/// of before or a follower. It goes on answering: the leader to keep-alives too, until it notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_on_a_server_that_is_cut_off_is_told_before_anybody_else_holds() {
    let cluster = Cluster::start().unwrap();
    let ttl = secs(2);
    for follower in [false, true] {
        let key = format!("cut/{follower}");
        let leader = cluster.leader().unwrap();
        let cut = if follower { (leader + 1) % 3 } else { leader };
        let others = [(cut + 1) % 3, (cut + 2) % 3];
        let here = client(&cluster.nodes()[cut].url(), ttl).await;
        let there = client(&cluster.url_from(others[0]), secs(10)).await;
        let held = here.mutex(&*key).unwrap().acquire().await.unwrap();
        let witness = held.witness();
        let waiting = waits(&there, &key).await;
        let rival = tokio::spawn(async move {
            let guard = gets(waiting).await;
            // By a look at the clock, at the very moment at which the other one has it.
            assert!(witness.check().is_err(), "two hold the lock");
            guard
        });
        cluster.cut_off(cut).unwrap();
        let cut_at = Instant::now();
        assert_eq!(told(&held, ttl).await, Loss::Expired);
        let next = within("the waiter has the lock", rival).await.unwrap();
        let bound = ttl.mul_f64(2.5) + secs(1);
        assert!(cut_at.elapsed() < bound, "after {:?}, not {bound:?}", cut_at.elapsed());
        assert!(next.fence() > held.fence());
        drop(held);
        // What comes back frees nobody, and waits like everybody else.
        cluster.join().unwrap();
        let back = waits(&here, &key).await;
        renewed_since(&next, secs(10), Instant::now()).await;
        assert!(!back.is_finished());
        next.release().await.unwrap();
        gets(back).await.release().await.unwrap();
        empties(&there, &key).await;
    }
}

/// Whoever knows the others too goes on there, and keeps its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_that_knows_the_others_keeps_its_lock() {
    let cluster = Cluster::start().unwrap();
    let ttl = secs(5);
    let cut = cluster.leader().unwrap();
    let here = client(&cluster.url_from(cut), ttl).await;
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&here, "other").await;
    gets(waiting).await.release().await.unwrap();
    cluster.cut_off(cut).unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    renewed_since(&held, ttl, Instant::now()).await;
    cluster.join().unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    held.release().await.unwrap();
    empties(&here, "k").await;
}
