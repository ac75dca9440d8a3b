//! Beside whom a job may run.

use crate::bed::Bed;

#[test]
fn shared_jobs_run_together_and_exclude_the_others() {
    let bed = Bed::new();
    let one = bed.hold(&["-s"], "k");
    let two = bed.hold(&["-s", "-n"], "k");
    assert_eq!(bed.holders("k").len(), 2);
    bed.run(&["run", "-n", "k", "--", "true"]).exits(75);
    one.end().exits(0);
    bed.run(&["run", "-n", "k", "--", "true"]).exits(75);
    two.end().exits(0);
    assert!(bed.is_free("k"));
}

#[test]
fn a_shared_job_waits_behind_an_exclusive_one() {
    let bed = Bed::new();
    let writer = bed.hold(&[], "k");
    bed.run(&["run", "-s", "-n", "k", "--", "true"]).exits(75);
    let reader = bed.queue(1, &["-s"], "k", "echo ran");
    writer.end().exits(0);
    reader.end().exits(0).prints("ran\n");
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers() {
    let bed = Bed::new();
    let reader = bed.hold(&["-s"], "k");
    let writer = bed.queue(1, &[], "k", "echo ran");
    bed.run(&["run", "-s", "-n", "k", "--", "true"]).exits(75);
    reader.end().exits(0);
    writer.end().exits(0).prints("ran\n");
}

#[test]
fn as_many_jobs_run_together_as_there_are_slots() {
    let bed = Bed::new();
    let one = bed.hold(&["--slots", "2"], "k");
    let two = bed.hold(&["--slots", "2", "-n"], "k");
    bed.run(&["run", "--slots", "2", "-n", "k", "--", "true"]).exits(75);
    one.end().exits(0);
    bed.run(&["run", "--slots", "2", "-n", "k", "--", "true"]).exits(0);
    two.end().exits(0);
}

#[test]
fn another_number_of_slots_is_an_error_that_names_both() {
    let bed = Bed::new();
    let holder = bed.hold(&["--slots", "11"], "k");
    for flags in [&["-n"][..], &["-w", "5"], &[]] {
        let args = [&["run", "--slots", "23"], flags, &["k", "--", "echo", "ran"]].concat();
        let done = bed.run(&args).prints("").complains(&["11", "23"]);
        assert!(matches!(done.status.code(), Some(64 | 78)), "a mistake, not contention: {done:?}");
    }
    assert!(bed.waiters("k").is_empty());
    holder.end().exits(0);
}

#[test]
fn slots_that_make_no_sense_are_refused() {
    let bed = Bed::new();
    bed.run(&["run", "--slots", "0", "k", "--", "true"]).exits(64).complains(&["0"]);
    bed.run(&["run", "--slots", "x", "k", "--", "true"]).exits(64);
    bed.run(&["run", "--slots", "2", "-s", "k", "--", "true"]).exits(64).complains(&["--slots"]);
}
