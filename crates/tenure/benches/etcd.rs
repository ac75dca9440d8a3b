//! What locks in etcd cost, as ratios within one run: `cargo bench -p tenure --features etcd --bench etcd`.
//!
//! It starts private servers on loopback, with their data where temporary files are: they should be on a disk, so that
//! `fsync` costs what it does. What it is compared with is a plain write of one key, over a connection like that of the
//! engine and in turns with it; medians are taken, and the figure is the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

#[path = "common/block.rs"]
mod block;
mod common;
#[path = "common/heartbeat.rs"]
mod heartbeat;
#[path = "etcd/parts.rs"]
mod parts;
#[path = "etcd/rival.rs"]
mod rival;
#[path = "common/suite.rs"]
mod suite;
#[path = "common/verbs.rs"]
mod verbs;

use prost::Message;
use tenure::{Client, Settings};
use tenure_etcd::{EtcdClient, EtcdEngine};
use tenure_testkit::etcd::{Cluster, Etcd, EtcdOptions};

use self::suite::{handoff, held, hot, uncontended};

const NAME: &str = "etcd";
const COMPARED: &str = "durable write of a key";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    suite::run(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 200, 10, "at most 2.3")),
        ("three", || {
            let options = EtcdOptions { on_disk: true, ..EtcdOptions::default() };
            let cluster = Cluster::start_with(&options).unwrap();
            uncontended::measure(&cluster.url(), "etcd, three servers", 200, 10, "at most 2.3");
        }),
        ("handoff", || handoff::measure("at most 2")),
        ("hot-key", || hot::measure("at least 10 with nothing inside")),
        ("held", || held::measure("5")),
        ("heartbeat", heartbeat::measure),
        ("parts", parts::measure),
    ]);
}

fn server() -> Etcd {
    Etcd::start(EtcdOptions { on_disk: true, ..EtcdOptions::default() }).unwrap()
}

async fn engine(url: &str) -> std::sync::Arc<EtcdEngine> {
    let options = tenure_etcd::EtcdOptions::from_url(&mut url.parse().unwrap()).unwrap();
    EtcdEngine::open(options).await.unwrap()
}

/// A client, and what to compare with on a connection of its own.
async fn open(url: &str) -> (Client, Yardstick) {
    let yardstick = Yardstick::open(url).await;
    (Client::new(engine(url).await, Settings::default()).unwrap(), yardstick)
}

/// A key that is written to disk.
struct Yardstick(EtcdClient);

/// `etcdserverpb.PutRequest`
#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// An answer that nobody reads.
#[derive(Clone, Copy, PartialEq, Message)]
struct Done {}

impl Yardstick {
    async fn open(url: &str) -> Self {
        let options = tenure_etcd::EtcdOptions::from_url(&mut url.parse().unwrap()).unwrap();
        Self(EtcdClient::open(options).await.unwrap())
    }

    async fn once(&self) {
        let put = Put { key: b"compared".to_vec(), value: b"x".repeat(64) };
        let _: Done = self.0.call("etcdserverpb.KV/Put", &put).await.unwrap();
    }
}
