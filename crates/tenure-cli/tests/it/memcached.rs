//! `tenure` on memcached: what a script or a person sees, and what such a lock is worth.

use serde_json::Value;
use tenure_testkit::memcached::{Memcached, MemcachedOptions};

use crate::{
    bed::Bed,
    remote::{SECRET, a_job_of_this_ttl_is_stopped, a_job_runs_and_is_seen, refused, run},
};

#[test]
fn a_job_runs_under_a_lock_that_others_see_and_nothing_stays() {
    a_job_runs_and_is_seen(&Memcached::shared().unwrap().url());
}

#[test]
fn a_job_whose_server_dies_or_freezes_is_stopped_before_its_lease_ends() {
    for goes_away in [Memcached::kill, Memcached::pause] {
        let server = Memcached::start(MemcachedOptions::default()).unwrap();
        a_job_of_this_ttl_is_stopped(&server.url(), "2s", || goes_away(&server).unwrap());
    }
}

#[test]
fn a_job_whose_lock_was_forgotten_is_stopped_at_its_next_renewal() {
    let server = Memcached::start(MemcachedOptions::default()).unwrap();
    a_job_of_this_ttl_is_stopped(&server.url(), "6s", || {
        server.ask(b"flush_all\r\n", "OK\r\n").map(drop).unwrap()
    });
}

#[test]
fn the_doctor_says_advisory_whatever_the_server() {
    let bed = Bed::new();
    let server = Memcached::shared().unwrap();
    let seen: Value =
        serde_json::from_str(&run(&bed, &server.url(), &["doctor", "--json"]).exits(0).out).unwrap();
    assert_eq!(seen["guarantees"]["grade"], "advisory", "{seen}");
    let facts = seen["facts"].as_array().unwrap();
    let warns = |name: &str| facts.iter().any(|fact| fact["name"] == name && fact["warning"] == true);
    assert!(warns("restart") && warns("eviction"), "{seen}");
}

#[test]
fn what_it_cannot_do_is_said() {
    let (bed, url) = (Bed::new(), Memcached::shared().unwrap().url());
    run(&bed, &url, &["ls"]).exits(78).prints("").complains(&["memcached cannot list its keys"]);
    let short = format!("{url}?ttl=1s");
    run(&bed, &short, &["run", "--grace", "100ms", "k", "--", "true"]).exits(78).complains(&["2s"]);
}

#[test]
fn a_server_that_is_not_there_or_not_for_us_is_refused_without_a_secret() {
    refused(&format!("memcached://anna:{SECRET}@127.0.0.1:1"), 69, "cannot connect");
    refused(&format!("memcached://anna:{SECRET}@h?sn=a"), 78, "did you mean `ns`?");
    let login = Some(("anna".to_owned(), "right".to_owned()));
    let server = Memcached::start(MemcachedOptions { login, ..MemcachedOptions::default() }).unwrap();
    refused(&format!("memcached://anna:{SECRET}@{}", server.addr()), 77, "password");
    refused(&format!("memcached://{}", server.addr()), 77, "password");
    run(&Bed::new(), &server.url(), &["run", "k", "--", "true"]).exits(0);
}
