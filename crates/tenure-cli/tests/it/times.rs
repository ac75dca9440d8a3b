//! `--hold-for` and `--max-run`.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    bed::{Bed, took},
    process::Running,
};

#[test]
fn a_fast_job_keeps_the_lock_for_the_time_it_asked() {
    let bed = Bed::new();
    let began = Instant::now();
    let mut job = bed.start(&["run", "--hold-for", "1", "k", "--", "sh", "-c", "echo up; exit 3"]);
    assert_eq!(job.line(), "up");
    // Refused for as long as it is held; after that, granted.
    bed.run(&["run", "-n", "k", "--", "true"]).exits(75);
    let waiter = bed.queue(1, &[], "k", "echo ran");
    job.exit();
    took(began, Duration::from_secs(1));
    job.end().exits(3);
    waiter.end().exits(0).prints("ran\n");
    took(began, Duration::from_secs(1));
}

#[test]
fn a_slow_job_is_not_held_up_by_the_time_it_asked() {
    let bed = Bed::new();
    let mut job = bed.hold(&["--hold-for", "0.2"], "k");
    job.outlives(Duration::from_millis(250));
    assert!(!bed.is_free("k"));
    job.end().exits(0);
    assert!(bed.is_free("k"));
}

/// A job that is over, whose lock is kept on.
fn held_on(bed: &Bed) -> Running {
    let mut job = bed.start(&["run", "-v", "--hold-for", "1h", "k", "--", "sh", "-c", "exit 3"]);
    job.complains("keeps `k`");
    job
}

#[test]
fn a_signal_ends_the_holding_on() {
    let bed = Bed::new();
    let mut job = held_on(&bed);
    assert!(!bed.is_free("k"));
    job.signal(Signal::TERM);
    job.exit();
    assert!(bed.is_free("k"));
}

#[test]
fn a_job_that_was_asked_to_stop_does_not_keep_the_lock_on() {
    let bed = Bed::new();
    for script in ["echo up; exec sleep 60", "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"] {
        let mut job = bed.job(&["--hold-for", "1h"], "k", script);
        job.signal(Signal::TERM);
        job.exit();
        assert!(bed.is_free("k"), "{script}");
    }
}

#[test]
fn a_lock_that_is_broken_while_it_is_only_held_on_is_lost() {
    let bed = Bed::new();
    let job = held_on(&bed);
    bed.break_it("k");
    job.end().exits(76);
}

#[test]
fn a_job_that_runs_too_long_is_stopped_with_124() {
    let bed = Bed::new();
    let began = Instant::now();
    let mut job = bed.job(&["--max-run", "0.3"], "k", "sh -c 'sleep 60 & echo up; wait' & wait");
    job.exit();
    took(began, Duration::from_millis(300));
    job.all_gone();
    assert!(bed.is_free("k"));
    job.end().exits(124).complains(&["tenure: ", "300ms"]);
}

#[test]
fn a_job_that_runs_too_long_and_does_not_stop_is_killed() {
    let bed = Bed::new();
    let script = "trap '' TERM; sh -c 'echo up; sleep 60' & wait; wait";
    let began = Instant::now();
    let mut job = bed.job(&["--max-run", "0.2", "--grace", "0.2"], "k", script);
    job.exit();
    took(began, Duration::from_millis(400));
    job.all_gone();
    job.end().exits(124);
}

#[test]
fn the_job_is_asked_to_stop_first() {
    let bed = Bed::new();
    let script = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut job = bed.job(&["--max-run", "0.2"], "k", script);
    assert_eq!(job.line(), "term");
    job.end().exits(124);
}

#[test]
fn a_job_that_is_done_in_time_has_its_own_code() {
    let bed = Bed::new();
    bed.run(&["run", "--max-run", "1m", "k", "--", "sh", "-c", "exit 6"]).exits(6);
}

#[test]
fn the_time_spent_waiting_is_no_running_time() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut waiter = bed.queue(1, &["--max-run", "1s"], "k", "echo ran");
    waiter.outlives(Duration::from_millis(1100));
    holder.end().exits(0);
    waiter.end().exits(0).prints("ran\n");
}
