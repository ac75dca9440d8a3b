//! What locks in ZooKeeper cost, as ratios within one run: `cargo bench -p tenure --features zookeeper --bench zookeeper`.
//!
//! It starts private servers on loopback, with their data where temporary files are: they should be on a disk, so that
//! `fsync` costs what it does. What it is compared with is a plain write of one node, over a connection like that of the
//! engine and in turns with it; medians are taken, and the figure is the ratio. The hot key beside other libraries' locks is
//! measured by `cargo xtask peers`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

mod common;
#[path = "common/handoff.rs"]
mod handoff;
#[path = "common/heartbeat.rs"]
mod heartbeat;
#[path = "common/held.rs"]
mod held;
#[path = "common/uncontended.rs"]
mod uncontended;

use tenure::{Client, fence::ZookeeperClient};
use tenure_testkit::zookeeper::{Ensemble, Zookeeper, ZookeeperOptions};
use tenure_zookeeper::Put;

use self::common::{PART, run_wanted};

const NAME: &str = "zookeeper";
const COMPARED: &str = "durable write of a node";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    if let Some(part) = std::env::var_os(PART) {
        return match part.to_str() {
            Some("handoff") => handoff::child(),
            _ => held::child(),
        };
    }
    run_wanted(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 200, 10, "at most 3.3")),
        ("three", || {
            let ensemble = Ensemble::start(&options()).unwrap();
            uncontended::measure(&ensemble.url(), "zookeeper, three servers", 200, 10, "at most 3.3");
        }),
        ("handoff", || handoff::measure("at most 2")),
        ("held", || held::measure("5")),
        ("heartbeat", heartbeat::measure),
    ]);
}

fn options() -> ZookeeperOptions {
    ZookeeperOptions { on_disk: true, ..ZookeeperOptions::default() }
}

fn server() -> Zookeeper {
    Zookeeper::start(&options()).unwrap()
}

/// A client, and what to compare with on a connection of its own.
async fn open(url: &str) -> (Client, Yardstick) {
    (tenure::connect(url).await.unwrap(), Yardstick::open(url).await)
}

/// A node that is written to disk.
struct Yardstick(ZookeeperClient);

impl Yardstick {
    const PATH: &str = "/compared";

    async fn open(url: &str) -> Self {
        let client = ZookeeperClient::connect(url).await.unwrap();
        // Whoever comes first makes it.
        client.put_unless_changed(&[Put { path: Self::PATH, data: b"", version: None }]).await.unwrap();
        Self(client)
    }

    async fn once(&self) {
        self.0.set(Self::PATH, &[b'x'; 64]).await.unwrap();
    }
}
