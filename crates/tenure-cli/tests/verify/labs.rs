//! The smoke tier: every engine, cheap faults, few seconds.

use crate::bed::verify;

/// Runs a lab under these faults, each of which must hit, and sees every promise held.
fn holds(lab: &str, faults: &[&str]) {
    let list = faults.join(",");
    let args = ["--json", "--lab", lab, "--for", "2500ms", "--hits", "1", "--faults", &list];
    let run = verify(&args).exits(0).run();
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells.len(), faults.len(), "{run}");
    for cell in cells {
        assert_eq!(cell["outcome"], "held", "{cell}");
        assert_eq!(cell["lost"], 0, "{cell}");
        assert!(cell["updates"].as_u64().unwrap() > 0, "{cell}");
    }
}

const CHEAP: [&str; 3] = ["kill", "pause", "failpoint"];

#[test]
fn file() {
    holds("file", &["kill", "pause", "failpoint", "late"]);
}

#[test]
fn memory() {
    holds("memory", &["none", "late"]);
}

#[test]
fn what_cannot_be_done_to_one_process_is_left_out_and_said() {
    let run = verify(&["--json", "--lab", "memory", "--for", "300ms", "--hits", "0"]).exits(0).run();
    let cells = run["cells"].as_array().unwrap();
    let sleep = cells.iter().find(|cell| cell["fault"] == "sleep").unwrap();
    assert_eq!(sleep["skipped"], "its engine lives in the process that would sleep", "{run}");
}

#[test]
fn redis() {
    holds("redis", &["kill", "pause", "failpoint", "pair", "cut", "reply"]);
}

#[test]
fn redis_sentinel() {
    holds("redis-sentinel", &CHEAP);
}

#[test]
fn redis_cluster() {
    holds("redis-cluster", &CHEAP);
}

#[test]
fn redlock() {
    holds("redlock", &CHEAP);
}

#[test]
fn mysql() {
    holds("mysql", &CHEAP);
}

#[test]
fn postgres() {
    holds("postgres", &CHEAP);
}

#[test]
fn zookeeper() {
    holds("zookeeper", &CHEAP);
}

#[test]
fn etcd() {
    holds("etcd", &CHEAP);
}

#[test]
fn memcached() {
    holds("memcached", &CHEAP);
}
