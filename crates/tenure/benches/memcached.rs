//! What locks on memcached cost, as ratios within one run: `cargo bench -p tenure --features memcached --bench memcached`.
//!
//! It starts a private server on loopback. What is compared takes turns with a bare `mg` on the same connection, medians
//! are taken, and the figure is the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

mod common;
#[path = "common/handoff.rs"]
mod handoff;
#[path = "common/held.rs"]
mod held;
#[path = "common/hot.rs"]
mod hot;
#[path = "memcached/rival.rs"]
mod rival;

use std::sync::Arc;

use tenure::{Client, Settings};
use tenure_memcached::{MemcachedEngine, MemcachedOptions};
use tenure_testkit::memcached::Memcached;

use self::common::{PART, block, median, report, run_wanted, runtime};

const NAME: &str = "memcached";
const COMPARED: &str = "mg";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    if let Some(part) = std::env::var_os(PART) {
        return match part.to_str() {
            Some("handoff") => handoff::child(),
            Some("held") => held::child(),
            Some(part) => hot::child(part),
            None => {}
        };
    }
    run_wanted(&[
        ("uncontended", uncontended),
        ("handoff", || handoff::measure("by polling, no bound")),
        ("hot-key", || hot::measure("no bound")),
        ("held", || held::measure("5")),
    ]);
}

fn server() -> Memcached {
    Memcached::start(tenure_testkit::memcached::MemcachedOptions::default()).unwrap()
}

/// A client, and what to compare with on the same connection.
async fn open(url: &str) -> (Client, Yardstick) {
    let mut url = url.parse().unwrap();
    let engine = MemcachedEngine::open(MemcachedOptions::from_url(&mut url).unwrap()).await.unwrap();
    (Client::new(engine.clone(), Settings::default()).unwrap(), Yardstick(engine))
}

struct Yardstick(Arc<MemcachedEngine>);

impl Yardstick {
    async fn once(&self) {
        self.0.ping().await.unwrap();
    }
}

fn uncontended() {
    const OPS: u32 = 100;
    let server = server();
    runtime().block_on(async {
        let (client, yardstick) = open(&server.url()).await;
        let mutex = client.mutex("k").unwrap();
        let (mut ours, mut pings) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            pings.push(block(OPS, async || yardstick.once().await).await);
            ours.push(block(OPS, async || mutex.acquire().await.unwrap().release().await.unwrap()).await);
        }
        report("memcached, uncontended acquire + release  /  mg", median(ours), median(pings), "at most 2.3");
    });
}
