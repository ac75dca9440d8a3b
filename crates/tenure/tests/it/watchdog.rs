use std::time::Duration;

use tenure::{ErrorKind, Eviction, Loss, When};
use tenure_testkit::faults::{Fault, Nth, Verb};
use tokio::time::Instant;

use crate::bed::{Bed, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn a_held_lock_outlives_its_lease_many_times() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let guard = here.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    for _ in 0..20 {
        tokio::time::sleep(secs(1)).await;
        assert!(there.mutex("k").unwrap().try_acquire().await.unwrap().is_none());
        assert!(guard.remaining().unwrap() > millis(1500));
    }
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_holds_of_a_client_are_renewed_in_one_call() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let mut guards = Vec::new();
    for i in 0..500 {
        guards.push(client.mutex(format!("k{i}")).unwrap().acquire().await.unwrap());
    }
    tokio::time::sleep(secs(31)).await;
    let calls = faults.count(Verb::Renew);
    assert!((5..=7).contains(&calls), "every 5 s, all at once: {calls}");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}

#[tokio::test(start_paused = true)]
async fn a_failing_engine_is_asked_until_the_deadline_and_not_longer() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
    let began = Instant::now();
    assert_eq!(guard.lost().await, Loss::Expired);
    let lost_after = began.elapsed();
    assert!((millis(2849)..millis(2860)).contains(&lost_after), "3 s less a twentieth: {lost_after:?}");
    assert!(faults.count(Verb::Renew) > 5, "{}", faults.count(Verb::Renew));
    let asked = faults.count(Verb::Renew);
    tokio::time::sleep(secs(10)).await;
    assert_eq!(faults.count(Verb::Renew), asked, "a lost hold is not renewed");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_loses_nothing() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
    tokio::time::sleep(millis(2500)).await;
    faults.calm();
    tokio::time::sleep(secs(10)).await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_leaves_time_for_another() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    let _never = faults.hold(Verb::Renew, Nth::Call(1));
    tokio::time::sleep(secs(10)).await;
    assert!(!guard.is_lost());
    assert!(faults.count(Verb::Renew) > 2);
}

#[tokio::test(start_paused = true)]
async fn a_reply_after_the_deadline_revives_nothing() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let guard = client.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    faults.on(Verb::Renew, Nth::EVERY, Fault::Delay(millis(450)));
    tokio::time::sleep(secs(8)).await;
    assert!(!guard.is_lost(), "slow replies in time are good");
    faults.calm();
    faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
    guard.lost().await;
    faults.calm();
    tokio::time::sleep(secs(2)).await;
    assert!(guard.is_lost());
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_counted_from_before_the_question() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    faults.on(Verb::Attempt, Nth::EVERY, Fault::Delay(millis(900)));
    let guard = client.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap();
    assert!(guard.remaining().unwrap() <= millis(3000 - 150 - 900));
}

