use std::time::Duration;

use tenure::{Client, ErrorKind, Fence, Settings};
use tenure_testkit::{
    cancel::pause_after,
    faults::{Fault, Faulty, Nth, Verb},
};

use crate::bed::{Bed, Far, Log, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn tasks_of_a_process_share_one_place_and_hand_over_without_the_engine() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let mutex = client.mutex("k").unwrap();
    let first = mutex.acquire().await.unwrap();
    let log = Log::new();
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let (mutex, log) = (mutex.clone(), log.clone());
            tokio::spawn(async move {
                let guard = mutex.acquire().await.unwrap();
                log.push((i, guard.fence()));
            })
        })
        .collect();
    others_run().await;
    assert_eq!(bed.line("k").await.len(), 1, "the waiters stand in memory");
    let seq = first.fence().seq();
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    let log = log.entries();
    assert_eq!(
        log.iter().map(|(i, _)| *i).collect::<Vec<_>>(),
        (0..20).collect::<Vec<_>>(),
        "first come, first served"
    );
    for (turn, (_, fence)) in (1..).zip(&log) {
        assert_eq!(*fence, Fence::new(seq, turn), "each turn has its own, larger fence");
    }
    others_run().await;
    assert_eq!((faults.count(Verb::Attempt), faults.count(Verb::Release)), (1, 1));
}

/// How often tasks of `here`, each of which stays so long, hand their place on until another process gets the lock.
async fn hand_overs(bed: &Bed, here: &Client, tasks: usize, stay: Duration) -> usize {
    let log = Log::new();
    let first = here.mutex("k").unwrap().acquire().await.unwrap();
    let rival = {
        let (mutex, log) = (bed.client().mutex("k").unwrap(), log.clone());
        tokio::spawn(async move {
            let _guard = mutex.acquire().await.unwrap();
            log.push("there");
        })
    };
    bed.grows_to("k", 2).await;
    let mut all = vec![rival];
    for _ in 0..tasks {
        let (mutex, log) = (here.mutex("k").unwrap(), log.clone());
        all.push(tokio::spawn(async move {
            let _guard = mutex.acquire().await.unwrap();
            log.push("here");
            tokio::time::sleep(stay).await;
        }));
    }
    others_run().await;
    drop(first);
    for task in all {
        task.await.unwrap();
    }
    log.entries().iter().position(|who| *who == "there").unwrap()
}

#[tokio::test(start_paused = true)]
async fn after_its_turns_the_place_goes_to_other_processes() {
    let bed = Bed::new();
    let here = bed.client_with(|s| s.turns = 5);
    assert_eq!(hand_overs(&bed, &here, 12, Duration::ZERO).await, 5);
}

#[tokio::test(start_paused = true)]
async fn after_its_time_the_place_goes_to_other_processes() {
    let bed = Bed::new();
    let here = bed.client_with(|s| s.turn_time = millis(100));
    assert_eq!(hand_overs(&bed, &here, 6, millis(40)).await, 3, "at 0, 40 and 80 ms, then no more");
}

#[tokio::test(start_paused = true)]
async fn where_a_trip_is_slow_the_place_stays_for_a_few_trips() {
    let slow = async |change: fn(&mut Settings)| {
        let bed = Bed::new();
        let mut settings = bed.settings();
        (settings.turns, settings.turn_time) = (2, secs(10));
        change(&mut settings);
        let (engine, faults) = Faulty::over(bed.memory.another());
        faults.on(Verb::Attempt, Nth::EVERY, Fault::Delay(millis(20)));
        hand_overs(&bed, &Client::new(engine, settings).unwrap(), 6, millis(40)).await
    };
    assert_eq!(slow(|_| {}).await, 4, "at 0, 40, 80 and 120 ms: eight trips are 160");
    assert_eq!(slow(|s| s.trips = 0).await, 2, "the turns alone");
    assert_eq!(slow(|s| s.turn_time = millis(100)).await, 3, "and no longer than allowed");
}

/// The next process waits for the release; the place that this one asks for anew can wait. Where a connection carries one
/// request at a time, the order in which the two are begun is the order in which they are done.
#[tokio::test(start_paused = true)]
async fn a_place_is_given_back_before_another_is_asked_for() {
    let bed = Bed::new();
    let mut settings = bed.settings();
    (settings.turns, settings.trips) = (1, 0);
    let (engine, begun) = Far::over(bed.memory.another());
    let here = Client::new(engine, settings).unwrap();
    let mutex = here.mutex("k").unwrap();
    let guard = mutex.acquire().await.unwrap();
    let next = || {
        let mutex = mutex.clone();
        tokio::spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() })
    };
    let (second, third) = (next(), next());
    others_run().await;
    drop(guard);
    second.await.unwrap();
    third.await.unwrap();
    assert_eq!(begun.entries(), ["attempt", "release", "attempt", "release"]);
}

/// However many guards are dropped at once, only so many releases are under way at a time.
#[tokio::test(start_paused = true)]
async fn not_all_dropped_guards_are_given_back_at_once() {
    let bed = Bed::new();
    let (engine, begun) = Far::over(bed.memory.another());
    let here = Client::new(engine, bed.settings()).unwrap();
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(here.mutex(format!("k{number}")).unwrap().acquire().await.unwrap());
    }
    drop(guards);
    assert_eq!(begun.entries().iter().filter(|&&verb| verb == "release").count(), 64);
    here.close().await;
    assert_eq!(begun.entries().iter().filter(|&&verb| verb == "release").count(), 200);
}

