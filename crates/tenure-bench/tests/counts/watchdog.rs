//! How often the watchdog asks, whatever the number of holds.

use std::time::Duration;

use tenure::{Client, Settings};
use tenure_bench::Counting;
use tenure_local::Memory;
use tenure_testkit::TokioClock;

const HOLDS: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn a_thousand_holds_are_renewed_in_one_call() {
    let clock = std::sync::Arc::new(TokioClock::start());
    let (engine, counter) = Counting::over(Memory::new(clock.clone()));
    let mut settings = Settings::default();
    (settings.clock, settings.ttl) = (clock, Duration::from_secs(15));
    let client = Client::new(engine, settings).unwrap();
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
