//! What the tests stand on: that of Redis, with another server.

#[path = "../redis/bed.rs"]
#[allow(dead_code, reason = "what is about Redis is not for these tests")]
mod common;

use std::time::Duration;

use tenure::{Client, Settings};
use tenure_etcd::EtcdEngine;
use tenure_testkit::{etcd::Etcd, proxy::Proxy};

pub(crate) use self::common::{
    LIMIT, Ledger, contend, empties, eventually, gets, grows_to, millis, renewed_since, runs_down_to, secs,
    told, waits, within,
};

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    let server = Etcd::shared().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let broken = format!("etcd://{}", proxy.addr());
    (proxy, [broken, server.url()])
}

/// A client with a connection and a session of its own, as another process would have.
pub(crate) async fn client(url: &str, ttl: Duration) -> Client {
    let options = tenure_etcd::EtcdOptions::from_url(&mut url.parse().unwrap()).unwrap();
    let engine = EtcdEngine::open(options).await.unwrap();
    let mut settings = Settings::default();
    settings.ttl = ttl;
    Client::new(engine, settings).unwrap()
}
