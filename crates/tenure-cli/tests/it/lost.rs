//! An operator breaks the lock while the job runs: the holder is told, the job is stopped, and nobody is misled.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::bed::{Bed, took};

#[test]
fn the_job_of_a_broken_lock_is_stopped_and_tenure_exits_76() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    bed.break_it("k");
    assert_eq!(job.line(), "term");
    // The job's own success does not hide the loss.
    job.end().exits(76).complains(&["tenure: ", "lost", "tenure inspect k"]);
    assert!(bed.is_free("k"));
}

#[test]
fn grandchildren_are_stopped_too() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "sh -c 'sleep 60 & sleep 60 & echo up; wait' & wait");
    bed.break_it("k");
    job.exit();
    job.all_gone();
    job.end().exits(76);
}

#[test]
fn a_job_that_does_not_stop_is_killed_after_the_grace() {
    let bed = Bed::new();
    let script = "trap '' TERM; sh -c 'echo up; sleep 60' & wait; wait";
    let mut job = bed.job(&["--grace", "0.3"], "k", script);
    let began = Instant::now();
    bed.break_it("k");
    job.exit();
    took(began, Duration::from_millis(300));
    assert!(began.elapsed() < Duration::from_secs(5), "not the usual grace of 5 s");
    job.all_gone();
    job.end().exits(76);
}

#[test]
fn the_next_in_line_runs_only_after_the_job_has_stopped() {
    let bed = Bed::new();
    let log = bed.path("log");
    let script = format!(
        "trap 'echo stopping; read go; echo stopped >>{}; exit 0' TERM; echo up; while :; do sleep 0.01; done",
        log.display()
    );
    let mut job = bed.job(&[], "k", &script);
    let waiter = bed.queue(1, &[], "k", &format!("echo next >>{}", log.display()));
    bed.break_it("k");
    assert_eq!(job.line(), "stopping");
    assert!(!log.exists(), "nobody runs beside a job that is still stopping");
    job.say("go\n");
    job.end().exits(76);
    waiter.end().exits(0);
    assert_eq!(fs::read_to_string(&log).unwrap(), "stopped\nnext\n");
}

#[test]
fn a_lock_that_is_broken_while_tenure_is_stopped_is_lost_when_it_goes_on() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "echo up; exec sleep 60");
    job.signal(Signal::STOP);
    bed.break_it("k");
    assert!(job.is_running());
    job.signal(Signal::CONT);
    job.end().exits(76);
}

#[test]
fn a_failed_job_of_a_broken_lock_is_a_loss_too() {
    let bed = Bed::new();
    let job = bed.job(&[], "k", "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    bed.break_it("k");
    job.end().exits(76);
}

#[test]
fn a_lock_that_vanishes_from_the_engine_is_never_a_success() {
    let bed = Bed::new();
    let script = format!("rm -r {}", bed.path("locks").display());
    bed.run(&["run", "k", "--", "sh", "-c", &script]).exits(76).complains(&["tenure: "]);
}
