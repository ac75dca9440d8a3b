//! `tenure` on etcd.

use serde_json::Value;
use tenure_testkit::etcd::{Cluster, Etcd, EtcdOptions, certificates};

use crate::{
    bed::Bed,
    remote::{SECRET, a_job_is_stopped, a_job_runs, refused, run},
};

#[test]
fn a_job_runs_under_a_lock_that_others_see_and_nothing_stays() {
    a_job_runs(&format!("{}?ns=jobs", Etcd::shared().unwrap().url()));
    a_job_runs(&format!("{}?ns=jobs", Cluster::shared().unwrap().url()));
}

#[test]
fn a_job_whose_server_dies_or_freezes_is_stopped_before_its_lease_ends() {
    for goes_away in [Etcd::kill, Etcd::pause] {
        let server = Etcd::start(EtcdOptions::default()).unwrap();
        a_job_is_stopped(&server.url(), || goes_away(&server).unwrap());
    }
}

#[test]
fn what_cannot_be_opened_says_why_and_no_password() {
    let server = Etcd::start(EtcdOptions { tls: true, ..EtcdOptions::default() }).unwrap();
    let certificates = certificates().unwrap();
    let with = |ca: &std::path::Path| format!("{}?ca={}", server.tls_url().unwrap(), ca.display());
    run(&Bed::new(), &with(&certificates.ca), &["run", "k", "--", "true"]).exits(0);
    let addr = server.addr();
    for (url, code, said) in [
        (with(&certificates.stranger), 77, "certificate"),
        (with(std::path::Path::new("/nowhere/ca.pem")), 78, "/nowhere/ca.pem"),
        (format!("etcd://app:{SECRET}@{addr}"), 78, "knows no users"),
        (format!("etcd://app:{SECRET}@127.0.0.1:1"), 69, "cannot connect"),
        (format!("etcd://app:{SECRET}@{addr}?nss=x"), 78, "did you mean `ns`?"),
    ] {
        refused(&url, code, said);
    }
    server.admin().secure(SECRET).unwrap();
    refused(&server.url(), 77, "password");
    refused(&format!("etcd://root:{SECRET}x@{addr}"), 77, "password");
    run(&Bed::new(), &format!("etcd://root:{SECRET}@{addr}"), &["run", "k", "--", "true"]).exits(0);
}

#[test]
fn the_doctor_counts_servers_and_grades_them() {
    let bed = Bed::new();
    let seen = |url: &str| -> Value {
        serde_json::from_str(&run(&bed, url, &["doctor", "--json"]).exits(0).out).unwrap()
    };
    let (one, three) = (seen(&Etcd::shared().unwrap().url()), seen(&Cluster::shared().unwrap().url()));
    assert_eq!(one["guarantees"]["grade"], "fenced");
    assert_eq!(three["guarantees"]["grade"], "fenced");
    assert!(one.to_string().contains("while it is down"), "{one}");
    assert!(three.to_string().contains("3, of which 2 must be up"), "{three}");
}
