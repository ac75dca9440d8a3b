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

use std::sync::Arc;

use tenure::{Client, Settings};
use tenure_redis::{RedisEngine, RedisOptions};
use tenure_testkit::redis::Redis;

use self::{
    common::{block, median, report, runtime},
    suite::{handoff, held, hot, uncontended},
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
    const OPS: u32 = 50;
    let five = tenure_testkit::redis::five(&Default::default()).unwrap();
    let hosts: Vec<_> = five.iter().map(|server| server.addr().to_string()).collect();
    runtime().block_on(async {
        // New servers that keep nothing count once every lease of one that restarted would have ended.
        let url = format!("quorum+redis://{}?ttl=1s&max_ttl=1s&max_skew=0s", hosts.join(","));
        let quorum = tenure::connect(&url).await.unwrap();
        let (single, _) = open(&five[0].url()).await;
        let (quorum, single) = (quorum.mutex("q").unwrap(), single.mutex("s").unwrap());
        while quorum.try_acquire().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let (mut ours, mut one) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            one.push(block(OPS, async || single.acquire().await.unwrap().release().await.unwrap()).await);
            ours.push(block(OPS, async || quorum.acquire().await.unwrap().release().await.unwrap()).await);
        }
        let what = "quorum of five, uncontended acquire + release  /  one server";
        report(what, median(ours), median(one), "at most 1.6");
    });
}
