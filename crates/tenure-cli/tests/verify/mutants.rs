//! The verifier is verified: wrong ways are refuted, by the promise that they break.

use serde_json::Value;

use crate::bed::verify;

/// Each with a promise that must be among those that catch it.
const WRONG: [(&str, &str); 10] = [
    ("no-lock", "I1"),
    ("read-then-set", "I1"),
    ("blind-delete", "I1"),
    ("no-deadline", "I1"),
    ("no-recheck", "I1"),
    ("ghost", "I6"),
    ("wake-only", "I5"),
    ("volatile-fence", "I2"),
    ("posix-close", "I1"),
    ("unlink-on-release", "I1"),
];

#[test]
fn wrong_ways_do_not_get_away() {
    let names: Vec<_> = WRONG.iter().map(|(name, _)| *name).collect();
    let run = verify(&["--mutants", "--json", "--only", &names.join(",")]).exits(0);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), WRONG.len());
    for (line, (name, by)) in lines.iter().zip(WRONG) {
        assert_eq!(line["mutant"], name, "{line}");
        assert!(line["refuted_by"].as_array().unwrap().iter().any(|promise| promise == by), "{line}");
    }
}
