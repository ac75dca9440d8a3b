//! Two copies want one key.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::bed::{Bed, USER, took};

#[test]
fn without_waiting_the_second_copy_exits_75_and_does_not_run() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "v41"], "k");
    for args in [
        &["run", "-n", "k", "--", "echo", "ran"][..],
        &["run", "--if-busy", "fail", "k", "--", "echo", "ran"],
        &["run", "-w", "0", "k", "--", "echo", "ran"],
    ] {
        // Who is in the way and what to type next.
        let who = format!("{USER}@");
        bed.run(args).exits(75).prints("").complains(&["tenure: ", &who, "v41", "tenure inspect k"]);
    }
    holder.end().exits(0);
    bed.run(&["run", "-n", "k", "--", "echo", "ran"]).exits(0).prints("ran\n");
}

#[test]
fn other_keys_are_not_in_the_way() {
    let bed = Bed::new();
    let _holder = bed.hold(&[], "k");
    bed.run(&["run", "-n", "K", "--", "true"]).exits(0);
    bed.run(&["run", "-n", "k/1", "--", "true"]).exits(0);
}

#[test]
fn a_wait_ends_after_its_time_and_leaves_no_place_behind() {
    let bed = Bed::new();
    let _holder = bed.hold(&[], "k");
    for time in ["0.2", "200ms", "0.2s"] {
        let began = Instant::now();
        bed.run(&["run", "-w", time, "k", "--", "echo", "ran"]).exits(75).prints("").complains(&["tenure: "]);
        took(began, Duration::from_millis(200));
    }
    assert!(bed.waiters("k").is_empty());
}

#[test]
fn a_wait_that_is_long_enough_runs_the_job() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let waiter = bed.queue(1, &["-w", "2m"], "k", "echo ran");
    holder.end().exits(0);
    waiter.end().exits(0).prints("ran\n");
}

#[test]
fn skipping_is_no_failure_and_says_nothing() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let done = bed.run(&["run", "--if-busy", "skip", "k", "--", "echo", "ran"]).exits(0).prints("");
    assert_eq!(done.err, "");
    bed.run(&["run", "-v", "--if-busy", "skip", "k", "--", "true"]).exits(0).complains(&["k"]);
    holder.end().exits(0);
    bed.run(&["run", "--if-busy", "skip", "k", "--", "sh", "-c", "echo ran; exit 5"])
        .exits(5)
        .prints("ran\n");
}

#[test]
fn the_exit_code_of_a_conflict_can_be_chosen() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    bed.run(&["run", "-n", "-E", "9", "k", "--", "true"]).exits(9);
    bed.run(&["run", "-w", "0.1", "-E", "0", "k", "--", "true"]).exits(0);
    bed.run(&["run", "--if-busy", "fail", "-E", "255", "k", "--", "true"]).exits(255);
    holder.end().exits(0);
    bed.run(&["run", "-n", "-E", "9", "k", "--", "sh", "-c", "exit 4"]).exits(4);
}

#[test]
fn waiting_copies_run_one_after_the_other_in_the_order_they_came() {
    let bed = Bed::new();
    let log = bed.path("log");
    let holder = bed.hold(&[], "k");
    let mut waiters = Vec::new();
    for name in ["b", "c", "d"] {
        let flags: &[&str] = if name == "c" { &["--if-busy", "wait"] } else { &[] };
        let script = format!("echo {name}+ >>{0}; echo {name}- >>{0}", log.display());
        waiters.push(bed.queue(waiters.len() + 1, flags, "k", &script));
    }
    assert!(!log.exists(), "nobody runs beside the holder");
    holder.end().exits(0);
    for waiter in waiters {
        waiter.end().exits(0);
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "b+\nb-\nc+\nc-\nd+\nd-\n");
}

#[test]
fn many_copies_at_once_never_run_together() {
    let bed = Bed::new();
    let count = bed.path("count");
    fs::write(&count, "0").unwrap();
    // Reads, lets others run, and writes: two at a time would lose a count.
    let script = format!("n=$(cat {0}); /bin/true; echo $((n + 1)) >{0}", count.display());
    let copies: Vec<_> = (0..12).map(|_| bed.start(&["run", "k", "-c", &script])).collect();
    for copy in copies {
        copy.end().exits(0);
    }
    assert_eq!(fs::read_to_string(&count).unwrap(), "12\n");
}

#[test]
fn a_signal_ends_the_wait_at_once_and_nothing_is_run() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let bed = Bed::new();
        let holder = bed.hold(&[], "k");
        let waiter = bed.queue(1, &[], "k", "echo ran");
        waiter.signal(signal);
        let done = waiter.end().prints("");
        assert_eq!(done.shell_code(), 128 + signal.as_raw(), "{done:?}");
        assert!(bed.waiters("k").is_empty(), "it left the line");
        holder.end().exits(0);
    }
}

#[test]
fn a_waiter_that_is_killed_does_not_hold_up_those_behind_it() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut second = bed.queue(1, &[], "k", "echo ran");
    let third = bed.queue(2, &[], "k", "echo ran");
    second.signal(Signal::KILL);
    second.exit();
    holder.end().exits(0);
    third.end().exits(0).prints("ran\n");
    second.end().prints("");
}

#[test]
fn whoever_waits_says_so_in_a_log_now_and_then() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "v41"], "k");
    let mut waiter = bed.queue(1, &[], "k", "echo ran");
    waiter.complains("waiting for `k`");
    holder.end().exits(0);
    let done = waiter.end().exits(0).prints("ran\n").complains(&[USER, "v41", "#1"]);
    assert_eq!(done.err.lines().count(), 1, "one line, not one a second: {done:?}");
}
