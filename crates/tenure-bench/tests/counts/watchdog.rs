//! How often the watchdog asks, whatever the number of holds.

use std::time::Duration;

use tenure::{Client, Settings};
use tenure_bench::{Counter, Counting};
use tenure_local::Memory;
use tenure_testkit::TokioClock;

const HOLDS: usize = 1_000;

fn client() -> (Client, Counter) {
    let clock = std::sync::Arc::new(TokioClock::start());
    let (engine, counter) = Counting::over(Memory::new(clock.clone()));
    let mut settings = Settings::default();
    (settings.clock, settings.ttl) = (clock, Duration::from_secs(15));
    (Client::new(engine, settings).unwrap(), counter)
}

#[tokio::test(start_paused = true)]
async fn a_thousand_holds_are_renewed_in_one_call() {
    let (client, counter) = client();
    let mut guards = Vec::new();
    for number in 0..HOLDS {
        guards.push(client.mutex(format!("held/{number}")).unwrap().acquire().await.unwrap());
    }
    let before = counter.verbs();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let cost = counter.verbs().since(before);
    assert_eq!((cost.renewals, cost.renewed), (6, 6 * HOLDS as u64), "a call every five seconds, for all");
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}

/// Whoever takes many locks one after the other pays for one rhythm, not for one of each group that happened to be taken
/// together: two calls in ten seconds from the first renewal of all on, as for one lock alone.
#[tokio::test(start_paused = true)]
async fn holds_taken_one_after_the_other_share_one_rhythm() {
    for (pause, rest) in [(1, 1), (7, 1), (7, 40), (13, 100)] {
        let (client, counter) = client();
        let mut guards = Vec::new();
        for number in 0..HOLDS {
            guards.push(client.mutex(format!("held/{number}")).unwrap().acquire().await.unwrap());
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        tokio::time::sleep(Duration::from_millis(rest)).await;
        let before = counter.verbs();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let cost = counter.verbs().since(before);
        assert!(cost.renewals <= 2, "{} calls in ten seconds, a lock each {pause} ms", cost.renewals);
        let before = counter.verbs();
        tokio::time::sleep(Duration::from_secs(100)).await;
        let cost = counter.verbs().since(before);
        assert_eq!((cost.renewals, cost.renewed), (20, 20 * HOLDS as u64), "a lock each {pause} ms");
        assert!(guards.iter().all(|guard| !guard.is_lost()));
    }
}
