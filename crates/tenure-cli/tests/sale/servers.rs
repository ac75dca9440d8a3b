//! The right ways on real servers: five hundred consoles, ten hosts, ten thousand buyers, and a host that dies in the middle.

use tenure_testkit::{
    etcd::Etcd,
    mariadb::MariaDb,
    memcached::Memcached,
    postgres::Postgres,
    redis::{Redis, RedisOptions},
    zookeeper::Zookeeper,
};

use crate::bed::{sale, sold_out};

const CROWD: [&str; 7] = ["--json", "--hosts", "10", "--buyers", "10000", "--stock", "500"];

fn sells_five_hundred(on: &str, store: Option<&str>) {
    let mut args = CROWD.to_vec();
    args.extend(["--on", on, "--strategies", "fenced", "--faults", "kill"]);
    args.extend(store.map(|store| ["--store", store]).into_iter().flatten());
    let lanes = sale(&args).exits(0).lanes();
    sold_out(&lanes[0], 500);
    assert_eq!(lanes[0]["faults"].as_array().unwrap().len(), 1, "{}", lanes[0]);
}

/// Every right way, with its locks on this server, while hosts are stopped, killed and cut off.
fn every_right_way(on: &str, store: Option<&str>, faults: &str) {
    let mut args = vec!["--json", "--on", on, "--strategies", "safe", "--faults", faults];
    args.extend(store.map(|store| ["--store", store]).into_iter().flatten());
    let lanes = sale(&args).exits(0).lanes();
    assert_eq!(lanes.len(), 7);
    for lane in lanes.iter().filter(|lane| lane["strategy"] != "counter") {
        sold_out(lane, 100);
    }
}

#[test]
fn redis() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    sells_five_hundred(&server.url(), Some(&server.url()));
    every_right_way(&server.url(), Some(&server.url()), "stall,kill,cut");
    let lanes = sale(&["--json", "--on", &server.url(), "--strategies", "wrong"]).exits(0).lanes();
    assert_eq!(lanes.len(), 7, "the homemade locks go wrong on a real Redis too");
}

#[test]
fn mysql() {
    let url = MariaDb::shared().unwrap().url();
    sells_five_hundred(&url, Some(&url));
    every_right_way(&url, Some(&url), "kill");
}

#[test]
fn postgres() {
    let url = Postgres::shared().unwrap().url();
    sells_five_hundred(&url, Some(&url));
    every_right_way(&url, Some(&url), "kill,cut");
}

#[test]
fn zookeeper() {
    let url = Zookeeper::shared().unwrap().url();
    sells_five_hundred(&url, None);
    every_right_way(&url, None, "kill");
}

#[test]
fn etcd() {
    let url = Etcd::shared().unwrap().url();
    sells_five_hundred(&url, None);
    every_right_way(&url, None, "kill");
}

#[test]
fn memcached() {
    // It may forget, and nothing here makes it: what its fence says holds.
    let url = Memcached::shared().unwrap().url();
    sells_five_hundred(&url, None);
    every_right_way(&url, None, "kill");
}
