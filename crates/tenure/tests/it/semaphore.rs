use tenure::ErrorKind;
use tenure_testkit::faults::Verb;

use crate::bed::{Bed, secs};

#[tokio::test(start_paused = true)]
async fn never_more_permits_are_out_than_there_are() {
    let bed = Bed::new();
    let (here, there) = (bed.client().semaphore("k", 3).unwrap(), bed.client().semaphore("k", 3).unwrap());
    let two = here.acquire_many(2).await.unwrap();
    assert!(there.try_acquire_many(2).await.unwrap().is_none());
    let one = there.acquire().await.unwrap();
    assert!(here.try_acquire().await.unwrap().is_none());
    assert!(one.order() > two.order());
    two.release().await.unwrap();
    assert_eq!(there.acquire_many(2).await.unwrap().taken(), 2);
}

#[tokio::test(start_paused = true)]
async fn many_are_not_starved_by_single_ones() {
    let bed = Bed::new();
    let semaphore = bed.client().semaphore("k", 2).unwrap();
    let one = semaphore.acquire().await.unwrap();
    let both = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire_many(2).await.unwrap() }
    });
    bed.grows_to("k", 2).await;
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "one is free, but somebody waits for it");
    drop(one);
    drop(both.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn two_who_count_differently_are_told_both_numbers() {
    let bed = Bed::new();
    let _held = bed.client().semaphore("k", 3).unwrap().acquire().await.unwrap();
    let other = bed.client().semaphore("k", 5).unwrap();
    for err in [other.acquire().await.unwrap_err(), other.try_acquire().await.unwrap_err()] {
        assert_eq!(err.kind(), ErrorKind::Invalid);
        assert!(err.to_string().contains('3') && err.to_string().contains('5'), "{err}");
    }
    bed.grows_to("k", 1).await;
}

#[tokio::test(start_paused = true)]
async fn impossible_numbers_are_refused_before_any_io() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    assert_eq!(client.semaphore("k", 0).unwrap_err().kind(), ErrorKind::Invalid);
    let semaphore = client.semaphore("k", 2).unwrap();
    assert_eq!(semaphore.acquire_many(0).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(semaphore.acquire_many(3).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(faults.count(Verb::Attempt), 0);
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_and_given_back_when_dropped() {
    let bed = Bed::new();
    let semaphore = bed.client().semaphore("k", 1).unwrap();
    let permit = semaphore.acquire().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert!(!permit.is_lost());
    drop(permit);
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_ends_in_time() {
    let bed = Bed::new();
    let semaphore = bed.client().semaphore("k", 1).unwrap();
    let _permit = semaphore.acquire().await.unwrap();
    assert_eq!(semaphore.acquire_many_within(1, secs(2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    bed.grows_to("k", 1).await;
}
