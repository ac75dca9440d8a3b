//! A slot moves, or its node goes down, while its locks are held, waited for, renewed and released.

use std::time::Instant;

use tenure_testkit::redis::{Cluster, Persistence, RedisOptions, SlotMove};

use crate::bed::{client, empties, gets, line, renewed_since, secs, waits};

fn url(cluster: &Cluster) -> String {
    let hosts: Vec<_> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

/// Prepares to move the slot of a key's line to some other node.
fn moving<'a>(cluster: &'a Cluster, key: &str) -> SlotMove<'a> {
    let slot = cluster.slot_of(&format!("tenure:lock:{key}")).unwrap();
    let from = cluster.node_of(slot).unwrap().port();
    let to = cluster.nodes().iter().find(|node| node.port() != from).unwrap();
    cluster.slot_move(slot, to).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_and_waited_for_at_every_step_of_its_slots_move() {
    let cluster = Cluster::shared().unwrap();
    let (url, ttl, key) = (url(cluster), secs(3), "{held}1");
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex(key).unwrap().acquire().await.unwrap();
    let waiting = waits(&there, key).await;
    let before = line(&here, key).await;
    let slot = moving(cluster, key);
    let name = format!("tenure:lock:{key}");
    let steps: [(&str, &dyn Fn()); 4] = [
        ("open at both ends", &|| slot.open().unwrap()),
        ("the line carried, and what it shares with others not yet", &|| slot.carry(&[&name]).unwrap()),
        ("all carried", &|| assert!(slot.carry_all().unwrap() > 0)),
        ("closed", &|| slot.close().unwrap()),
    ];
    for (step, take) in steps {
        take();
        renewed_since(&held, ttl, Instant::now()).await;
        let now = line(&here, key).await;
        assert_eq!(
            before.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>(),
            now.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>(),
            "{step}"
        );
        assert!(!waiting.is_finished(), "{step}");
    }
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&here, key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_handed_over_between_the_steps_of_its_slots_move() {
    let cluster = Cluster::shared().unwrap();
    let (url, ttl, key) = (url(cluster), secs(15), "{handed}1");
    let clients = [client(&url, ttl).await, client(&url, ttl).await, client(&url, ttl).await];
    let held = clients[0].mutex(key).unwrap().acquire().await.unwrap();
    let second = waits(&clients[1], key).await;
    let third = waits(&clients[2], key).await;
    let slot = moving(cluster, key);
    let mut fences = vec![held.fence()];

    slot.open().unwrap();
    held.release().await.unwrap();
    let held = gets(second).await;
    fences.push(held.fence());
    // A lock that nobody has yet can be asked for meanwhile; it is had when the move is over.
    let fresh = clients[0].mutex("{handed}2").unwrap();
    let fresh = tokio::spawn(async move { fresh.acquire().await });

    slot.carry(&[&format!("tenure:lock:{key}")]).unwrap();
    held.release().await.unwrap();
    // The push is from another server than the one the waiter last heard of, so it must ask; and Redis runs no script
    // whose keys are on both nodes.
    slot.carry_all().unwrap();
    let held = gets(third).await;
    fences.push(held.fence());
    let last = waits(&clients[0], key).await;
    slot.close().unwrap();
    held.release().await.unwrap();
    let held = gets(last).await;
    fences.push(held.fence());
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    held.release().await.unwrap();
    gets(fresh).await.release().await.unwrap();
    for key in [key, "{handed}2"] {
        empties(&clients[1], key).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_a_node_that_goes_down_survive_it_and_those_of_others_do_not_notice() {
    let options = RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() };
    let cluster = Cluster::start_with(options).unwrap();
    let (url, long, short) = (url(&cluster), secs(12), secs(2));
    let (here, there) = (client(&url, long).await, client(&url, long).await);
    let of = |key: &str| cluster.node_of(cluster.slot_of(&format!("tenure:lock:{key}")).unwrap()).unwrap();
    let other_key =
        ["a", "b", "c", "d", "e"].into_iter().find(|key| of(key).port() != of("k").port()).unwrap();
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let other = here.mutex(other_key).unwrap().ttl(short).acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    of("k").kill().unwrap();
    renewed_since(&other, short, Instant::now()).await;
    cluster.heal().unwrap();
    renewed_since(&held, long, Instant::now()).await;
    assert!(!waiting.is_finished());
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    other.release().await.unwrap();
    empties(&here, "k").await;
    empties(&here, other_key).await;
}
