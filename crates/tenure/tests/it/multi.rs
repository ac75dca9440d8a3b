use tenure::{Client, ErrorKind, Multi};
use tokio::time::Instant;

use crate::bed::{Bed, millis, secs};

fn multi(client: &Client, keys: &[&str]) -> Multi {
    Multi::new(keys.iter().map(|key| client.mutex(*key).unwrap())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let b = there.mutex("b").unwrap().acquire().await.unwrap();
    let three = multi(&here, &["c", "a", "b"]);
    assert!(three.try_acquire().await.unwrap().is_none());
    for key in ["a", "c"] {
        bed.empties(key).await;
    }
    b.release().await.unwrap();
    let all = three.acquire().await.unwrap();
    assert_eq!(all.guards().iter().map(|guard| guard.key().as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    for key in ["a", "b", "c"] {
        assert!(there.mutex(key).unwrap().try_acquire().await.unwrap().is_none());
        assert!(all.fence(&key.parse().unwrap()).is_some());
    }
    all.release().await.unwrap();
    for key in ["a", "b", "c"] {
        assert_eq!(bed.line(key).await.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_do_not_wait_for_each_other() {
    let bed = Bed::new();
    let mut tasks = Vec::new();
    for i in 0..20 {
        let client = bed.client();
        tasks.push(tokio::spawn(async move {
            let keys = if i % 2 == 0 { ["x", "y", "z"] } else { ["z", "y", "x"] };
            for _ in 0..5 {
                multi(&client, &keys).acquire_within(secs(600)).await.unwrap().release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_for_all() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let a = there.mutex("a").unwrap().acquire().await.unwrap();
    let _b = there.mutex("b").unwrap().acquire().await.unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(secs(6)).await;
        drop(a);
    });
    let began = Instant::now();
    let err = multi(&here, &["a", "b"]).acquire_within(secs(10)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Timeout);
    assert!((secs(10)..secs(10) + millis(100)).contains(&began.elapsed()), "{:?}", began.elapsed());
    bed.empties("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_key_named_twice_is_refused() {
    let bed = Bed::new();
    let client = bed.client();
    let err = Multi::new([client.mutex("a").unwrap(), client.mutex("a").unwrap()]).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Invalid);
    assert!(Multi::new([]).is_err());
    let other = Bed::new().client();
    assert!(
        Multi::new([client.mutex("a").unwrap(), other.mutex("a").unwrap()]).is_ok(),
        "the same key elsewhere"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_lost_while_waiting_for_another_is_taken_again() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let b = there.mutex("b").unwrap().acquire().await.unwrap();
    let two = Multi::new([here.mutex("a").unwrap().fixed_lease(secs(5)), here.mutex("b").unwrap()]).unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await.unwrap() });
    tokio::time::sleep(secs(8)).await;
    b.release().await.unwrap();
    let both = waiting.await.unwrap();
    both.check().unwrap();
    let (key, _) = both.lost().await;
    assert_eq!(key.as_str(), "a");
    assert!(both.is_lost());
}
