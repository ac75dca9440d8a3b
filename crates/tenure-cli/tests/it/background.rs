//! What the job leaves running keeps the lock until it ends.

use rustix::process::Signal;

use crate::bed::Bed;

#[test]
fn the_lock_is_held_until_the_last_of_the_jobs_processes_ends() {
    let bed = Bed::new();
    // The job ends at once; its child lives until it is told something.
    let script = "exec 3<&0; (echo up; read go <&3; echo done) & exit 3";
    let mut job = bed.job(&[], "k", script);
    assert!(!bed.is_free("k"));
    assert!(job.is_running());
    job.say("go\n");
    assert_eq!(job.line(), "done");
    job.end().exits(3);
    assert!(bed.is_free("k"));
}

#[test]
fn what_is_left_running_can_be_stopped() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "(echo up; sleep 60) & exit 3");
    job.signal(Signal::TERM);
    job.exit();
    job.all_gone();
    assert!(bed.is_free("k"));
}

#[test]
fn what_is_left_running_is_stopped_when_the_lock_is_lost() {
    let bed = Bed::new();
    let mut job = bed.job(&[], "k", "(echo up; sleep 60) & exit 0");
    bed.break_it("k");
    job.exit();
    job.all_gone();
    job.end().exits(76);
}
