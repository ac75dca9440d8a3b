//! `--json`: one object on stderr when the run is over, so that a script need not guess from an exit code.

use serde_json::Value;

use crate::{bed::Bed, process::Done};

/// The report is the last line of the standard error.
#[track_caller]
fn report(done: &Done) -> Value {
    let last = done.err.lines().last().unwrap_or_else(|| panic!("no report in {done:?}"));
    serde_json::from_str(last).unwrap_or_else(|err| panic!("{err} in {done:?}"))
}

#[test]
fn a_job_that_ended_is_reported_with_code_fence_and_times() {
    let bed = Bed::new();
    let done = bed.run(&["run", "--json", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 5"]).exits(5);
    let report = report(&done);
    assert_eq!(report["result"], "failed", "{report}");
    assert_eq!(report["key"], "k", "{report}");
    assert_eq!(report["exit"].as_i64(), Some(5), "{report}");
    assert!(report["signal"].is_null(), "{report}");
    assert_eq!(report["fence"], done.out.trim(), "a text, since most readers round large numbers: {report}");
    assert!(report["waited_ms"].is_u64() && report["held_ms"].is_u64(), "{report}");
}

#[test]
fn the_time_it_waited_and_held_is_in_milliseconds() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut waiter = bed.queue(1, &["--json", "--hold-for", "0.3"], "k", "true");
    waiter.outlives(std::time::Duration::from_millis(200));
    holder.end().exits(0);
    let report = report(&waiter.end().exits(0));
    assert!((200..20_000).contains(&report["waited_ms"].as_u64().unwrap()), "{report}");
    assert!((300..20_000).contains(&report["held_ms"].as_u64().unwrap()), "{report}");
}

#[test]
fn a_signal_is_reported_by_its_number() {
    let done = Bed::new().run(&["run", "--json", "k", "--", "sh", "-c", "kill -9 $$"]);
    let report = report(&done);
    assert_eq!(report["result"], "killed", "{report}");
    assert_eq!(report["signal"].as_i64(), Some(9), "{report}");
    assert!(report["exit"].is_null(), "{report}");
}

#[test]
fn a_job_that_exits_75_is_told_apart_from_a_lock_that_is_busy() {
    let bed = Bed::new();
    let done = bed.run(&["run", "--json", "k", "--", "sh", "-c", "exit 75"]).exits(75);
    assert_eq!(report(&done)["result"], "failed");
    let holder = bed.hold(&[], "k");
    let done = bed.run(&["run", "--json", "-n", "k", "--", "true"]).exits(75);
    assert_eq!(report(&done)["result"], "busy");
    assert!(report(&done)["fence"].is_null());
    let done = bed.run(&["run", "--json", "-w", "0.1", "k", "--", "true"]).exits(75);
    assert_eq!(report(&done)["result"], "timeout");
    holder.end().exits(0);
}

#[test]
fn a_loss_and_a_job_that_ran_too_long_are_named() {
    let bed = Bed::new();
    let job = bed.job(&["--json"], "k", "echo up; exec sleep 60");
    bed.break_it("k");
    let report_of_loss = report(&job.end().exits(76));
    assert_eq!(report_of_loss["result"], "lost", "{report_of_loss}");
    let done = bed.run(&["run", "--json", "--max-run", "0.1", "k", "--", "sleep", "60"]).exits(124);
    assert_eq!(report(&done)["result"], "max_run");
}

#[test]
fn every_other_end_has_a_word_of_its_own() {
    let bed = Bed::new();
    let word = |args: &[&str]| {
        let report = report(&bed.run(&[&["run", "--json"], args].concat()));
        report["result"].as_str().unwrap().to_owned()
    };
    assert_eq!(word(&["k", "--", "true"]), "ok");
    assert_eq!(word(&["k", "--", "tenure-no-such-command"]), "not_found");
    assert_eq!(word(&["k", "--", "/"]), "cannot_execute");
    assert_eq!(word(&["--on", "nosuch:", "k", "--", "true"]), "config");
    assert_eq!(word(&["--on", "file:/proc/tenure-no-such-thing/locks", "k", "--", "true"]), "unavailable");
    let holder = bed.hold(&[], "k");
    assert_eq!(word(&["--if-busy", "skip", "k", "--", "true"]), "skipped");
    let waiter = bed.queue(1, &["--json"], "k", "true");
    waiter.signal(rustix::process::Signal::TERM);
    let interrupted = report(&waiter.end());
    assert_eq!(interrupted["result"], "interrupted", "{interrupted}");
    holder.end().exits(0);
}
