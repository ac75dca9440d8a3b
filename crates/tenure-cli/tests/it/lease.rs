//! The timetable of a lease. The memory engine is the one with a lease that needs no server; it lives in the
//! process, so what is asked here is what the holder does by its own clock.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{
    bed::Bed,
    process::{LIMIT, Lifeline},
};

#[test]
fn a_holder_that_was_stopped_past_its_lease_kills_its_job_when_it_goes_on() {
    let bed = Bed::new();
    let script = "trap '' TERM; sh -c 'echo up; sleep 60' & wait; wait";
    let flags = ["--on", "memory:", "--ttl", "1s", "--grace", "400ms"];
    let mut job = bed.job(&flags, "k", script);
    job.signal(Signal::STOP);
    job.outlives(Duration::from_millis(1100));
    job.signal(Signal::CONT);
    let resumed = Instant::now();
    job.exit();
    assert!(resumed.elapsed() < Duration::from_secs(5), "{:?}", resumed.elapsed());
    job.all_gone();
    job.end().exits(76).complains(&["tenure: ", "lost"]);
}

#[test]
fn a_holder_that_stays_stopped_does_not_keep_its_job_alive_past_the_lease() {
    let bed = Bed::new();
    let lifeline = Lifeline::new(&bed.path("lifeline"));
    let script = format!(
        "trap '' TERM; exec 3>{}; sh -c 'echo up; sleep 60' & wait; wait",
        bed.path("lifeline").display()
    );
    let job = bed.job(&["--on", "memory:", "--ttl", "1s", "--grace", "200ms"], "k", &script);
    assert!(!lifeline.is_over());
    let began = Instant::now();
    job.signal(Signal::STOP);
    assert!(lifeline.ends_within(LIMIT), "the job outlives its lease");
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "after {:?}, when others could hold the key",
        began.elapsed()
    );
    job.signal(Signal::CONT);
    job.end().exits(76);
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_job_runs() {
    let bed = Bed::new();
    let mut job = bed.hold(&["--on", "memory:", "--ttl", "300ms", "--grace", "50ms"], "k");
    job.outlives(Duration::from_secs(1));
    job.end().exits(0);
}

#[test]
fn a_short_stop_within_the_lease_costs_nothing() {
    let bed = Bed::new();
    let mut job = bed.hold(&["--on", "memory:", "--ttl", "1m"], "k");
    job.signal(Signal::STOP);
    job.outlives(Duration::from_millis(50));
    job.signal(Signal::CONT);
    job.end().exits(0);
}

#[test]
fn a_timetable_that_cannot_be_kept_is_refused_and_says_what_to_change() {
    let bed = Bed::new();
    for (flags, names) in [
        (&["--ttl", "5s", "--grace", "5s"][..], &["--ttl", "--grace", "5s"][..]),
        (&["--ttl", "6s"], &["--ttl", "--grace", "6s", "5s"]),
        (&["--grace", "14s"], &["--ttl", "--grace", "15s", "14s"]),
        (&["--ttl", "1ms", "--grace", "0"], &["ttl", "1ms"]),
    ] {
        let args = [&["run", "--on", "memory:"], flags, &["k", "--", "echo", "ran"]].concat();
        bed.run(&args).exits(64).prints("").complains(names);
    }
    bed.run(&["run", "--on", "memory:", "--ttl", "10s", "--grace", "5s", "k", "--", "true"]).exits(0);
    bed.run(&["run", "--on", "memory:", "--ttl", "300ms", "--grace", "0", "k", "--", "true"]).exits(0);
}
