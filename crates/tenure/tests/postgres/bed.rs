//! What the tests stand on: that of Redis, with another server.

#[path = "../redis/bed.rs"]
#[allow(dead_code, reason = "what is about Redis is not for these tests")]
mod common;

use std::time::Duration;

use tenure::{Client, Settings};
use tenure_postgres::PostgresEngine;
use tenure_testkit::{
    postgres::{Postgres, PostgresOptions},
    proxy::Proxy,
};

pub(crate) use self::common::{
    LIMIT, Work, empties, eventually, gets, line, millis, renewed_since, runs_down_to, secs, told, waits,
    within,
};

/// A server of the test's own, to be broken.
pub(crate) fn server(settings: &[&str]) -> Postgres {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }).unwrap()
}

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    way_to(Postgres::shared().unwrap())
}

/// The same to this server.
pub(crate) fn way_to(server: &Postgres) -> (Proxy, [String; 2]) {
    let proxy = Proxy::start(server.addr()).unwrap();
    let broken = server.url().replace(&server.addr().to_string(), &proxy.addr().to_string());
    (proxy, [broken, server.url()])
}

/// A client with connections of its own, as another process would have.
pub(crate) async fn client(url: &str, ttl: Duration) -> Client {
    let options = tenure_postgres::PostgresOptions::from_url(&mut url.parse().unwrap()).unwrap();
    let engine = PostgresEngine::open(options).await.unwrap();
    let mut settings = Settings::default();
    settings.ttl = ttl;
    Client::new(engine, settings).unwrap()
}

/// Ends all sessions of clients.
pub(crate) fn kill_all(server: &Postgres) {
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure'";
    server.sql(kill).unwrap();
}

/// Waits until who waits is also told of its turn: here it listens before it asks.
pub(crate) async fn listens(_: &Postgres) {}

/// The first value that is selected.
pub(crate) fn value(server: &Postgres, sql: &str) -> String {
    server.sql(sql).unwrap().concat().concat()
}
