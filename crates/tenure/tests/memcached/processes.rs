//! Several clients at once, on one server and on three.

use futures_util::future::join_all;
use tenure_testkit::memcached::Memcached;

use crate::bed::{Work, client, empties, route, secs};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_take_turns() {
    const ROUNDS: usize = 40;
    let url = Memcached::shared().unwrap().url();
    let clients = join_all((0..4).map(|_| client(&url, secs(10)))).await;
    Work::start(clients, "turns", ROUNDS).done().await;
    empties(&client(&url, secs(10)).await, "turns").await;
}

/// Connections are reset again and again, with verbs under way: no grant is doubled and none is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_grant_is_doubled_while_connections_are_reset_again_and_again() {
    const ROUNDS: usize = 25;
    let (proxy, [broken, direct]) = route();
    let clients = join_all((0..3).map(|_| client(&broken, secs(5)))).await;
    let work = Work::start(clients, "resets", ROUNDS);
    work.disturbed(9, || proxy.reset().unwrap()).await;
    work.done().await;
    empties(&client(&direct, secs(5)).await, "resets").await;
}