#[tokio::test(start_paused = true)]
async fn an_answer_slower_than_the_lease_is_worth_nothing() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    // The engine answers within the time a verb may take, but the process sleeps on the reply.
    faults.on(Verb::Attempt, Nth::Call(1), Fault::Delay(millis(900)));
    let mutex = client.mutex("k").unwrap().ttl(secs(3));
    let acquiring = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    others_run().await;
    tokio::time::advance(secs(60)).await;
    let guard = acquiring.await.unwrap();
    assert!(!guard.is_lost() && guard.remaining().unwrap() > secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_machine_loses_at_the_look_of_the_clock() {
    let bed = Bed::new();
    let (client, _faults, clock) = bed.jumpy();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    clock.jump(secs(3600));
    // No await in between: nothing but this thread has run since.
    assert!(guard.is_lost());
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_the_loss_learns_of_a_suspend_within_a_second() {
    let bed = Bed::new();
    let (client, _faults, clock) = bed.jumpy();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { guard.lost().await });
    others_run().await;
    clock.jump(secs(3600));
    let loss =
        tokio::time::timeout(millis(1100), waiting).await.expect("timers stand still in suspend").unwrap();
    assert_eq!(loss, Loss::Expired);
}

#[tokio::test(start_paused = true)]
async fn it_learns_so_even_while_a_renewal_hangs() {
    let bed = Bed::new();
    let (client, faults, clock) = bed.jumpy();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let hanging = faults.hold(Verb::Renew, Nth::EVERY);
    let waiting = tokio::spawn(async move { guard.lost().await });
    hanging.reached_by(1).await;
    clock.jump(secs(3600));
    let told = tokio::time::timeout(millis(1100), waiting).await.expect("by its own look at the clock");
    assert_eq!(told.unwrap(), Loss::Expired);
}

#[tokio::test(start_paused = true)]
async fn after_a_short_suspend_the_lease_is_renewed_within_a_second() {
    let bed = Bed::new();
    let (client, faults, clock) = bed.jumpy();
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    others_run().await;
    clock.jump(secs(8)); // past the time to renew, before the deadline
    tokio::time::sleep(millis(1100)).await;
    assert_eq!(faults.count(Verb::Renew), 1);
    assert!(!guard.is_lost() && guard.remaining().unwrap() > secs(12));
}

#[tokio::test(start_paused = true)]
async fn the_holder_is_told_of_an_eviction_at_once() {
    let bed = Bed::new();
    let (here, operator) = (bed.client(), bed.client());
    let guard = here.mutex("k").unwrap().acquire().await.unwrap();
    let place = bed.line("k").await.remove(0);
    let eviction = Eviction { key: place.key, id: place.id, seq: guard.fence().seq(), when: When::Gently };
    let _ = operator.evict(&eviction).await.unwrap();
    let told = tokio::time::timeout(Duration::from_millis(1), guard.lost()).await;
    assert_eq!(told, Ok(Loss::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_engine_forgot_is_lost_at_its_next_renewal() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let _silence = faults.hold(Verb::Lost, Nth::EVERY);
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let place = bed.line("k").await.remove(0);
    let eviction = Eviction { key: place.key, id: place.id, seq: place.seq, when: When::Now };
    let _ = client.evict(&eviction).await.unwrap();
    let began = Instant::now();
    assert_eq!(guard.lost().await, Loss::Gone);
    assert!(began.elapsed() <= secs(5) + millis(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_engine_knows_nothing_of_is_a_loss() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let _silence = faults.hold(Verb::Lost, Nth::EVERY);
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let place = bed.line("k").await.remove(0);
    let eviction = Eviction { key: place.key, id: place.id, seq: place.seq, when: When::Now };
    let _ = client.evict(&eviction).await.unwrap();
    assert!(!guard.is_lost(), "nobody has told it yet");
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn short_holds_one_after_the_other_are_not_renewed() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let mutex = client.mutex("k").unwrap();
    for _ in 0..100 {
        let guard = mutex.acquire().await.unwrap();
        tokio::time::sleep(millis(300)).await;
        guard.release().await.unwrap();
    }
    assert_eq!(faults.count(Verb::Renew), 0);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_for_a_long_lease_does_not_stop_those_of_short_ones() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let never = faults.hold(Verb::Renew, Nth::Call(1));
    let long = client.mutex("long").unwrap().ttl(secs(3600)).acquire().await.unwrap();
    never.reached_by(1).await;
    // It may hang for ten minutes. Whoever comes meanwhile is renewed all the same.
    let short = client.mutex("short").unwrap().ttl(secs(3)).acquire().await.unwrap();
    tokio::time::sleep(secs(60)).await;
    short.check().unwrap();
    tokio::time::sleep(secs(4000)).await;
    short.check().unwrap();
    long.check().expect("asked again after the one that hung");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_told_while_a_renewal_hangs() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let never = faults.hold(Verb::Renew, Nth::Call(1));
    let guard = client.mutex("k").unwrap().ttl(secs(3600)).acquire().await.unwrap();
    never.reached_by(1).await;
    let place = bed.line("k").await.remove(0);
    let eviction = Eviction { key: place.key, id: place.id, seq: place.seq, when: When::Gently };
    let _ = client.evict(&eviction).await.unwrap();
    others_run().await;
    assert!(guard.is_lost(), "not ten minutes later");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_nothing_does_not_look_at_the_clock() {
    let bed = Bed::new();
    let (client, _faults, clock) = bed.jumpy();
    let mutex = client.mutex("k").unwrap().ttl(secs(3600));
    mutex.acquire().await.unwrap().release().await.unwrap();
    // The look that was settled on while it held is the last.
    tokio::time::sleep(secs(2)).await;
    let looks = clock.looks();
    tokio::time::sleep(secs(1000)).await;
    assert_eq!(clock.looks(), looks);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_ends_on_time_beside_others_that_are_renewed() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let renewed = client.mutex("renewed").unwrap().ttl(secs(30)).acquire().await.unwrap();
    let fixed = client.mutex("fixed").unwrap().fixed_lease(secs(20)).acquire().await.unwrap();
    let began = Instant::now();
    let _never = faults.hold(Verb::Renew, Nth::EVERY);
    assert_eq!(fixed.lost().await, Loss::Expired);
    let ended_after = began.elapsed();
    assert!((millis(18_990)..millis(19_010)).contains(&ended_after), "{ended_after:?}");
    assert!(!renewed.is_lost());
}
