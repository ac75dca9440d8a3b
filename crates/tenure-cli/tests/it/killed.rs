//! `tenure` itself is killed or stopped.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::Bed;

#[test]
fn when_tenure_is_killed_the_job_and_its_grandchildren_go_too() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "sh -c 'sleep 60 & sleep 60 & echo up; wait' & wait");
    job.signal(Signal::KILL);
    job.exit();
    job.all_gone();
}

#[test]
fn a_job_that_ignores_signals_goes_too() {
    let bed = Bed::new();
    let script = "trap '' TERM HUP INT QUIT PIPE; sh -c 'echo up; sleep 60' & wait; wait";
    let mut job = bed.job(&[], "k", script);
    job.signal(Signal::KILL);
    job.all_gone();
}

#[test]
fn a_job_that_is_stopped_goes_too() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "echo up; kill -STOP $$");
    job.signal(Signal::KILL);
    job.all_gone();
}

#[test]
fn the_lock_of_a_killed_holder_is_free_at_once() {
    let bed = Bed::new();
    // The lease would last an hour.
    let mut job = bed.job(&["--ttl", "1h"], "k", "sh -c 'echo up; sleep 60' & wait");
    let waiter = bed.queue(1, &["--ttl", "1h"], "k", "echo ran");
    let began = Instant::now();
    job.signal(Signal::KILL);
    waiter.end().exits(0).prints("ran\n");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    job.all_gone();
}

#[test]
fn the_next_holder_runs_only_after_the_job_of_a_killed_one_has_gone() {
    // The stub that kills an orphan keeps the lock until it has: otherwise both jobs run for a moment. The job
    // counts in a file as fast as it can; the next holder looks at it twice.
    for _ in 0..5 {
        let bed = Bed::new();
        let beat = bed.path("beat");
        let script = format!("echo up; n=0; while :; do n=$((n + 1)); echo $n >{}; done", beat.display());
        let mut job = bed.job(&[], "k", &script);
        let look = format!(
            "a=$(cat {0}); for i in 1 2 3 4 5; do /bin/true; done; b=$(cat {0}); [ \"$a\" = \"$b\" ]",
            beat.display()
        );
        let waiter = bed.queue(1, &[], "k", &look);
        job.signal(Signal::KILL);
        waiter.end().exits(0);
        job.all_gone();
        assert!(fs::metadata(&beat).is_ok());
    }
}

#[test]
fn a_paused_holder_goes_on_holding_on_an_engine_without_a_lease() {
    let bed = Bed::new();
    let mut job = bed.hold(&["--ttl", "200ms", "--grace", "10ms"], "k");
    job.signal(Signal::STOP);
    // Longer than the lease it would have elsewhere.
    job.outlives(Duration::from_millis(300));
    assert!(!bed.is_free("k"));
    job.signal(Signal::CONT);
    job.end().exits(0);
}

#[test]
fn what_a_waiter_has_not_started_is_not_started_when_it_is_killed() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut waiter = bed.queue(1, &[], "k", "echo ran");
    waiter.signal(Signal::KILL);
    waiter.exit();
    waiter.end().prints("");
    holder.end().exits(0);
    assert!(bed.is_free("k"));
}

#[test]
fn a_job_whose_watcher_is_killed_does_not_go_on_unwatched() {
    let bed = Bed::new();
    // The process that watches over the group leads it, and so has its number.
    let mut job = bed.job(&[], "k", "echo up; cut -d' ' -f5 /proc/$$/stat; sleep 60 | sleep 60");
    let leader = job.line().parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process(leader, Signal::KILL).unwrap();
    job.exit();
    job.all_gone();
    assert!(bed.is_free("k"));
    assert_ne!(job.end().status.code(), Some(0));
}
