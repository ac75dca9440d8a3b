//! Several clients at once, on one server and on three.

use std::sync::Arc;

use tenure_testkit::memcached::Memcached;

use crate::bed::{Ledger, client, contend, empties, route, secs, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_take_turns() {
    const ROUNDS: usize = 40;
    let url = Memcached::shared().unwrap().url();
    let ledger = Arc::new(Ledger::default());
    let mut workers = Vec::new();
    for _ in 0..4 {
        let (client, ledger) = (client(&url, secs(10)).await, ledger.clone());
        workers.push(tokio::spawn(async move { contend(&client, "turns", ROUNDS, &ledger).await }));
    }
    for worker in workers {
        within("all work is done", worker).await.unwrap();
    }
    ledger.check(4 * ROUNDS as u64);
    empties(&client(&url, secs(10)).await, "turns").await;
}

/// Connections are reset again and again, with verbs under way: no grant is doubled and none is forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_grant_is_doubled_while_connections_are_reset_again_and_again() {
    const ROUNDS: usize = 25;
    let (proxy, [broken, direct]) = route();
    let ledger = Arc::new(Ledger::default());
    let mut workers = Vec::new();
    for _ in 0..3 {
        let (client, ledger) = (client(&broken, secs(5)).await, ledger.clone());
        workers.push(tokio::spawn(async move { contend(&client, "resets", ROUNDS, &ledger).await }));
    }
    let all = 3 * ROUNDS as u64;
    for goal in (3..all).step_by(9) {
        let progress = async || if ledger.count() >= goal { Ok(()) } else { Err(format!("{ledger:?}")) };
        crate::bed::eventually("work goes on", secs(20), progress).await;
        proxy.reset().unwrap();
    }
    for worker in workers {
        within("all work is done", worker).await.unwrap();
    }
    ledger.check(all);
    empties(&client(&direct, secs(5)).await, "resets").await;
}
