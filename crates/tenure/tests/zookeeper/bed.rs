//! What the tests stand on: that of Redis, with another server.

#[path = "../redis/bed.rs"]
#[allow(dead_code, reason = "what is about Redis is not for these tests")]
mod common;

use tenure::{Client, Guard};
use tenure_testkit::{
    proxy::Proxy,
    zookeeper::{Zookeeper, ZookeeperOptions},
};
use tokio::task::JoinHandle;

pub(crate) use self::common::{
    client, empties, eventually, gets, line, millis, renewed_since, runs_down_to, secs, told, waits, within,
};

/// A server of the test's own, to be broken.
pub(crate) fn server(_: &[&str]) -> Zookeeper {
    Zookeeper::start(&ZookeeperOptions::default()).unwrap()
}

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    way_to(Zookeeper::shared().unwrap())
}

/// The same to this server.
pub(crate) fn way_to(server: &Zookeeper) -> (Proxy, [String; 2]) {
    let proxy = Proxy::start(server.addr()).unwrap();
    let broken = format!("zookeeper://{}/tenure", proxy.addr());
    (proxy, [broken, server.url()])
}

/// Waits for the lock that another client holds, and sees to it that the other does not believe in it any more at the moment
/// at which this one has it.
pub(crate) async fn rival(client: &Client, key: &str, held: &Guard) -> JoinHandle<Guard> {
    let witness = held.witness();
    let waiting = waits(client, key).await;
    tokio::spawn(async move {
        let guard = gets(waiting).await;
        // By a look at the clock, at the very moment at which the other one has it.
        assert!(witness.check().is_err(), "two hold the lock");
        guard
    })
}
