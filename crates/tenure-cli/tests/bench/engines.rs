//! All measurements, on engines of each reach: a process, a machine, a network.

use serde_json::Value;
use tenure_testkit::redis::Redis;

use crate::bed::{figures, number};

/// What must be so on every engine, however busy the machine.
fn is_sound(seen: &Value) {
    for ratio in ["/alone/ratio", "/alone/new_key_ratio", "/handoff/ratio", "/hot/ratio"] {
        assert!(number(seen, ratio) > 0.0, "{ratio} in {seen}");
    }
    assert!(number(seen, "/alone/one_key/count") >= 20.0);
    assert!(number(seen, "/handoff/time/count") >= 49.0);
    assert_eq!(number(seen, "/hot/lost"), 0.0);
    assert!(number(seen, "/hot/updates") > 0.0);
    let grants = seen["hot"]["grants"].as_array().unwrap();
    assert_eq!(grants.iter().map(|tasks| tasks.as_array().unwrap().len()).collect::<Vec<_>>(), [2, 2]);
    let got = grants.iter().flat_map(|tasks| tasks.as_array().unwrap()).map(|got| got.as_u64().unwrap());
    assert!(got.sum::<u64>() as f64 <= number(seen, "/hot/updates"));
    assert!((0.25..=1.0).contains(&number(seen, "/hot/jain")));
    // As many as there was time for.
    assert!((1.0..=100.0).contains(&number(seen, "/held/locks")));
    assert_eq!(number(seen, "/held/lost"), 0.0);
}

#[test]
fn files_of_this_machine() {
    let seen = figures(&["--for", "4s"]);
    is_sound(&seen);
    assert_eq!(seen["handoff"]["between"], "two processes");
    assert_eq!(seen["crash"]["lease_seconds"], Value::Null, "a place goes with its process");
    assert!(number(&seen, "/crash/median_seconds") < 1.0);
}

#[test]
fn memory_lives_in_one_process() {
    let seen = figures(&["--for", "2s", "--on", "memory:"]);
    is_sound(&seen);
    assert_eq!(seen["handoff"]["between"], "two clients of one process");
    assert_eq!(seen["skipped"][0][0], "crash");
}

#[test]
fn redis() {
    let server = Redis::shared().unwrap();
    let seen = figures(&["--for", "6s", "--on", &server.url()]);
    is_sound(&seen);
    let lease = number(&seen, "/crash/lease_seconds");
    assert!(number(&seen, "/crash/late_seconds") < lease, "{}", seen["crash"]);
    assert!(number(&seen, "/held/renewed_per_second") > 0.0, "{}", seen["held"]);
    // Nothing is left behind: the keys of the bench are gone, whatever else the engine remembers of itself.
    let left = server.command(&["KEYS", "*tenure-bench/*"]).unwrap();
    assert_eq!(left.items().len(), 0, "{left:?}");
}

#[test]
fn growth() {
    let seen = figures(&["--growth", "--for", "4s", "--on", "memory:growth"]);
    let steps = |path: &str| seen.pointer(path).unwrap().as_array().unwrap().len();
    assert!(steps("/waiters/0/points") >= 6, "{seen}");
    assert!(steps("/keys/0/points") >= 4, "{seen}");
    assert_eq!(steps("/processes/0/points"), 7);
    assert_eq!(steps("/weights"), 2, "without the engine's process: {seen}");
    for weight in seen["weights"].as_array().unwrap() {
        assert!(weight["of"].as_u64() > Some(0) && weight["bytes"].as_u64() > Some(0), "{weight}");
    }
}
