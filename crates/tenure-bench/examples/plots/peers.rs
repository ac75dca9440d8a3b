//! One picture for each workload: all peers of all engines, ours in colour.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;
use tenure_bench::bars;

/// A workload, what is seen of it, and where that stands in a result.
const PICTURES: [(&str, &str, &str); 4] = [
    ("w1", "Acquire and release, alone: microseconds (less is better)", "/one/cyc_p50"),
    ("w2", "One hot key, 4 processes x 8 clients: grants in a second (more is better)", "/grants_s"),
    ("w3", "Hand-off between two processes: microseconds (less is better)", "/ho_p50"),
    ("w5", "10,000 held locks for 20 s: CPU seconds of the holder (less is better)", "/hold_cpu_s"),
];

pub(crate) fn draw(results: &Path, dir: &Path) {
    // Of several results for one peer, the quietest, as the harness's own table has it.
    let mut best: BTreeMap<(String, String, String), Value> = BTreeMap::new();
    for line in fs::read_to_string(results).unwrap().lines() {
        let result: Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let key = (word("w"), word("engine"), word("peer"));
        let busy = |result: &Value| result["others"].as_f64().unwrap_or(1.0);
        if best.get(&key).is_none_or(|other| busy(&result) <= busy(other)) {
            best.insert(key, result);
        }
    }
    for (workload, title, path) in PICTURES {
        let mut rows = Vec::new();
        for ((of, engine, peer), result) in &best {
            let value = result["r"].pointer(path).or_else(|| result["r"].pointer("/fresh/cyc_p50"));
            let Some(value) = value.and_then(Value::as_f64).filter(|value| of == workload && *value > 0.0)
            else {
                continue;
            };
            rows.push((format!("{engine} {peer}"), value, peer.starts_with("tenure")));
        }
        fs::write(dir.join(format!("peers-{workload}.svg")), bars(title, &rows)).unwrap();
    }
}
