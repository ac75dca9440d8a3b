//! What locks in MySQL and MariaDB cost, as ratios within one run:
//! `cargo bench -p tenure --features mysql --bench mysql`.
//!
//! It starts a private MariaDB server on loopback, with its data where temporary files are: they should be on a disk, so
//! that a commit costs what it does. What it is compared with is one row that a prepared statement updates and the
//! server writes to disk, on a connection like those of the engine and in turns with it; medians are taken, and the
//! figure is the ratio.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

mod common;
#[path = "mysql/rival.rs"]
mod rival;
#[path = "common/suite.rs"]
mod suite;

use sqlx::{Connection, MySqlConnection};
use tenure::{Client, Settings};
use tenure_mysql::{MysqlEngine, MysqlOptions};
use tenure_testkit::mariadb::{MariaDb, MariaDbOptions};
use tokio::sync::Mutex;

use self::suite::{handoff, held, hot, uncontended};

const NAME: &str = "mysql";
const COMPARED: &str = "durable update of a row";
/// Where a child process finds the server.
const URL: &str = "TENURE_BENCH_URL";

fn main() {
    suite::run(&[
        ("uncontended", || uncontended::measure(&server().url(), NAME, 500, 10, "at most 2.3")),
        ("in-memory", || {
            uncontended::measure(&start(false).url(), "mysql without a disk", 500, 10, "no bound")
        }),
        ("handoff", || handoff::measure("at most 5")),
        ("hot-key", || hot::measure("at least 10 with nothing inside")),
        ("held", || held::measure("10")),
    ]);
}

fn server() -> MariaDb {
    start(true)
}

fn start(on_disk: bool) -> MariaDb {
    let server = MariaDb::start(MariaDbOptions { on_disk, ..MariaDbOptions::default() }).unwrap();
    server
        .sql(
            "CREATE TABLE compared (id int PRIMARY KEY, n bigint) ENGINE=InnoDB;
             INSERT INTO compared VALUES (1, 0)",
        )
        .unwrap();
    server
}

/// A client, and what to compare with on a connection of its own.
async fn open(url: &str) -> (Client, Yardstick) {
    let yardstick = Yardstick(Mutex::new(MySqlConnection::connect(url).await.unwrap()));
    let options = MysqlOptions::from_url(&mut url.parse().unwrap()).unwrap();
    let engine = MysqlEngine::open(options).await.unwrap();
    (Client::new(engine, Settings::default()).unwrap(), yardstick)
}

/// A row that is updated and written to disk.
struct Yardstick(Mutex<MySqlConnection>);

impl Yardstick {
    async fn once(&self) {
        let update = sqlx::query("UPDATE compared SET n = n + 1 WHERE id = 1");
        let done = update.execute(&mut *self.0.lock().await).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
    }
}
