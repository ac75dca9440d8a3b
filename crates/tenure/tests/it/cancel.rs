//! Every public async operation is dropped at every one of its await points, and must leave nothing behind.

use std::sync::Arc;

use tenure::{Client, Multi, Owner};
use tenure_testkit::{cancel::drop_at_every_poll, faults::Yielding};

use crate::bed::{Bed, secs};

/// A client whose every verb waits once before and once after its effect.
fn client(bed: &Bed) -> Client {
    Client::new(Yielding::over(bed.memory.another()), bed.settings()).unwrap()
}

/// Drops what `make` makes at every poll while the key is free, and demands an empty line each time.
async fn leaves_nothing<F: Future>(bed: &Bed, keys: &[&str], make: impl Fn() -> F) -> usize {
    drop_at_every_poll(
        |_| make(),
        |_, output| {
            drop(output);
            async {
                for key in keys {
                    bed.empties(key).await;
                }
            }
        },
    )
    .await
}

/// The same while somebody else holds the keys, who is still there afterwards and alone.
async fn leaves_only_the_holder<F: Future>(bed: &Bed, keys: &[&str], polls: usize, make: impl Fn() -> F) {
    for n in 0..polls {
        // Some are polled only when the lock is free: a minute later they are dropped as they stand.
        drop(tokio::time::timeout(secs(60), tenure_testkit::cancel::poll_times(make(), n)).await);
        for key in keys {
            bed.grows_to(key, 1).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn acquisitions_of_every_kind() {
    let bed = Bed::new();
    let client = client(&bed);
    let mutex = client.mutex("k").unwrap();
    let fair = mutex.clone().fair();
    let fixed = mutex.clone().fixed_lease(secs(5));
    let rwlock = client.rwlock("k").unwrap();
    let semaphore = client.semaphore("k", 3).unwrap();
    let election = client.election("k").unwrap();
    let multi =
        Multi::new([client.mutex("a").unwrap(), client.mutex("b").unwrap(), client.mutex("k").unwrap()])
            .unwrap();
    let owner = Owner::new();
    let keys = ["k"];
    assert!(
        leaves_nothing(&bed, &keys, || mutex.acquire()).await >= 3,
        "the operation has await points to drop at"
    );
    leaves_nothing(&bed, &keys, || mutex.try_acquire()).await;
    leaves_nothing(&bed, &keys, || mutex.acquire_within(secs(1))).await;
    leaves_nothing(&bed, &keys, || mutex.acquire_as(&owner)).await;
    leaves_nothing(&bed, &keys, || mutex.try_acquire_as(&owner)).await;
    leaves_nothing(&bed, &keys, || mutex.run(|held| async move { held.fence() })).await;
    leaves_nothing(&bed, &keys, || fair.acquire()).await;
    leaves_nothing(&bed, &keys, || fair.try_acquire()).await;
    leaves_nothing(&bed, &keys, || fixed.acquire()).await;
    leaves_nothing(&bed, &keys, || rwlock.read()).await;
    leaves_nothing(&bed, &keys, || rwlock.write()).await;
    leaves_nothing(&bed, &keys, || rwlock.try_read()).await;
    leaves_nothing(&bed, &keys, || rwlock.try_write()).await;
    leaves_nothing(&bed, &keys, || semaphore.acquire_many(2)).await;
    leaves_nothing(&bed, &keys, || semaphore.try_acquire()).await;
    leaves_nothing(&bed, &keys, || election.campaign("me")).await;
    leaves_nothing(&bed, &keys, || election.try_campaign("me")).await;
    leaves_nothing(&bed, &["a", "b", "k"], || multi.acquire()).await;
    leaves_nothing(&bed, &["a", "b", "k"], || multi.try_acquire()).await;
}

#[tokio::test(start_paused = true)]
async fn waits_behind_a_holder() {
    let bed = Bed::new();
    let client = client(&bed);
    let other = bed.client();
    let holders = [
        other.mutex("a").unwrap().acquire().await.unwrap(),
        other.mutex("k").unwrap().acquire().await.unwrap(),
    ];
    let mutex = client.mutex("k").unwrap();
    let fair = mutex.clone().fair();
    let rwlock = client.rwlock("k").unwrap();
    let semaphore = client.semaphore("k", 3).unwrap();
    let election = client.election("k").unwrap();
    let multi = Multi::new([client.mutex("0").unwrap(), client.mutex("k").unwrap()]).unwrap();
    leaves_only_the_holder(&bed, &["k"], 12, || mutex.acquire()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || mutex.acquire_within(secs(7))).await;
    leaves_only_the_holder(&bed, &["k"], 12, || mutex.try_acquire()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || fair.acquire()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || fair.acquire_within(secs(7))).await;
    leaves_only_the_holder(&bed, &["k"], 12, || rwlock.read()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || rwlock.write()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || semaphore.acquire()).await;
    leaves_only_the_holder(&bed, &["k"], 12, || election.campaign("me")).await;
    leaves_only_the_holder(&bed, &["k"], 12, || multi.acquire()).await;
    bed.empties("0").await;
    assert!(holders.iter().all(|holder| !holder.is_lost()));
}

#[tokio::test(start_paused = true)]
async fn releases_go_on_in_the_background() {
    let bed = Bed::new();
    let client = client(&bed);
    let mutex = client.mutex("k").unwrap();
    let fair = mutex.clone().fair();
    let rwlock = client.rwlock("k").unwrap();
    for n in 0..6 {
        let guard = mutex.acquire().await.unwrap();
        drop(tenure_testkit::cancel::poll_times(guard.release(), n).await);
        bed.empties("k").await;
        let guard = fair.acquire().await.unwrap();
        drop(tenure_testkit::cancel::poll_times(guard.release(), n).await);
        bed.empties("k").await;
        let guard = rwlock.write().await.unwrap();
        drop(tenure_testkit::cancel::poll_times(guard.downgrade(), n).await);
        bed.empties("k").await;
    }
}

#[tokio::test(start_paused = true)]
async fn hand_overs_between_tasks() {
    let bed = Bed::new();
    let client = client(&bed);
    let mutex = Arc::new(client.mutex("k").unwrap());
    // Four wait; each is dropped after so many polls while the lock goes round.
    for drops in 0..6_usize {
        for victim in 0..4_usize {
            let first = mutex.acquire().await.unwrap();
            let tasks: Vec<_> = (0..4)
                .map(|i| {
                    let mutex = mutex.clone();
                    tokio::spawn(async move {
                        let polls = if i == victim { drops } else { usize::MAX };
                        let guard = tenure_testkit::cancel::poll_times(mutex.acquire(), polls).await;
                        tokio::task::yield_now().await;
                        drop(guard);
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            drop(first);
            for task in tasks {
                tokio::time::timeout(secs(1), task).await.expect("nobody waits for a lease").unwrap();
            }
            bed.empties("k").await;
        }
    }
}
