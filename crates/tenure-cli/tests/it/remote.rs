//! What is asked of `tenure` on every engine that is a server.

use std::process::Command;

use serde_json::Value;

use crate::{
    bed::{Bed, HOLD},
    process::{Done, Running},
};

/// A password that nothing may show.
pub(crate) const SECRET: &str = "hunter2";

fn tenure(bed: &Bed, url: &str, args: &[&str]) -> Command {
    let mut command = bed.tenure(args);
    command.env("TENURE_URL", url);
    command
}

pub(crate) fn run(bed: &Bed, url: &str, args: &[&str]) -> Done {
    Running::start(&mut tenure(bed, url, args)).end()
}

/// Exits so, says so in one line, and shows no secret.
#[track_caller]
pub(crate) fn refused(url: &str, code: i32, said: &str) {
    let bed = Bed::new();
    for args in [&["run", "k", "--", "true"][..], &["ls"], &["doctor"]] {
        let done = run(&bed, url, args).exits(code).complains(&["tenure: ", said]);
        assert!(!format!("{done:?}").contains(SECRET), "{done:?}");
        assert_eq!(done.err.trim_end().lines().count(), 1, "{done:?}");
    }
}

/// A job's own exit code comes back, others see it and cannot run, and nothing stays behind.
pub(crate) fn a_job_runs(url: &str) {
    let bed = a_job_runs_and_is_seen(url);
    run(&bed, url, &["ls", "--json"]).exits(0).prints("");
}

/// The same, where keys cannot be listed.
pub(crate) fn a_job_runs_and_is_seen(url: &str) -> Bed {
    let bed = Bed::new();
    run(&bed, url, &["run", "k", "--", "sh", "-c", "exit 7"]).exits(7);
    let mut job = Running::start(&mut tenure(&bed, url, &["run", "k", "--", "sh", "-c", HOLD]));
    assert_eq!(job.line(), "up");
    run(&bed, url, &["run", "-n", "k", "--", "true"]).exits(75);
    let shown: Value =
        serde_json::from_str(&run(&bed, url, &["inspect", "--json", "k"]).exits(0).out).unwrap();
    assert_eq!(shown["holders"].as_array().map(Vec::len), Some(1), "{shown}");
    job.say("go\n");
    job.end().exits(0);
    let shown: Value =
        serde_json::from_str(&run(&bed, url, &["inspect", "--json", "k"]).exits(0).out).unwrap();
    assert_eq!(shown["holders"].as_array().map(Vec::len), Some(0), "{shown}");
    bed
}

/// A job is stopped when its lock can no longer be renewed, with time to end by itself.
pub(crate) fn a_job_is_stopped(url: &str, goes_away: impl FnOnce()) {
    a_job_of_this_ttl_is_stopped(url, "1s", goes_away);
}

/// The same with another lease.
pub(crate) fn a_job_of_this_ttl_is_stopped(url: &str, ttl: &str, goes_away: impl FnOnce()) {
    let script = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let (bed, url) = (Bed::new(), format!("{url}?ttl={ttl}"));
    let args = ["run", "--grace", "300ms", "k", "--", "sh", "-c", script];
    let mut job = Running::start(&mut tenure(&bed, &url, &args));
    assert_eq!(job.line(), "up");
    goes_away();
    assert_eq!(job.line(), "term");
    job.end().exits(76).complains(&["tenure: ", "lost"]);
}
