//! `tenure` on ZooKeeper.

use serde_json::Value;
use tenure_testkit::zookeeper::{Zookeeper, ZookeeperOptions};

use crate::{
    bed::Bed,
    remote::{SECRET, a_job_is_stopped, a_job_runs, refused, run},
};

#[test]
fn a_job_runs_under_a_lock_that_others_see_and_nothing_stays() {
    a_job_runs(&Zookeeper::shared().unwrap().url());
}

#[test]
fn a_job_whose_server_dies_or_freezes_is_stopped_before_its_session_ends() {
    for goes_away in [Zookeeper::kill, Zookeeper::pause] {
        let server = Zookeeper::start(&ZookeeperOptions::default()).unwrap();
        a_job_is_stopped(&server.url(), || goes_away(&server).unwrap());
    }
}

#[test]
fn what_cannot_be_opened_says_why_and_no_password() {
    let url = Zookeeper::shared().unwrap().url().replace("/tenure", "/secret");
    run(&Bed::new(), &url.replace("//", "//app:right@"), &["run", "k", "--", "true"]).exits(0);
    refused(&url.replace("//", &format!("//app:{SECRET}@")), 77, "another user");
    refused(&format!("zookeeper://app:{SECRET}@127.0.0.1:1/x"), 69, "does not serve");
    refused(&format!("zookeeper://app:{SECRET}@h/x?cs=t"), 78, "did you mean `ca`?");
}

#[test]
fn the_doctor_grades_it() {
    let seen = run(&Bed::new(), &Zookeeper::shared().unwrap().url(), &["doctor", "--json"]).exits(0).out;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["guarantees"]["grade"], "fenced", "{seen}");
}
