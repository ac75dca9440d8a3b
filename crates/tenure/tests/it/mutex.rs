use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tenure::{ErrorKind, Key, Standing, Witness};
use tenure_local::Memory;
use tenure_testkit::faults::{Fault, Faulty, Nth, Verb};
use tokio::time::Instant;

use crate::bed::{Bed, Log, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn one_holds_at_a_time_within_a_process_and_between_two() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks = (0..40).map(|i| {
        let mutex = if i % 2 == 0 { &here } else { &there }.mutex("k").unwrap();
        let inside = inside.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    bed.empties("k").await;
}

#[tokio::test(start_paused = true)]
async fn try_acquire_says_none_while_others_hold_it_and_leaves_nothing() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let guard = here.mutex("k").unwrap().acquire().await.unwrap();
    assert!(
        here.mutex("k").unwrap().try_acquire().await.unwrap().is_none(),
        "held by a task of this process"
    );
    assert!(there.mutex("k").unwrap().try_acquire().await.unwrap().is_none(), "held by another process");
    assert_eq!(bed.line("k").await.len(), 1);
    guard.release().await.unwrap();
    assert!(there.mutex("k").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_ends_in_time_and_leaves_nothing() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let guard = here.mutex("k").unwrap().acquire().await.unwrap();
    for client in [&here, &there] {
        for mutex in [client.mutex("k").unwrap(), client.mutex("k").unwrap().fair()] {
            let began = Instant::now();
            let err = mutex.acquire_within(secs(20)).await.unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Timeout, "{err}");
            assert_eq!(err.key().map(Key::as_str), Some("k"));
            assert!((secs(20)..secs(20) + millis(50)).contains(&began.elapsed()), "{:?}", began.elapsed());
        }
    }
    bed.grows_to("k", 1).await;
    assert!(!guard.is_lost(), "the holder was renewed all the while");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_nothing_still_tries_once() {
    let bed = Bed::new();
    let mutex = bed.client().mutex("k").unwrap();
    assert!(mutex.acquire_within(secs(0)).await.is_ok());
    assert!(mutex.fair().acquire_within(secs(0)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_guard_releases_it_at_once_on_a_local_engine() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    for mutex in [here.mutex("k").unwrap(), here.mutex("k").unwrap().fair()] {
        drop(mutex.acquire().await.unwrap());
        assert!(there.mutex("k").unwrap().try_acquire().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_outside_the_runtime_is_released() {
    let bed = Bed::new();
    let (client, _faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    bed.empties("k").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_takes_its_time_can_start_outside_the_runtime() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    faults.on(Verb::Release, Nth::EVERY, Fault::Delay(millis(50)));
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().expect("a timer needs a runtime, and finds the client's");
    tokio::time::sleep(millis(100)).await;
    bed.empties("k").await;
}

#[test]
fn a_release_that_takes_its_time_survives_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let memory = Memory::named("survives");
    let (engine, faults) = Faulty::over(memory.clone());
    let guard = runtime.block_on(async {
        let client = tenure::Client::new(engine, tenure::Settings::default()).unwrap();
        faults.on(Verb::Release, Nth::EVERY, Fault::Delay(millis(50)));
        client.mutex("k").unwrap().acquire().await.unwrap()
    });
    drop(runtime);
    drop(guard);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = tenure::Client::new(memory, tenure::Settings::default()).unwrap();
        assert!(client.mutex("k").unwrap().acquire_within(secs(5)).await.is_ok());
    });
}

#[test]
fn a_guard_that_outlives_its_runtime_is_released() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, guard) = runtime.block_on(async {
        let client = tenure::connect("memory:outlives").await.unwrap();
        let guard = client.mutex("k").unwrap().acquire().await.unwrap();
        (client, guard)
    });
    drop(runtime);
    drop(guard);
    drop(client);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = tenure::connect("memory:outlives").await.unwrap();
        assert!(client.mutex("k").unwrap().acquire_within(secs(5)).await.is_ok());
    });
}

#[tokio::test(start_paused = true)]
async fn fences_rise_in_the_order_of_grants() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let log = Log::new();
    let tasks = (0..30).map(|i| {
        let mutex = if i % 3 == 0 { &there } else { &here }.mutex("k").unwrap();
        let mutex = if i % 5 == 0 { mutex.fair() } else { mutex };
        let log = log.clone();
        tokio::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            log.push(guard.fence());
            tokio::task::yield_now().await;
            drop(guard);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let fences = log.entries();
    assert_eq!(fences.len(), 30);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_after_the_loss_says_so_and_touches_nobody_else() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let slow = here.mutex("k").unwrap().fixed_lease(secs(2)).acquire().await.unwrap();
    let next = there.mutex("k").unwrap().acquire().await.unwrap();
    assert!(slow.is_lost());
    assert_eq!(slow.check().unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(slow.remaining(), Some(secs(0)));
    assert!(next.fence() > slow.fence());
    assert_eq!(slow.release().await.unwrap_err().kind(), ErrorKind::Lost);
    others_run().await;
    assert_eq!(bed.line("k").await.len(), 1);
    assert!(!next.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_ends_and_is_never_renewed() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().fixed_lease(secs(2)).acquire().await.unwrap();
    let began = Instant::now();
    guard.lost().await;
    // 2 s less the margin of a twentieth.
    assert!((millis(1899)..millis(1910)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(faults.count(Verb::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_any_io() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    assert_eq!(client.mutex("").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(client.mutex("k".repeat(1025)).unwrap_err().kind(), ErrorKind::Invalid);
    for ttl in [secs(0), millis(1), secs(60 * 60 * 24 * 365)] {
        for mutex in [client.mutex("k").unwrap().ttl(ttl), client.mutex("k").unwrap().ttl(ttl).fair()] {
            assert_eq!(mutex.acquire().await.unwrap_err().kind(), ErrorKind::Invalid);
            assert_eq!(mutex.try_acquire().await.unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
    assert_eq!(faults.count(Verb::Attempt), 0);
}

#[tokio::test(start_paused = true)]
async fn people_see_who_holds_and_why() {
    let bed = Bed::new();
    let client = bed.client_with(|settings| settings.who = "ana@web-3:812".into());
    let _guard = client.mutex("k").unwrap().label("deploy v41").acquire().await.unwrap();
    let line = bed.line("k").await;
    assert_eq!((line[0].note.who(), line[0].note.label()), ("ana@web-3:812", "deploy v41"));
    assert_eq!(line[0].standing, Standing::Holds);
}

#[tokio::test(start_paused = true)]
async fn run_works_under_the_lock_and_releases_it() {
    let bed = Bed::new();
    let client = bed.client();
    let fence = client.mutex("k").unwrap().run(|held| async move { held.fence() }).await.unwrap();
    assert_eq!(bed.line("k").await.len(), 0);
    assert!(client.mutex("k").unwrap().acquire().await.unwrap().fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn run_drops_the_work_when_the_lock_is_lost() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let bed = Bed::new();
    let client = bed.client();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    let began = Instant::now();
    let work = |_| async move {
        let _flag = flag;
        std::future::pending::<()>().await;
    };
    let err = client.mutex("k").unwrap().fixed_lease(secs(2)).run(work).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::SeqCst));
    assert!(began.elapsed() < secs(2), "before anybody else can hold it");
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_after_the_loss_does_not_count() {
    let bed = Bed::new();
    let (client, _faults, clock) = bed.jumpy();
    // The machine sleeps in the middle of a step, so that nothing can stop the work in time.
    let work = |held: Witness| async move {
        clock.jump(secs(3600));
        held.fence()
    };
    let err = client.mutex("k").unwrap().run(work).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_refuses_and_flushes() {
    let bed = Bed::new();
    let (client, _faults) = bed.faulty();
    let (held, dropped) = (client.mutex("held").unwrap(), client.mutex("dropped").unwrap());
    let guard = held.acquire().await.unwrap();
    drop(dropped.acquire().await.unwrap());
    client.close().await;
    assert_eq!(bed.line("dropped").await.len(), 0);
    assert_eq!(dropped.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(bed.line("held").await.len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn fair_is_first_come_first_served_across_processes() {
    let bed = Bed::new();
    let clients = [bed.client(), bed.client(), bed.client()];
    let first = clients[0].mutex("k").unwrap().fair().acquire().await.unwrap();
    let log = Log::new();
    let mut tasks = Vec::new();
    for i in 0..12 {
        let mutex = clients[i % 3].mutex("k").unwrap().fair();
        let log = log.clone();
        tasks.push(tokio::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            log.push(i);
            guard.release().await.unwrap();
        }));
        bed.grows_to("k", i + 2).await;
    }
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(log.entries(), (0..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_fixed_lease_ends_even_where_places_live_as_long_as_their_process() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().join("locks").display());
    let (here, there) = (tenure::connect(&url).await.unwrap(), tenure::connect(&url).await.unwrap());
    let guard = here.mutex("k").unwrap().fixed_lease(millis(100)).acquire().await.unwrap();
    assert!(guard.remaining().is_some());
    let next = there.mutex("k").unwrap().acquire_within(secs(4)).await.expect("freed while the guard lives");
    assert!(guard.is_lost() && next.fence() > guard.fence());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await.unwrap();
}

/// A connection that died while it was idle is found out by the release after it.
#[tokio::test(start_paused = true)]
async fn a_release_asks_once_more_before_it_fails() {
    for fault in [Fault::DropRequest, Fault::DropReply] {
        let bed = Bed::new();
        let (client, faults) = bed.faulty();
        let mutex = client.mutex("k").unwrap().fair();
        let guard = mutex.acquire().await.unwrap();
        faults.on(Verb::Release, Nth::Call(1), fault.clone());
        guard.release().await.unwrap();
        assert_eq!(faults.count(Verb::Release), 2);
        // It is free, whichever of the two did it.
        let guard = mutex.try_acquire().await.unwrap().unwrap();
        faults.on(Verb::Release, Nth::From(3), fault);
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
