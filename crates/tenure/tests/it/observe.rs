use metrics_util::{
    MetricKind,
    debugging::{DebugValue, DebuggingRecorder, Snapshotter},
};
use tenure_testkit::faults::{Fault, Nth, Verb};

use crate::bed::{Bed, millis, others_run, secs};

/// Counters and gauges by their last word: `name{outcome}`.
fn read(snapshotter: &Snapshotter, name: &str, word: &str) -> f64 {
    let mut sum = 0.0;
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let matches = key.key().name() == name
            && matches!(key.kind(), MetricKind::Counter | MetricKind::Gauge)
            && (word.is_empty() || key.key().labels().any(|label| label.value() == word));
        if matches {
            sum += match value {
                DebugValue::Counter(n) => n as f64,
                DebugValue::Gauge(n) => n.into_inner(),
                DebugValue::Histogram(_) => 0.0,
            };
        }
    }
    sum
}

#[test]
fn waits_holds_renewals_and_losses_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let bed = Bed::new();
            let (client, faults) = bed.faulty();
            let mutex = client.mutex("k").unwrap();
            let guard = mutex.acquire().await.unwrap();
            assert_eq!(read(&snapshotter, "tenure_held", ""), 1.0);
            let waiting = tokio::spawn({
                let mutex = mutex.clone();
                async move { mutex.acquire().await.unwrap() }
            });
            others_run().await;
            assert_eq!(read(&snapshotter, "tenure_waiting", ""), 1.0);
            assert!(mutex.try_acquire().await.unwrap().is_none());
            mutex.acquire_within(secs(1)).await.unwrap_err();
            drop(guard);
            let guard = waiting.await.unwrap();
            faults.on(Verb::Renew, Nth::EVERY, Fault::DropRequest);
            guard.lost().await;
            others_run().await;
            drop(guard);
            others_run().await;
        });
    });
    let snapshot = snapshotter.snapshot().into_vec();
    let count = |name: &str, word: &str| {
        let hit = snapshot.iter().find(|(key, ..)| {
            key.key().name() == name && key.key().labels().any(|label| label.value() == word)
        });
        match hit {
            Some((_, _, _, DebugValue::Counter(n))) => *n,
            other => panic!("{name} {word}: {other:?}"),
        }
    };
    // The snapshotter drains what it reads, so these are the counts since the last look inside.
    assert_eq!(count("tenure_acquire_total", "busy"), 1);
    assert_eq!(count("tenure_acquire_total", "timeout"), 1);
    assert_eq!(count("tenure_lost_total", "expired"), 1);
    assert!(count("tenure_renew_total", "error") > 3);
    let histogram = |name: &str| {
        snapshot.iter().any(|(key, _, _, value)| {
            key.key().name() == name && matches!(value, DebugValue::Histogram(values) if !values.is_empty())
        })
    };
    assert!(histogram("tenure_acquire_wait_seconds") && histogram("tenure_hold_seconds"));
    let gauge = |name: &str| {
        snapshot.iter().find_map(|(key, _, _, value)| match value {
            DebugValue::Gauge(n) if key.key().name() == name => Some(n.into_inner()),
            _ => None,
        })
    };
    // The looks inside drained the one that was up: what is left here is its way down.
    let left = (gauge("tenure_held"), gauge("tenure_waiting"));
    assert_eq!(left, (Some(-1.0), Some(-1.0)), "everything went back");
}

/// Nobody asks the guards here: it is the watchdog that sees each of them end.
#[test]
fn a_loss_is_counted_within_a_second_though_a_renewal_hangs() {
    for another_ends_meanwhile in [false, true] {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        // A snapshot begins the count anew.
        let lost = || read(&snapshotter, "tenure_lost_total", "expired");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                let bed = Bed::new();
                let (client, faults, clock) = bed.jumpy();
                let hanging = faults.hold(Verb::Renew, Nth::EVERY);
                let _renewed = client.mutex("renewed").unwrap().ttl(secs(3600)).acquire().await.unwrap();
                let mut fixed = None;
                if another_ends_meanwhile {
                    let mutex = client.mutex("fixed").unwrap().fixed_lease(secs(1300));
                    fixed = Some(mutex.acquire().await.unwrap());
                }
                // For ten minutes.
                hanging.reached_by(1).await;
                tokio::time::sleep(secs(100)).await;
                assert_eq!(lost(), if fixed.is_some() { 1.0 } else { 0.0 }, "of a fixed lease");
                clock.jump(secs(3600));
                tokio::time::sleep(millis(1100)).await;
                assert_eq!(lost(), 1.0, "of the one to be renewed");
            });
        });
    }
}
