use tenure::{ErrorKind, Owner};
use tenure_testkit::faults::Verb;

use crate::bed::{Bed, secs};

#[tokio::test(start_paused = true)]
async fn an_owner_shares_its_hold_under_one_fence_until_the_last_guard_goes() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let (owner, mutex) = (Owner::new(), client.mutex("k").unwrap());
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    let third = mutex.try_acquire_as(&owner).await.unwrap().expect("the owner's already");
    assert_eq!((outer.fence(), inner.fence()), (inner.fence(), third.fence()));
    assert_eq!(faults.count(Verb::Attempt), 1);
    outer.release().await.unwrap();
    drop(inner);
    assert_eq!(bed.line("k").await.len(), 1);
    third.release().await.unwrap();
    assert_eq!(bed.line("k").await.len(), 0);
    assert!(mutex.acquire_as(&owner).await.is_ok(), "and may be taken again");
}

#[tokio::test(start_paused = true)]
async fn another_owner_waits() {
    let bed = Bed::new();
    let mutex = bed.client().mutex("k").unwrap();
    let (one, two) = (Owner::new(), Owner::new());
    let _guard = mutex.acquire_as(&one).await.unwrap();
    assert!(mutex.try_acquire_as(&two).await.unwrap().is_none());
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let err = mutex.acquire_within_as(&two, secs(1)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn reentry_into_a_lost_hold_fails() {
    let bed = Bed::new();
    let mutex = bed.client().mutex("k").unwrap().fixed_lease(secs(1));
    let owner = Owner::new();
    let outer = mutex.acquire_as(&owner).await.unwrap();
    tokio::time::sleep(secs(2)).await;
    assert_eq!(mutex.acquire_as(&owner).await.unwrap_err().kind(), ErrorKind::Lost);
    drop(outer);
    assert!(mutex.acquire_as(&owner).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_owner_that_come_together_share() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let holder = there.mutex("k").unwrap().acquire().await.unwrap();
    let owner = Owner::new();
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (owner, mutex) = (owner.clone(), here.mutex("k").unwrap());
            tokio::spawn(async move { mutex.acquire_as(&owner).await.unwrap() })
        })
        .collect();
    bed.grows_to("k", 2).await;
    holder.release().await.unwrap();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap());
    }
    assert!(guards.iter().all(|guard| guard.fence() == guards[0].fence()));
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_many_keys_forgets_those_it_let_go() {
    let bed = Bed::new();
    let client = bed.client();
    let owner = Owner::new();
    for i in 0..1000 {
        drop(client.mutex(format!("k{i}")).unwrap().acquire_as(&owner).await.unwrap());
    }
    let kept: usize =
        format!("{owner:?}").chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(kept < 64, "{kept}");
}
