//! Signals that are sent to `tenure` reach the job and all that it started.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    bed::{Bed, HOLD, TENURE, took},
    process::Running,
};

/// A shell with a child and a grandchild that all have the standard output open.
const FAMILY: &str = "sh -c 'sleep 60 & sleep 60 & echo up; wait' & wait";

#[test]
fn int_term_and_hup_end_the_job_and_its_grandchildren() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let bed = Bed::new();
        // Shells start background commands with SIGINT ignored, which is theirs to do; without it, INT is seen.
        let script = if signal == Signal::INT { "echo up; sleep 60 | sleep 60 | sleep 60" } else { FAMILY };
        let mut job = bed.job(&[], "k", script);
        job.signal(signal);
        job.exit();
        job.all_gone();
        assert!(bed.is_free("k"), "{signal:?}");
        job.end().dies_of(signal);
    }
}

#[test]
fn the_job_sees_the_signal_itself_and_its_answer_counts() {
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let bed = Bed::new();
        let script = format!("trap 'echo got {name}; exit 3' {name}; echo up; while :; do sleep 0.01; done");
        let mut job = bed.job(&[], "k", &script);
        job.signal(signal);
        assert_eq!(job.line(), format!("got {name}"));
        job.end().exits(3);
        assert!(bed.is_free("k"));
    }
}

#[test]
fn a_job_that_does_not_stop_is_killed_after_the_grace() {
    let bed = Bed::new();
    let script = "trap '' TERM; sh -c 'echo up; sleep 60' & wait; wait";
    let mut job = bed.job(&["--grace", "0.3"], "k", script);
    let began = Instant::now();
    job.signal(Signal::TERM);
    job.exit();
    took(began, Duration::from_millis(300));
    assert!(began.elapsed() < Duration::from_secs(5), "not the usual grace of 5 s");
    job.all_gone();
    assert!(bed.is_free("k"));
    let done = job.end();
    assert_eq!(done.shell_code(), 137, "{done:?}");
}

#[test]
fn the_lock_is_held_until_a_slow_job_has_stopped() {
    let bed = Bed::new();
    // The trap runs to its end while the standard input stays open.
    let script =
        "trap 'echo stopping; read go; echo stopped; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut job = bed.job(&[], "k", script);
    job.signal(Signal::TERM);
    assert_eq!(job.line(), "stopping");
    assert!(!bed.is_free("k"));
    job.say("go\n");
    assert_eq!(job.line(), "stopped");
    job.end().exits(0);
    assert!(bed.is_free("k"));
}

#[test]
fn other_signals_are_passed_on_and_end_nothing() {
    let bed = Bed::new();
    let script = "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut job = bed.job(&[], "k", script);
    for (signal, says) in [(Signal::USR1, "usr1"), (Signal::USR2, "usr2")] {
        job.signal(signal);
        assert_eq!(job.line(), says);
    }
    job.signal(Signal::TERM);
    job.end().exits(0);
}

#[test]
fn a_signal_before_the_job_runs_means_that_it_never_does() {
    // A stop that comes between the grant and the start of the job must not be forgotten. When exactly it comes
    // cannot be chosen from outside, so it is tried at many moments; what must hold, holds at all of them.
    let bed = Bed::new();
    for microseconds in (0..6000).step_by(150) {
        let job = bed.start(&["run", "--grace", "1", "k", "--", "sh", "-c", "exec sleep 60"]);
        let moment = Instant::now() + Duration::from_micros(microseconds);
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        job.signal(Signal::TERM);
        let done = job.end();
        assert_eq!(done.shell_code(), 143, "{microseconds} µs: {done:?}");
        assert!(bed.is_free("k"));
    }
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_grace() {
    let bed = Bed::new();
    let script = "trap 'echo int' INT; echo up; while :; do sleep 0.01; done";
    let mut job = bed.job(&["--ttl", "1h", "--grace", "10m"], "k", script);
    job.signal(Signal::INT);
    assert_eq!(job.line(), "int");
    job.signal(Signal::INT);
    job.exit();
    job.all_gone();
    assert_eq!(job.end().shell_code(), 137);
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let bed = Bed::new();
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "nohup", TENURE, "run", "k", "--", "sh", "-c", HOLD]);
    bed.environment(&mut nohup);
    let mut job = Running::start(&mut nohup);
    assert_eq!(job.line(), "up");
    job.signal(Signal::HUP);
    job.outlives(Duration::from_millis(200));
    job.end().exits(0);
}
