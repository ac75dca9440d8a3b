//! `tenure` on Redis: what a script or a person sees when the server is there, is not what it seems, or goes away.

use serde_json::Value;
use tenure_testkit::redis::{Cluster, Persistence, Redis, RedisOptions, Role, certificates};

use crate::{
    bed::Bed,
    remote::{SECRET, a_job_is_stopped, a_job_runs, refused, run},
};

#[test]
fn a_job_runs_under_a_lock_that_others_see_and_nothing_stays() {
    a_job_runs(&Redis::start(RedisOptions::default()).unwrap().url());
}

#[test]
fn a_job_whose_server_dies_or_freezes_is_stopped_before_its_lease_ends() {
    for goes_away in [Redis::kill, Redis::pause] {
        let server = Redis::start(RedisOptions::default()).unwrap();
        a_job_is_stopped(&server.url(), || goes_away(&server).unwrap());
    }
}

#[test]
fn the_doctor_grades_what_the_server_keeps() {
    let bed = Bed::new();
    let grade = |server: &Redis| {
        let done = run(&bed, &server.url(), &["doctor", "--json"]).exits(0);
        let seen: Value = serde_json::from_str(&done.out).unwrap();
        let warns = |name: &str| {
            let facts = seen["facts"].as_array().unwrap();
            facts.iter().find(|fact| fact["name"] == name).unwrap()["warning"].as_bool().unwrap()
        };
        (
            seen["guarantees"]["grade"].as_str().unwrap().to_owned(),
            ["memory", "eviction", "replicas"].map(warns),
        )
    };
    let durable =
        Redis::start(RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() })
            .unwrap();
    assert_eq!(grade(&durable), ("leased".into(), [false, false, false]));
    durable.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).unwrap();
    assert_eq!(grade(&durable), ("advisory".into(), [false, true, false]));

    let forgetful = Redis::start(RedisOptions::default()).unwrap();
    assert_eq!(grade(&forgetful), ("advisory".into(), [true, false, false]));
    let _replica =
        Redis::start(RedisOptions { role: Role::ReplicaOf(forgetful.port()), ..RedisOptions::default() });
    forgetful.wait_for_info("connected_slaves", "1", std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(grade(&forgetful), ("advisory".into(), [true, false, true]));
}

#[test]
fn a_wrong_password_is_77_and_stays_secret() {
    let server =
        Redis::start(RedisOptions { password: Some("right".into()), ..RedisOptions::default() }).unwrap();
    refused(&format!("redis://:{SECRET}@{}", server.addr()), 77, "password");
    refused(&format!("redis://nobody:{SECRET}@{}", server.addr()), 77, "password");
    refused(&format!("redis://{}", server.addr()), 77, "password");
    run(&Bed::new(), &server.url(), &["run", "k", "--", "true"]).exits(0);
}

#[test]
fn a_certificate_nobody_vouches_for_is_77() {
    let server = Redis::start(RedisOptions { tls: true, ..RedisOptions::default() }).unwrap();
    let certificates = certificates().unwrap();
    let url = server.tls_url().unwrap();
    let with = |ca: &std::path::Path| format!("{}?ca={}", url.split('?').next().unwrap(), ca.display());
    run(&Bed::new(), &with(&certificates.ca), &["run", "k", "--", "true"]).exits(0);
    refused(&with(&certificates.stranger), 77, "certificate");
    refused(&with(std::path::Path::new("/nowhere/ca.pem")), 78, "/nowhere/ca.pem");
}

#[test]
fn a_server_that_is_not_what_the_url_says_is_78() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let replica =
        Redis::start(RedisOptions { role: Role::ReplicaOf(server.port()), ..RedisOptions::default() })
            .unwrap();
    replica.wait_for_info("master_link_status", "up", std::time::Duration::from_secs(10)).unwrap();
    refused(&replica.url(), 78, "is a replica");
    refused(&format!("redis+cluster://{}", server.addr()), 78, "no node of a cluster");
    refused(&format!("redis+sentinel://{}/main", server.addr()), 78, "no sentinel");
    let node = Cluster::shared().unwrap().nodes()[0].addr();
    refused(&format!("redis://{node}"), 78, "redis+cluster://");
    refused(&format!("redis://{}?relicas=1", server.addr()), 78, "did you mean `replicas`?");
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    refused(&server.url(), 78, "maxmemory-policy noeviction");
    run(&Bed::new(), &format!("{}?eviction=allow", server.url()), &["run", "k", "--", "true"]).exits(0);
}

#[test]
fn a_server_that_is_not_there_is_69() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    server.kill().unwrap();
    refused(&server.url(), 69, "cannot connect");
}
