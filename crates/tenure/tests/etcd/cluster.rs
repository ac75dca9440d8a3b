//! Leaders die and freeze.

use std::time::Instant;

use tenure_testkit::{etcd::Cluster, proxy::Proxy};

use crate::bed::{
    LIMIT, Ledger, client, contend, empties, eventually, gets, renewed_since, runs_down_to, secs, waits,
};

/// What becomes of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Dies,
    Freezes,
}

/// The holder goes on, whether it asked the leader or another; the waiter keeps its place; fences rise.
async fn costs_nobody_the_lock(fate: Fate) {
    let cluster = Cluster::start().unwrap();
    let ttl = secs(4);
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    let (here, there) =
        (client(&cluster.url_from(leader), ttl).await, client(&cluster.url_from(follower), ttl).await);
    let one = here.mutex("one").unwrap().acquire().await.unwrap();
    let two = there.mutex("two").unwrap().acquire().await.unwrap();
    let (behind_one, behind_two) = (waits(&there, "one").await, waits(&here, "two").await);
    let node = &cluster.nodes()[leader];
    match fate {
        Fate::Dies => node.kill().unwrap(),
        Fate::Freezes => node.pause().unwrap(),
    }
    let since = Instant::now();
    renewed_since(&one, ttl, since).await;
    renewed_since(&two, ttl, since).await;
    assert!(!behind_one.is_finished() && !behind_two.is_finished());
    assert_ne!(cluster.leader_among(&[follower, (leader + 2) % 3]).unwrap(), leader);
    match fate {
        Fate::Dies => cluster.restart(leader).unwrap(),
        // It wakes up believing that it leads.
        Fate::Freezes => node.resume().unwrap(),
    }
    let fences = [one.fence(), two.fence()];
    one.release().await.unwrap();
    two.release().await.unwrap();
    for (waiting, fence) in [behind_one, behind_two].into_iter().zip(fences) {
        let next = gets(waiting).await;
        assert!(next.fence() > fence);
        next.release().await.unwrap();
    }
    empties(&here, "one").await;
    empties(&there, "two").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_dies_costs_nobody_the_lock() {
    costs_nobody_the_lock(Fate::Dies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_freezes_costs_nobody_the_lock() {
    costs_nobody_the_lock(Fate::Freezes).await;
}

/// A new leader gives a dead holder's lease its whole time again: twice the lease and an election, not more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_that_dies_with_the_leader_is_followed_within_two_and_a_half_leases() {
    let cluster = Cluster::start().unwrap();
    let ttl = secs(2);
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    // The holder asks a follower, over a way that will be cut.
    let proxy = Proxy::start(cluster.nodes()[follower].addr()).unwrap();
    let here = client(&format!("etcd://{}", proxy.addr()), ttl).await;
    let there = client(&cluster.url_from(follower), secs(10)).await;
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let witness = held.witness();
    let waiting = waits(&there, "k").await;
    proxy.refuse().unwrap();
    proxy.reset().unwrap();
    let silent = Instant::now();
    // Shortly before the lease would end.
    runs_down_to(&held, ttl / 5).await;
    cluster.nodes()[leader].kill().unwrap();
    let next = gets(waiting).await;
    assert!(witness.check().is_err(), "two hold the lock");
    let bound = ttl.mul_f64(2.5) + secs(1);
    assert!(silent.elapsed() < bound, "after {:?}, not {bound:?}", silent.elapsed());
    assert!(next.fence() > held.fence());
    next.release().await.unwrap();
}

/// While leaders come and go, no two hold at once and fences rise.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn contention_over_elections_never_lets_two_in() {
    let cluster = Cluster::start().unwrap();
    let ledger = Ledger::default();
    let clients = [client(&cluster.url_from(0), secs(6)).await, client(&cluster.url_from(1), secs(6)).await];
    let rounds = 60;
    let faults = async {
        for _ in 0..2 {
            let leader = cluster.leader().unwrap();
            let before = ledger.count();
            let some = async || if ledger.count() > before + 5 { Ok(()) } else { Err("too few".to_owned()) };
            eventually("some have been in", LIMIT, some).await;
            cluster.nodes()[leader].kill().unwrap();
            cluster.restart(leader).unwrap();
        }
    };
    let contend = |client| contend(client, "k", rounds, &ledger);
    tokio::join!(contend(&clients[0]), contend(&clients[1]), faults);
    ledger.check(2 * rounds as u64);
    empties(&clients[0], "k").await;
}
