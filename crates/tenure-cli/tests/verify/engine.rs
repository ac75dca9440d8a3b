//! Faults of the engine itself: each hits, says so, and breaks nothing that is promised.

use serde_json::Value;

use crate::bed::verify;

/// Strikes a lab's engine, and gives the cells.
fn struck(lab: &str, faults: &[&str]) -> Vec<Value> {
    let list = faults.join(",");
    let args = ["--json", "--lab", lab, "--for", "2500ms", "--hits", "1", "--faults", &list];
    let run = verify(&args).exits(0).run();
    let cells = run["cells"].as_array().unwrap().clone();
    assert_eq!(cells.len(), faults.len(), "{run}");
    for cell in &cells {
        assert!(cell["hits"].as_u64().unwrap() > 0, "{cell}");
        assert!(cell["updates"].as_u64().unwrap() > 0, "{cell}");
        assert_eq!(cell["lost"], 0, "{cell}");
    }
    cells
}

/// Whether the fault broke something that was never promised, or nothing at all.
fn is_as_said(cell: &Value) -> bool {
    cell["outcome"] == "held" || cell["outcome"] == "excused"
}

#[test]
fn a_full_memory_takes_locks_and_no_updates() {
    for lab in ["redis", "memcached"] {
        let cells = struck(lab, &["evict"]);
        assert!(is_as_said(&cells[0]), "{}", cells[0]);
    }
}

#[test]
fn a_memory_that_is_emptied_takes_locks_and_no_updates() {
    let cells = struck("memcached", &["flush"]);
    assert!(is_as_said(&cells[0]), "{}", cells[0]);
}

#[test]
fn a_clock_that_is_set_ahead_ends_leases_and_loses_no_updates() {
    for lab in ["redis", "redlock"] {
        let cells = struck(lab, &["clock-ahead"]);
        assert!(is_as_said(&cells[0]), "{}", cells[0]);
    }
}

#[test]
fn a_clock_that_is_set_back_breaks_nothing() {
    for lab in ["redis", "mysql", "postgres", "memcached"] {
        assert_eq!(struck(lab, &["clock-back"])[0]["outcome"], "held", "{lab}");
    }
}

#[test]
fn a_master_that_is_cut_off_goes_on_beside_the_next() {
    let cells = struck("redis-sentinel", &["leader-cut"]);
    assert!(is_as_said(&cells[0]), "{}", cells[0]);
}

#[test]
fn a_fault_that_takes_its_time_is_tried_until_it_has_hit_often_enough() {
    let args = ["--json", "--lab", "redis", "--for", "1500ms", "--hits", "2", "--faults", "engine-pause"];
    let run = verify(&args).exits(0).run();
    assert!(run["cells"][0]["hits"].as_u64().unwrap() >= 2, "{run}");
}
