//! `--explain` shows the timetable and the guarantees, and does nothing else.

use crate::bed::Bed;

#[test]
fn the_timetable_of_a_lease_is_printed_in_numbers() {
    let bed = Bed::new();
    let done = bed.run(&["run", "--explain", "--on", "memory:", "k", "--", "echo", "ran"]).exits(0);
    // A lease of 15 s, renewed every 5 s, a margin of a twentieth, 5 s between the two signals.
    for part in ["15s", "5s", "9.25s", "14.25s", "SIGTERM", "SIGKILL", "memory"] {
        assert!(done.out.contains(part), "no `{part}` in {done:?}");
    }
    assert!(!done.out.contains("ran\n"), "{done:?}");
}

#[test]
fn the_timetable_follows_the_flags() {
    let bed = Bed::new();
    let flags = ["run", "--explain", "--on", "memory:", "--ttl", "20s", "--grace", "2s", "k", "--", "true"];
    let done = bed.run(&flags).exits(0);
    for part in ["20s", "6.666s", "17s", "19s"] {
        assert!(done.out.contains(part), "no `{part}` in {done:?}");
    }
}

#[test]
fn an_engine_without_a_lease_says_what_keeps_the_lock_instead() {
    let bed = Bed::new();
    let done = bed.run(&["run", "--explain", "k", "--", "true"]).exits(0);
    for part in ["file", "process"] {
        assert!(done.out.contains(part), "no `{part}` in {done:?}");
    }
    assert!(!done.out.contains("9.25s"), "there is no lease to end: {done:?}");
}

#[test]
fn nothing_is_run_and_nothing_is_locked() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let done = bed.run(&["run", "--explain", "k", "--", "touch", "ran"]).exits(0);
    assert!(!bed.path("ran").exists() && !done.out.is_empty());
    assert!(bed.waiters("k").is_empty());
    holder.end().exits(0);
}

#[test]
fn what_cannot_be_kept_is_refused_here_too() {
    let bed = Bed::new();
    bed.run(&["run", "--explain", "--on", "memory:", "--ttl", "5s", "k", "--", "true"]).exits(64);
    bed.run(&["run", "--explain", "--on", "nosuch:", "k", "--", "true"]).exits(78);
}
