use tenure::{ErrorKind, Owner, Standing};

use crate::bed::{Bed, Log, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn readers_share_and_a_writer_is_alone() {
    let bed = Bed::new();
    let (here, there) = (bed.client().rwlock("k").unwrap(), bed.client().rwlock("k").unwrap());
    let readers = [here.read().await.unwrap(), here.read().await.unwrap(), there.read().await.unwrap()];
    assert!(there.try_write().await.unwrap().is_none());
    drop(readers);
    let writer = there.write().await.unwrap();
    assert!(here.try_read().await.unwrap().is_none());
    assert!(here.try_write().await.unwrap().is_none());
    writer.release().await.unwrap();
    assert!(here.try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_is_not_overtaken_by_readers() {
    let bed = Bed::new();
    let lock = bed.client().rwlock("k").unwrap();
    let log = Log::new();
    let first = lock.read().await.unwrap();
    let mut tasks = Vec::new();
    for (i, who) in ["writer", "reader", "reader"].into_iter().enumerate() {
        let (lock, log) = (lock.clone(), log.clone());
        tasks.push(tokio::spawn(async move {
            if who == "writer" {
                let _guard = lock.write().await.unwrap();
                log.push(who);
                others_run().await;
            } else {
                let _guard = lock.read().await.unwrap();
                log.push(who);
            }
        }));
        bed.grows_to("k", i + 2).await;
    }
    assert!(lock.try_read().await.unwrap().is_none(), "a reader that does not wait does not overtake either");
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.entries(), ["writer", "reader", "reader"]);
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_keeps_the_place_and_lets_readers_in_but_no_writer() {
    let bed = Bed::new();
    let lock = bed.client().rwlock("k").unwrap();
    let writer = lock.write().await.unwrap();
    let fence = writer.fence();
    let reading = tokio::spawn({
        let lock = lock.clone();
        async move { lock.read().await.unwrap() }
    });
    bed.grows_to("k", 2).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.fence(), fence);
    let other = reading.await.unwrap();
    assert!(other.fence() > fence);
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(bed.line("k").await.iter().all(|place| place.standing == Standing::Holds));
    tokio::time::sleep(secs(60)).await;
    assert!(!reader.is_lost(), "a downgraded hold is renewed like any other");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_of_a_lost_hold_says_so() {
    let bed = Bed::new();
    let writer = bed.client().rwlock("k").unwrap().fixed_lease(secs(1)).write().await.unwrap();
    tokio::time::sleep(secs(2)).await;
    assert_eq!(writer.downgrade().await.unwrap_err().kind(), ErrorKind::Lost);
    // Past the deadline here, while the engine still keeps the place for a twentieth of the lease.
    let writer = bed.client().rwlock("k").unwrap().fixed_lease(secs(1)).write().await.unwrap();
    tokio::time::sleep(millis(970)).await;
    assert_eq!(writer.downgrade().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_may_read_again_behind_a_waiting_writer() {
    let bed = Bed::new();
    let lock = bed.client().rwlock("k").unwrap();
    let owner = Owner::new();
    let outer = lock.read_as(&owner).await.unwrap();
    let writing = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.map(drop) }
    });
    bed.grows_to("k", 2).await;
    let inner = lock.read_as(&owner).await.unwrap();
    assert_eq!(outer.fence(), inner.fence());
    assert_eq!(
        lock.write_as(&owner).await.unwrap_err().kind(),
        ErrorKind::Invalid,
        "it would wait for itself"
    );
    drop((outer, inner));
    writing.await.unwrap().unwrap();
    let writer = lock.write_as(&owner).await.unwrap();
    assert_eq!(lock.read_as(&owner).await.unwrap().fence(), writer.fence(), "a writer may read");
    let inner = lock.write_as(&owner).await.unwrap();
    assert_eq!(
        inner.downgrade().await.unwrap_err().kind(),
        ErrorKind::Invalid,
        "the outer guard still writes"
    );
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(lock.write_as(&owner).await.unwrap_err().kind(), ErrorKind::Invalid, "now it only reads");
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn timed_waits_end_in_time() {
    let bed = Bed::new();
    let lock = bed.client().rwlock("k").unwrap();
    let _writer = lock.write().await.unwrap();
    assert_eq!(lock.read_within(secs(2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(lock.write_within(secs(2)).await.unwrap_err().kind(), ErrorKind::Timeout);
    bed.grows_to("k", 1).await;
}
