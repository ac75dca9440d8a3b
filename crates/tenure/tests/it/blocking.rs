//! Real threads and real time: nothing here waits for a clock, only for each other.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tenure::{
    ErrorKind,
    blocking::{self, Client, Multi},
};

use crate::bed::{millis, secs};

fn client(name: &str) -> Client {
    blocking::connect(&format!("memory:blocking-{name}")).unwrap()
}

#[test]
fn one_thread_holds_at_a_time() {
    let client = client("mutex");
    let inside = AtomicUsize::new(0);
    let total = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mutex = client.mutex("k").unwrap();
                for _ in 0..50 {
                    let guard = mutex.acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    total.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(total.load(Ordering::SeqCst), 400);
}

#[test]
fn the_same_thread_may_take_its_lock_again_and_another_may_not() {
    let client = client("reentry");
    let mutex = client.mutex("k").unwrap();
    let outer = mutex.acquire().unwrap();
    let inner = mutex.acquire_within(secs(0)).unwrap();
    assert_eq!(outer.fence(), inner.fence());
    outer.release().unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| mutex.try_acquire().unwrap().is_some());
        assert!(!other.join().unwrap(), "the inner guard still holds it");
    });
    inner.release().unwrap();
    thread::scope(|scope| assert!(scope.spawn(|| mutex.try_acquire().unwrap().is_some()).join().unwrap()));
}

#[test]
fn a_timed_wait_of_a_thread_ends() {
    let client = client("timed");
    let mutex = client.mutex("k").unwrap();
    let _guard = mutex.acquire().unwrap();
    thread::scope(|scope| {
        let err = scope.spawn(|| mutex.acquire_within(millis(50)).map(drop)).join().unwrap().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Timeout);
    });
}

#[test]
fn a_waiting_thread_is_woken_by_a_release() {
    let client = client("wake");
    let mutex = client.mutex("k").unwrap();
    let guard = mutex.acquire().unwrap();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(()).unwrap();
            drop(mutex.acquire_within(secs(20)).unwrap());
            tell.send(()).unwrap();
        });
        told.recv().unwrap();
        drop(guard);
        told.recv_timeout(secs(10)).expect("well before its lease or its patience ends");
    });
}

#[test]
fn readers_writers_and_downgrade() {
    let client = client("rw");
    let lock = client.rwlock("k").unwrap();
    let together = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let guard = lock.read().unwrap();
                let again = lock.read().unwrap();
                together.wait(); // both read at once
                drop((guard, again));
            });
        }
    });
    let writer = lock.write().unwrap();
    assert_eq!(lock.read().unwrap().fence(), writer.fence());
    thread::scope(|scope| assert!(scope.spawn(|| lock.try_read().unwrap().is_none()).join().unwrap()));
    let reader = writer.downgrade().unwrap();
    thread::scope(|scope| assert!(scope.spawn(|| lock.read_within(secs(5)).is_ok()).join().unwrap()));
    assert_eq!(lock.write().unwrap_err().kind(), ErrorKind::Invalid, "this thread reads");
    reader.release().unwrap();
    assert!(lock.write_within(secs(5)).is_ok());
}

#[test]
fn permits_multi_and_election() {
    let client = client("rest");
    let semaphore = client.semaphore("s", 2).unwrap();
    let two = semaphore.acquire_many(2).unwrap();
    assert!(semaphore.try_acquire_many(1).unwrap().is_none());
    two.release().unwrap();
    assert!(semaphore.acquire_many_within(1, secs(5)).is_ok());

    let both = Multi::new([client.mutex("b").unwrap(), client.mutex("a").unwrap()]).unwrap();
    let held = both.acquire_within(secs(5)).unwrap();
    assert!(held.fence(&"a".parse().unwrap()).is_some());
    assert!(both.try_acquire().unwrap().is_none());
    held.release().unwrap();

    let election = client.election("e").unwrap();
    let term = election.campaign("me").unwrap();
    assert_eq!(election.leader().unwrap().unwrap().value(), "me");
    term.resign().unwrap();
    assert!(election.leader().unwrap().is_none());
}

#[test]
fn work_under_a_lock_counts_only_if_it_was_held_to_the_end() {
    let client = client("run");
    let mutex = client.mutex("k").unwrap();
    assert_eq!(mutex.run(|held| held.key().as_str().len()).unwrap(), 1);
    let short = mutex.fixed_lease(millis(100));
    let err = short
        .run(|held| {
            while held.check().is_ok() {
                thread::yield_now();
            }
        })
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Lost);
}

#[test]
fn inside_an_async_task_it_refuses_instead_of_stalling() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let err = blocking::connect("memory:").unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Invalid);
        assert!(err.to_string().contains("async"), "{err}");
    });
}

#[test]
fn a_guard_can_end_on_another_thread() {
    let client = client("move");
    let mutex = Arc::new(client.mutex("k").unwrap());
    let guard = mutex.acquire().unwrap();
    thread::spawn(move || drop(guard)).join().unwrap();
    let other = mutex.clone();
    assert!(thread::spawn(move || other.try_acquire().unwrap().is_some()).join().unwrap());
}

#[test]
fn where_the_refusal_points_to_it_works() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refusal = runtime.block_on(async { blocking::connect("memory:").unwrap_err().to_string() });
    let connect = || blocking::connect("memory:").map(drop);
    let there = if refusal.contains("spawn_blocking") {
        runtime.block_on(async { tokio::task::spawn_blocking(connect).await.unwrap() })
    } else {
        runtime.block_on(async { thread::spawn(connect).join().unwrap() })
    };
    assert!(there.is_ok(), "{refusal}, but there: {there:?}");
}
