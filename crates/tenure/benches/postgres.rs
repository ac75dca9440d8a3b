//! What locks in PostgreSQL cost, as ratios within one run: `cargo bench -p tenure --features postgres --bench postgres`.
//!
//! It starts a private server on loopback, with its data where temporary files are: they should be on a disk, so that
//! `fsync` costs what it does. What it is compared with is one row that a prepared statement updates and the server
//! writes to disk, on a connection like those of the engine and in turns with it; medians are taken, and the figure is
//! the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

#[path = "common/block.rs"]
mod block;
mod common;
#[path = "postgres/parts.rs"]
mod parts;
#[path = "postgres/rival.rs"]
mod rival;
#[path = "common/suite.rs"]
mod suite;
#[path = "common/verbs.rs"]
mod verbs;

use tenure::{Client, Settings};
use tenure_postgres::PostgresEngine;
use tenure_testkit::postgres::{Postgres, PostgresOptions};
use tokio_postgres::{NoTls, Statement};

use self::suite::{handoff, held, hot, uncontended};

const NAME: &str = "postgres";
const COMPARED: &str = "durable update of a row";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    suite::run(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 500, 10, "at most 2.3")),
        ("in-memory", || {
            uncontended::measure(&start(false).url(), "postgres without a disk", 500, 10, "no bound")
        }),
        ("handoff", || handoff::measure("at most 3")),
        ("hot-key", || hot::measure("at least 10 with nothing inside")),
        ("held", || held::measure("10")),
        ("parts", parts::measure),
    ]);
}

fn server() -> Postgres {
    start(true)
}

fn start(on_disk: bool) -> Postgres {
    let server = Postgres::start(PostgresOptions { on_disk, ..PostgresOptions::default() }).unwrap();
    server
        .sql("CREATE TABLE compared (id int PRIMARY KEY, n bigint); INSERT INTO compared VALUES (1, 0)")
        .unwrap();
    server
}

/// A client, and what to compare with on a connection of its own.
async fn open(url: &str) -> (Client, Yardstick) {
    let yardstick = Yardstick::open(url).await;
    let options = tenure_postgres::PostgresOptions::from_url(&mut url.parse().unwrap()).unwrap();
    let engine = PostgresEngine::open(options).await.unwrap();
    (Client::new(engine, Settings::default()).unwrap(), yardstick)
}

/// A row that is updated and written to disk.
struct Yardstick {
    client: tokio_postgres::Client,
    update: Statement,
}

impl Yardstick {
    async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let update = client.prepare("UPDATE compared SET n = n + 1 WHERE id = 1").await.unwrap();
        Self { client, update }
    }

    async fn once(&self) {
        assert_eq!(self.client.execute(&self.update, &[]).await.unwrap(), 1);
    }
}
