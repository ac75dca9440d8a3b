//! What the tests stand on: that of Redis, with another server.

#[path = "../redis/bed.rs"]
#[allow(dead_code, reason = "what is about Redis is not for these tests")]
mod common;

use std::{net::SocketAddr, time::Duration};

use tenure::{Client, Settings};
use tenure_mysql::{MysqlEngine, MysqlOptions};
use tenure_testkit::{
    mariadb::{DATABASE, MariaDb, MariaDbOptions},
    proxy::Proxy,
};

pub(crate) use self::common::{
    LIMIT, Work, empties, eventually, gets, line, millis, renewed_since, runs_down_to, secs, told, waits,
    within,
};

/// A server of the test's own, to be broken.
pub(crate) fn server(settings: &[&str]) -> MariaDb {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    MariaDb::start(MariaDbOptions { settings, ..MariaDbOptions::default() }).unwrap()
}

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    let server = MariaDb::shared().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let broken = url_at(proxy.addr());
    (proxy, [broken, server.url()])
}

/// What a client opens to reach a server at another address.
pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("mysql://root@{address}/{DATABASE}")
}

/// A client with connections of its own, as another process would have.
pub(crate) async fn client(url: &str, ttl: Duration) -> Client {
    let options = MysqlOptions::from_url(&mut url.parse().unwrap()).unwrap();
    let engine = MysqlEngine::open(options).await.unwrap();
    let mut settings = Settings::default();
    settings.ttl = ttl;
    Client::new(engine, settings).unwrap()
}

/// Ends all sessions but the one that does.
pub(crate) fn kill_all(server: &MariaDb) {
    let mut admin = server.admin().unwrap();
    let ids = "SELECT id FROM information_schema.PROCESSLIST
               WHERE id <> CONNECTION_ID() AND user = 'root' AND db = 'tenure'";
    for row in admin.sql(ids).unwrap() {
        // It may have ended by itself.
        let _ = admin.sql(&format!("KILL {}", row[0]));
    }
}

/// How many sessions wait for a doorbell.
pub(crate) fn listening(server: &MariaDb) -> usize {
    let rows =
        server.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User lock'").unwrap();
    rows[0][0].parse().unwrap()
}

/// Waits until somebody does.
pub(crate) async fn listens(server: &MariaDb) {
    let heard = async || if listening(server) > 0 { Ok(()) } else { Err("nobody listens".to_owned()) };
    eventually("the waiter listens", LIMIT, heard).await;
}

/// The first value that is selected.
pub(crate) fn value(server: &MariaDb, sql: &str) -> String {
    server.sql(sql).unwrap().concat().concat()
}