#[tokio::test(start_paused = true)]
async fn no_turns_means_a_place_for_each() {
    let bed = Bed::new();
    let client = bed.client_with(|s| s.turns = 0);
    let mutex = client.mutex("k").unwrap();
    let _first = mutex.acquire().await.unwrap();
    let _tasks: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let mutex = mutex.clone();
                async move { mutex.acquire().await.map(drop) }
            })
        })
        .collect();
    bed.grows_to("k", 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_cancelled_while_it_is_handed_the_lock_passes_it_on() {
    let bed = Bed::new();
    let client = bed.client();
    let mutex = client.mutex("k").unwrap();
    let first = mutex.acquire().await.unwrap();
    let second = pause_after(mutex.acquire(), 1).await.expect("it waits");
    let third = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap().fence() }
    });
    others_run().await;
    let fence = first.fence();
    drop(first); // the baton is now second's, unread
    drop(second);
    let got = third.await.unwrap();
    assert_eq!(got, Fence::new(fence.seq(), 2), "the turn of the cancelled one is burnt");
    bed.empties("k").await;
}

#[tokio::test(start_paused = true)]
async fn the_first_waiter_takes_nobody_else_with_it() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let holder = there.mutex("k").unwrap().acquire().await.unwrap();
    let mutex = here.mutex("k").unwrap();
    let first = pause_after(mutex.acquire(), 1).await.expect("it waits");
    let second = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    others_run().await;
    let place = bed.line("k").await[1].id;
    drop(first);
    others_run().await;
    assert_eq!(bed.line("k").await[1].id, place, "the process keeps its place in the line");
    holder.release().await.unwrap();
    drop(second.await.unwrap());
    bed.empties("k").await;
}

#[tokio::test(start_paused = true)]
async fn the_last_one_out_gives_up_the_place() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let _holder = there.mutex("k").unwrap().acquire().await.unwrap();
    let mutex = here.mutex("k").unwrap();
    let waiters = [
        pause_after(mutex.acquire(), 1).await.expect("waits"),
        pause_after(mutex.acquire(), 1).await.expect("waits"),
    ];
    bed.grows_to("k", 2).await;
    drop(waiters);
    bed.grows_to("k", 1).await;
    // And the lane works again afterwards.
    let again = pause_after(mutex.acquire(), 1).await.expect("waits");
    bed.grows_to("k", 2).await;
    drop(again);
    bed.grows_to("k", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_place_is_lost_for_its_holder_and_the_waiters_take_a_new_one() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let mutex = client.mutex("k").unwrap().ttl(secs(3));
    let first = mutex.acquire().await.unwrap();
    let second = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    others_run().await;
    faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
    first.lost().await;
    faults.calm();
    others_run().await;
    assert!(!second.is_finished(), "exclusion in the process ends only with the guard");
    let old = first.fence();
    drop(first);
    let second = second.await.unwrap();
    assert!(second.fence().seq() > old.seq(), "a new place");
    assert!(!second.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_baton_that_was_lost_before_it_was_read_is_not_taken_for_a_lock() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let mutex = client.mutex("k").unwrap().ttl(secs(3));
    let first = mutex.acquire().await.unwrap();
    let second = pause_after(mutex.acquire(), 1).await.expect("it waits");
    let old = first.fence();
    drop(first); // the baton is now second's, unread
    faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
    tokio::time::sleep(secs(5)).await;
    faults.calm();
    let guard = second.await.unwrap();
    assert!(!guard.is_lost());
    assert!(guard.fence().seq() > old.seq(), "a new place");
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_everybody_who_waits() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    faults.on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let mutex = client.mutex("k").unwrap().ttl(secs(3));
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.acquire().await.map(drop) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    faults.calm();
    assert!(mutex.acquire().await.is_ok(), "the lane recovers");
}

#[tokio::test(start_paused = true)]
async fn too_many_waiters_are_refused() {
    let bed = Bed::new();
    let client = bed.client_with(|s| s.max_waiters = 2);
    let mutex = client.mutex("k").unwrap();
    let _guard = mutex.acquire().await.unwrap();
    let _waiters = [
        pause_after(mutex.acquire(), 1).await.expect("waits"),
        pause_after(mutex.acquire(), 1).await.expect("waits"),
    ];
    let err = mutex.acquire().await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable);
    assert!(err.to_string().contains("2 tasks"), "{err}");
}

#[tokio::test(start_paused = true)]
async fn waiters_with_another_ttl_have_another_lane() {
    let bed = Bed::new();
    let client = bed.client();
    let _guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let slow = client.mutex("k").unwrap().ttl(secs(60));
    let _other = pause_after(slow.acquire(), 1).await;
    bed.grows_to("k", 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_runtime_is_gone_tells_its_waiters() {
    let bed = Bed::new();
    let memory = bed.memory.another();
    let settings = bed.settings();
    let client = std::thread::spawn(move || {
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(async { tenure::Client::new(memory, settings).unwrap() })
    })
    .join()
    .unwrap();
    let _holder = bed.client().mutex("k").unwrap().acquire().await.unwrap();
    let err = client.mutex("k").unwrap().acquire().await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Closed, "{err}");
    bed.grows_to("k", 1).await;
}

#[tokio::test]
async fn settings_that_would_break_a_fence_are_refused() {
    let bed = Bed::new();
    let refused = |change: &dyn Fn(&mut Settings)| {
        let mut settings = bed.settings();
        change(&mut settings);
        tenure::Client::new(bed.memory.another(), settings).unwrap_err().kind()
    };
    assert_eq!(refused(&|s| s.turns = 1024), ErrorKind::Invalid);
    assert_eq!(refused(&|s| s.max_waiters = 0), ErrorKind::Invalid);
    assert_eq!(refused(&|s| s.ttl = secs(0)), ErrorKind::Invalid);
    assert!(
        bed.client_with(|s| s.turns = 1023).mutex("k").unwrap().acquire().await.is_ok(),
        "the most that fits"
    );
}
