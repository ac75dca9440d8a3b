//! Three servers, of which one dies, stops or is cut off from the others.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use tenure::{Client, Loss};
use tenure_testkit::zookeeper::{Ensemble, ZookeeperOptions};
use tokio::sync::{Mutex, MutexGuard};

use crate::bed::{client, empties, gets, renewed_since, rival, secs, told, waits, within};

/// One test at a time: elections take longer on a machine that is busy with other ensembles.
static ONE: Mutex<()> = Mutex::const_new(());

/// The ensemble, for one test; each mends what the last one broke.
async fn ensemble() -> (MutexGuard<'static, ()>, &'static Ensemble) {
    let alone = ONE.lock().await;
    let ensemble = Ensemble::shared().unwrap();
    ensemble.mend().unwrap();
    (alone, ensemble)
}

/// One whose members can be cut off from each other.
async fn with_roads() -> (MutexGuard<'static, ()>, &'static Ensemble) {
    static ROADS: OnceLock<Ensemble> = OnceLock::new();
    let alone = ONE.lock().await;
    // Who connects to a road finds nobody at its other end, if the leader is not there yet, and all begin again.
    let options = ZookeeperOptions { init_limit: 15, ..ZookeeperOptions::default() };
    let ensemble = ROADS.get_or_init(|| Ensemble::with_roads(&options).unwrap());
    ensemble.mend().unwrap();
    (alone, ensemble)
}

/// A client of this member only.
async fn at(ensemble: &Ensemble, member: usize, ttl: Duration) -> Client {
    client(&ensemble.servers()[member].url(), ttl).await
}

/// The leader is killed or stops: another one leads, sessions go on, nobody loses anything and nobody gets in twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_that_dies_or_stops_costs_nobody_anything() {
    let (_alone, ensemble) = ensemble().await;
    let ttl = secs(15);
    let (here, there) = (client(&ensemble.url(), ttl).await, client(&ensemble.url(), ttl).await);
    for freeze in [false, true] {
        ensemble.wait_ready().unwrap();
        let leader = &ensemble.servers()[ensemble.leader().unwrap()];
        let held = here.mutex("ensemble/1").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "ensemble/1").await;
        if freeze {
            leader.pause().unwrap()
        } else {
            leader.kill().unwrap()
        }
        renewed_since(&held, ttl, Instant::now()).await;
        assert!(!waiting.is_finished());
        let fence = held.fence();
        held.release().await.unwrap();
        let next = gets(waiting).await;
        assert!(next.fence() > fence, "the fences went back");
        next.release().await.unwrap();
        empties(&here, "ensemble/1").await;
        if freeze { leader.resume().unwrap() } else { leader.restart().unwrap() }
    }
}

/// The holder dies with the leader, as when both are on one machine: the next one holds after its session has ended. A new
/// leader counts all sessions anew, so that takes up to two and a half times as long as without.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_that_dies_with_the_leader_is_followed_in_time() {
    let (_alone, ensemble) = ensemble().await;
    let ttl = secs(3);
    // It bears that nobody leads for a while.
    let there = client(&ensemble.url(), secs(12)).await;
    // In a runtime of its own, which ends without a word as a process does.
    let holder = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = ensemble.url();
    let held = holder.spawn(async move {
        let client = client(&url, ttl).await;
        let guard = client.mutex("ensemble/2").unwrap().acquire().await.unwrap();
        (client, guard)
    });
    let (owner, guard) = held.await.unwrap();
    let (fence, waiting) = (guard.fence(), waits(&there, "ensemble/2").await);
    holder.shutdown_background();
    let died = Instant::now();
    ensemble.servers()[ensemble.leader().unwrap()].kill().unwrap();
    let next = gets(waiting).await;
    let took = died.elapsed();
    assert!(took < ttl * 5 / 2 + secs(3), "after {took:?}");
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    drop((owner, guard));
}

/// A follower is cut off from the leader and goes on talking to its clients. A holder that knows no other server is told before
/// anybody else holds: the leader ends its session, whatever the follower says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_at_a_follower_that_is_cut_off_is_told_before_anybody_else_holds() {
    let (_alone, ensemble) = with_roads().await;
    let followers = ensemble.followers().unwrap();
    let ttl = secs(2);
    for round in 0..2 {
        let key = format!("cut/{round}");
        let here = at(ensemble, followers[0], ttl).await;
        let there = at(ensemble, ensemble.leader().unwrap(), ttl).await;
        let held = here.mutex(&*key).unwrap().acquire().await.unwrap();
        renewed_since(&held, ttl, Instant::now()).await;
        let next = rival(&there, &key, &held).await;
        ensemble.cut_off(followers[0]).unwrap();
        assert_eq!(told(&held, ttl).await, Loss::Expired);
        let next = within("the other has the lock", next).await.unwrap();
        assert!(next.fence() > held.fence());
        drop(held);
        ensemble.rejoin(followers[0]).unwrap();
        next.release().await.unwrap();
        ensemble.wait_ready().unwrap();
        empties(&there, &key).await;
    }
}

/// The same, but the holder knows the other servers too: it goes over to one of them in time and keeps the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_that_knows_the_others_leaves_a_member_that_is_cut_off() {
    let (_alone, ensemble) = with_roads().await;
    let ttl = secs(10);
    let (here, there) = (client(&ensemble.url(), ttl).await, client(&ensemble.url(), ttl).await);
    let held = here.mutex("ensemble/4").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "ensemble/4").await;
    for member in ensemble.followers().unwrap() {
        // Whichever of them the clients are at.
        ensemble.cut_off(member).unwrap();
        let cut = Instant::now();
        renewed_since(&held, ttl, cut).await;
        assert!(!waiting.is_finished());
        ensemble.rejoin(member).unwrap();
        ensemble.wait_ready().unwrap();
    }
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&here, "ensemble/4").await;
}

/// The leader is alone: the others have stopped. It goes on answering for a while, and may have a successor by then, so what it
/// says alone is not believed: its clients are told in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_at_a_leader_without_a_majority_is_told_in_time() {
    let (_alone, ensemble) = ensemble().await;
    let (leader, followers) = (ensemble.leader().unwrap(), ensemble.followers().unwrap());
    let ttl = secs(2);
    let (here, there) = (at(ensemble, leader, ttl).await, client(&ensemble.url(), secs(30)).await);
    let held = here.mutex("ensemble/5").unwrap().acquire().await.unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    let next = rival(&there, "ensemble/5", &held).await;
    for &follower in &followers {
        ensemble.servers()[follower].pause().unwrap();
    }
    assert_eq!(told(&held, ttl).await, Loss::Expired);
    ensemble.mend().unwrap();
    let next = within("the other has the lock", next).await.unwrap();
    assert!(next.fence() > held.fence());
    drop(held);
    next.release().await.unwrap();
    empties(&there, "ensemble/5").await;
}
