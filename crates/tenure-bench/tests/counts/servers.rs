//! The engines with a server, by verbs and round trips, and what some of the servers say themselves.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use tenure_testkit::{
    etcd::Etcd,
    mariadb::MariaDb,
    memcached::Memcached,
    postgres::{Postgres, PostgresOptions},
    redis::Redis,
    zookeeper::Zookeeper,
};

use crate::bed::{Meter, bill, bill_of_watches};

fn count(meter: impl Fn() -> u64 + Send + Sync + 'static) -> Meter {
    Meter::Server(Arc::new(meter))
}

#[tokio::test(flavor = "multi_thread")]
async fn redis() {
    let server = Redis::shared().unwrap();
    bill(&server.url(), Meter::Wire(server.addr())).await.has_fewest_verbs().is_at_most([1, 1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_as_the_server_counts_commands() {
    let server = Redis::start(Default::default()).unwrap();
    let url = server.url();
    // What scripts call is counted like what clients send.
    let commands = move || {
        let stats = server.command(&["INFO", "commandstats"]).unwrap();
        let lines = stats.text().unwrap().lines().filter(|line| !line.starts_with("cmdstat_info:"));
        let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
        lines.filter_map(calls).sum()
    };
    bill(&url, count(commands)).await.has_fewest_verbs().is_at_most([6, 4, 302, 17]);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres() {
    let server = Postgres::shared().unwrap();
    bill(&server.url(), Meter::Wire(server.addr())).await.has_fewest_verbs().is_at_most([1, 1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_as_the_server_counts_statements() {
    let settings = vec!["shared_preload_libraries=pg_stat_statements".to_owned()];
    let server = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();
    let session = Mutex::new(server.admin().unwrap());
    session.lock().unwrap().sql("CREATE EXTENSION pg_stat_statements").unwrap();
    let statements = move || {
        let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'";
        session.lock().unwrap().sql(calls).unwrap()[0][0].parse().unwrap()
    };
    bill(&server.url(), count(statements)).await.has_fewest_verbs().is_at_most([1, 1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql() {
    let server = MariaDb::shared().unwrap();
    bill(&server.url(), Meter::Wire(server.addr())).await.has_fewest_verbs().is_at_most([1, 1, 1, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mysql_as_the_server_counts_statements() {
    let server = MariaDb::start(Default::default()).unwrap();
    let session = Mutex::new((server.admin().unwrap(), 0));
    let statements = move || {
        let (session, asked) = &mut *session.lock().unwrap();
        let questions =
            session.sql("SHOW GLOBAL STATUS LIKE 'Questions'").unwrap()[0][1].parse::<u64>().unwrap();
        // Each look is one itself.
        *asked += 1;
        questions - *asked
    };
    bill(&server.url(), count(statements)).await.has_fewest_verbs().is_at_most([1, 1, 12, 35]);
}

/// By the calls that the server took: HTTP/2 has a life of its own beside them.
#[tokio::test(flavor = "multi_thread")]
async fn etcd() {
    let server = Etcd::shared().unwrap();
    let addr = server.addr();
    // A batch is one message for each lease that keeps the places; whoever waits sets a watch.
    let bill = bill_of_watches(&server.url(), count(move || calls(addr)), 2).await;
    bill.has_fewest_verbs().is_at_most([1, 1, 2, 3]);
}

fn calls(addr: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let received = answer.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    received.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// Whoever waits sets a watch once it stands in the line.
#[tokio::test(flavor = "multi_thread")]
async fn zookeeper() {
    let server = Zookeeper::shared().unwrap();
    let bill = bill_of_watches(&server.url(), Meter::Wire(server.addr()), 2).await;
    bill.has_fewest_verbs().is_at_most([1, 1, 1, 3]);
}

/// memcached tells nobody anything: how often whoever waits asks, depends on how long it has to.
#[tokio::test(flavor = "multi_thread")]
async fn memcached() {
    let server = Memcached::shared().unwrap();
    let bill = bill(&server.url(), Meter::Wire(server.addr())).await;
    bill.has_fewest_verbs_of_one().is_at_most([1, 1, 1, u64::MAX]);
}
