//! One picture for each workload: all peers of all engines, ours in colour; and a table of ours beside the best of them.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use tenure_bench::bars;

/// A workload, what is seen of it, and where that stands in a result.
const PICTURES: [(&str, &str, &str); 4] = [
    ("w1", "Acquire and release, alone: microseconds (less is better)", "/one/cyc_p50"),
    ("w2", "One hot key, 4 processes x 8 clients: grants in a second (more is better)", "/grants_s"),
    ("w3", "Hand-off between two processes: microseconds (less is better)", "/ho_p50"),
    ("w5", "10,000 held locks: CPU seconds of the holder (less is better)", "/hold_cpu_s"),
];

/// A workload, what stands in the table, where that is, and whether more is better.
const COMPARED: [(&str, &str, &str, bool); 6] = [
    ("w1", "alone, one name (round trips)", TRIPS, false),
    ("w1", "alone, new names (round trips)", NEW_TRIPS, false),
    ("w3", "hand-off (µs)", "/ho_p50", false),
    ("w2", "hot key (grants/s)", "/grants_s", true),
    ("w4", "crash to next grant (s)", "/takeover_med", false),
    ("w5", "held: client CPU (s)", "/hold_cpu_s", false),
];
/// The time of an acquire and release in round trips: loopback has two speeds, so that times of two runs do not compare. For
/// what waits for a disk this says little, since its trips are of the slow kind whichever was measured before.
const TRIPS: &str = "/one";
const NEW_TRIPS: &str = "/fresh";
/// Fairness that counts as equal.
const JAIN: f64 = 0.02;
/// What a hand-off can be at best, and no lock.
const FLOOR: &str = "blpop-floor";

type Results = BTreeMap<(String, String, String), Value>;

fn value(result: &Value, path: &str) -> Option<f64> {
    let found = result["r"].pointer(path)?;
    if ![TRIPS, NEW_TRIPS].contains(&path) {
        return found.as_f64();
    }
    let trip = found["rtt_p50"].as_f64().filter(|trip| *trip > 0.0)?;
    Some(found["cyc_p50"].as_f64()? / trip)
}

/// Ours beside the best peer of each engine. On the hot key the best is the best of those that are as fair as ours.
fn compare(best: &Results) {
    println!("| engine | what | ours | best peer | ratio |\n| --- | --- | --- | --- | --- |");
    for (workload, what, path, more) in COMPARED {
        let rows = best.iter().filter(|(key, _)| key.0 == workload);
        for ((_, engine, name), ours) in rows.clone().filter(|(key, _)| key.2.starts_with("tenure")) {
            let Some(measured) = value(ours, path) else { continue };
            let fair = value(ours, "/jain").unwrap_or(0.0) - JAIN;
            let rivals = rows.clone().filter(|((_, on, peer), result)| {
                on == engine
                    && !peer.starts_with("tenure")
                    && peer != FLOOR
                    && value(result, "/jain").unwrap_or(1.0) >= fair
            });
            let rivals = rivals.filter_map(|((_, _, peer), result)| Some((peer, value(result, path)?)));
            let order = |a: &(&String, f64), b: &(&String, f64)| a.1.total_cmp(&b.1);
            let top = if more { rivals.max_by(order) } else { rivals.min_by(order) };
            let Some((peer, theirs)) = top else {
                println!("| {engine} ({name}) | {what} | {measured:.3} | none | - |");
                continue;
            };
            println!(
                "| {engine} ({name}) | {what} | {measured:.3} | {peer}: {theirs:.3} | {:.2} |",
                measured / theirs
            );
        }
    }
}

pub(crate) fn draw(results: &Path, dir: &Path) {
    // Of several results for one peer, the quietest, as the harness's own table has it.
    let mut best = Results::new();
    for line in fs::read_to_string(results).unwrap().lines() {
        let result: Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let key = (word("w"), word("engine"), word("peer"));
        let busy = |result: &Value| result["others"].as_f64().unwrap_or(1.0);
        if best.get(&key).is_none_or(|other| busy(&result) <= busy(other)) {
            best.insert(key, result);
        }
    }
    compare(&best);
    for (workload, title, path) in PICTURES {
        let mut rows = Vec::new();
        for ((of, engine, peer), result) in &best {
            if of != workload {
                continue;
            }
            let Some(value) = value(result, path).filter(|value| *value > 0.0) else { continue };
            rows.push((format!("{engine} {peer}"), value, peer.starts_with("tenure")));
        }
        fs::write(dir.join(format!("peers-{workload}.svg")), bars(title, &rows)).unwrap();
    }
}
