//! The master fails over while a lock is held and waited for.

use std::time::{Duration, Instant};

use tenure_testkit::{
    ensure,
    process::wait_until,
    redis::{Redis, Sentinels},
};

use crate::bed::{LIMIT, client, empties, gets, line, renewed_since, secs, waits};

/// Longer than a failover, which takes a second and a half on a machine that has nothing else to do.
const TTL: Duration = secs(9);

fn url(sentinels: &Sentinels) -> String {
    let hosts: Vec<_> = sentinels.sentinels().iter().map(|sentinel| sentinel.addr().to_string()).collect();
    format!("redis+sentinel://{}/{}", hosts.join(","), Sentinels::NAME)
}

/// Waits until the replica has the line of `k` with two places. Nobody promises that it has; these tests are about
/// what is promised when it does.
fn replicated(sentinels: &Sentinels) {
    wait_until("the replica has the line", LIMIT, || {
        let fields = sentinels.replica()?.command(&["HLEN", "tenure:lock:k"])?.int();
        ensure!(fields == Some(5), "the line has {fields:?} fields: one, and two for each place");
        Ok(())
    })
    .unwrap();
}

/// Waits until the sentinels name this server, and it says the same.
fn promoted(sentinels: &Sentinels, new: &Redis) {
    wait_until("the replica is promoted", LIMIT, || {
        ensure!(sentinels.master()?.port() == new.port(), "the sentinels still name the old master");
        let role = new.info("role")?;
        ensure!(role == "master", "its role is still {role}");
        Ok(())
    })
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_and_waiter_go_on_with_the_new_master() {
    let sentinels = Sentinels::start().unwrap();
    let url = url(&sentinels);
    let (here, there) = (client(&url, TTL).await, client(&url, TTL).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let before = line(&here, "k").await;
    replicated(&sentinels);
    sentinels.fail_over().unwrap();
    renewed_since(&held, TTL, Instant::now()).await;
    let after = line(&client(&url, TTL).await, "k").await;
    assert_eq!(
        before.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>(),
        after.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>()
    );
    assert!(!waiting.is_finished(), "one holder");
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_that_comes_back_as_one_makes_no_second_holder() {
    let sentinels = Sentinels::start().unwrap();
    let url = url(&sentinels);
    let (here, there) = (client(&url, TTL).await, client(&url, TTL).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    replicated(&sentinels);
    let (old, new) = (sentinels.master().unwrap(), sentinels.replica().unwrap());
    old.pause().unwrap();
    promoted(&sentinels, new);
    // From here until it is told otherwise the old one believes that it is the master, and answers what was sent
    // to it before and what is sent on connections that were kept.
    old.resume().unwrap();
    let third = client(&url, TTL).await;
    assert!(third.mutex("k").unwrap().try_acquire().await.unwrap().is_none(), "one holder");
    sentinels.wait_ready().unwrap();
    renewed_since(&held, TTL, Instant::now()).await;
    assert!(!waiting.is_finished(), "one holder");
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&third, "k").await;
}
