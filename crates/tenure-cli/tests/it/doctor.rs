//! `tenure doctor` connects, measures, and gives a grade in words.

use serde_json::Value;

use crate::bed::Bed;

#[test]
fn a_healthy_engine_gets_its_grade_in_words() {
    let bed = Bed::new();
    let done = bed.run(&["doctor"]).exits(0);
    for word in ["file", "fenced", "round trip", "clock"] {
        assert!(done.out.to_lowercase().contains(word), "no `{word}` in {done:?}");
    }
    // The URL can be given as a word, too.
    bed.run(&["doctor", "memory:"]).exits(0);
    bed.run(&["doctor", "nosuch:"]).exits(78);
}

#[test]
fn a_script_gets_the_same_as_json() {
    let bed = Bed::new();
    let done = bed.run(&["doctor", "--json"]).exits(0);
    let doctor: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(doctor["engine"].as_str(), Some(bed.url().as_str()), "{doctor}");
    assert_eq!(doctor["guarantees"]["grade"].as_str(), Some("fenced"), "{doctor}");
    assert!(doctor["round_trip_us"].is_u64(), "{doctor}");
}

#[test]
fn it_leaves_nothing_behind() {
    let bed = Bed::new();
    bed.run(&["doctor"]).exits(0);
    bed.run(&["ls", "--json"]).exits(0).prints("");
}
