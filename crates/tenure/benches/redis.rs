//! What locks on Redis cost, as ratios within one run: `cargo bench -p tenure --features redis --bench redis`.
//!
//! It starts a private `redis-server` on loopback. A bare round trip there takes 30 or 120 µs, by where the scheduler
//! puts the two processes; so what is compared takes turns with it on the same connection, medians are taken, and the
//! figure is the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

mod common;
#[path = "redis/parts.rs"]
mod parts;
#[path = "redis/rival.rs"]
mod rival;
#[path = "common/suite.rs"]
mod suite;
#[path = "common/verbs.rs"]
mod verbs;

use std::{sync::Arc, time::Duration};

use tenure::{Client, Settings};
use tenure_redis::{RedisEngine, RedisOptions};
use tenure_testkit::redis::Redis;

use self::{
    common::{median, report},
    suite::{
        handoff, held, hot,
        uncontended::{self, everywhere, locks},
    },
};

const NAME: &str = "redis";
const COMPARED: &str = "PING";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    suite::run(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 200, 100, "at most 2.6")),
        ("handoff", || handoff::measure("at most 1.6")),
        ("quorum", quorum),
        ("hot-key", || hot::measure("at least 10 with nothing inside, at most 0.1")),
        ("held", || held::measure("5")),
        ("parts", parts::measure),
    ]);
}

fn server() -> Redis {
    Redis::start(tenure_testkit::redis::RedisOptions::default()).unwrap()
}

/// A client, and what to compare with on the same connection.
async fn open(url: &str) -> (Client, Yardstick) {
    let mut url = url.parse().unwrap();
    let engine = RedisEngine::open(RedisOptions::from_url(&mut url).unwrap()).await.unwrap();
    (Client::new(engine.clone(), Settings::default()).unwrap(), Yardstick(engine))
}

struct Yardstick(Arc<RedisEngine>);

impl Yardstick {
    async fn once(&self) {
        self.0.ping().await.unwrap();
    }
}

/// Five independent servers beside one of them.
fn quorum() {
    let five = tenure_testkit::redis::five(&Default::default()).unwrap();
    let hosts: Vec<_> = five.iter().map(|server| server.addr().to_string()).collect();
    everywhere(|place| quorum_beside_one(five[0].url(), hosts.join(","), place));
}

async fn quorum_beside_one(url: String, hosts: String, place: &str) {
    const OPS: u32 = 50;
    // New servers that keep nothing count once every lease of one that restarted would have ended.
    let quorum = tenure::connect(&format!("quorum+redis://{hosts}?ttl=1s&max_ttl=1s&max_skew=0s")).await;
    let (single, _) = open(&url).await;
    let (quorum, single) = (quorum.unwrap().mutex("q").unwrap(), single.mutex("s").unwrap());
    while quorum.try_acquire().await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (mut ours, mut one) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        one.push(locks(OPS, &single).await);
        ours.push(locks(OPS, &quorum).await);
    }
    let what = format!("quorum of five, {place}: acquire + release  /  one server");
    report(&what, median(ours), median(one), "at most 1.6");
}
