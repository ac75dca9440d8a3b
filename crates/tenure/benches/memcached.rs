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
#[path = "memcached/rival.rs"]
mod rival;
#[path = "common/suite.rs"]
mod suite;

use std::sync::Arc;

use tenure::{Client, Settings};
use tenure_memcached::{MemcachedEngine, MemcachedOptions};
use tenure_testkit::memcached::Memcached;

use self::suite::{handoff, held, hot, uncontended};

const NAME: &str = "memcached";
const COMPARED: &str = "mg";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    suite::run(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 200, 100, "at most 2.3")),
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
