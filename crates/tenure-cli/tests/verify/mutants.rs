//! The verifier is verified: wrong ways are refuted, by the promise that they break.

use serde_json::Value;

use crate::bed::verify;

/// Each with the promises of which one must catch it: where two hold, whichever is looked at first.
const WRONG: [(&str, &[&str]); 12] = [
    ("no-lock", &["I1"]),
    ("read-then-set", &["I1"]),
    ("blind-delete", &["I1"]),
    ("no-deadline", &["I1"]),
    ("no-recheck", &["I1", "I2"]),
    ("ghost", &["I6"]),
    ("wake-only", &["I5"]),
    ("volatile-fence", &["I2"]),
    ("posix-close", &["I1"]),
    ("unlink-on-release", &["I1"]),
    ("clock-fence", &["I2"]),
    ("expiring-counter", &["I2"]),
];

#[test]
fn wrong_ways_do_not_get_away() {
    let names: Vec<_> = WRONG.iter().map(|(name, _)| *name).collect();
    let run = verify(&["--mutants", "--json", "--only", &names.join(",")]);
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), WRONG.len(), "{}", run.err);
    for (line, (name, by)) in lines.iter().zip(WRONG) {
        assert_eq!(line["mutant"], name, "{line}");
        let refuted = line["refuted_by"].as_array().unwrap();
        assert!(refuted.iter().any(|promise| by.iter().any(|by| promise == by)), "{line}");
    }
    // Last: by now each line has said what it is of, and the whole output would be pages.
    assert_eq!(run.status.code(), Some(0), "{}", run.err);
}
