//! What is sent to keep one lock, and to keep 10,000.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tenure::Guard;
use tenure_testkit::proxy::Proxy;

use crate::{NAME, common::runtime, open, server};

const LOCKS: usize = 10_000;
/// How often a lock with the default ttl is renewed.
const EVERY: Duration = Duration::from_secs(5);
/// So many whole renewals.
const RENEWALS: u32 = 4;

pub(crate) fn measure() {
    let one = bytes(1, 1);
    println!("{NAME}, kept for {:?}: {one} bytes sent for one lock", EVERY * RENEWALS);
    for (at_once, taken) in [(1, "one after the other"), (100, "a hundred at a time")] {
        let many = bytes(LOCKS, at_once);
        let ratio = many as f64 / one as f64;
        println!("    {many} for 10,000, taken {taken}: {ratio:.2} times (at most 1)");
    }
}

/// What is sent while so many locks are kept, which were taken so many at a time, from their third renewal on.
fn bytes(locks: usize, at_once: usize) -> u64 {
    let server = server();
    let proxy = Proxy::start(server.addr()).unwrap();
    runtime().block_on(async {
        let (client, _) = open(&format!("{NAME}://{}", proxy.addr())).await;
        let acquire = async |i| client.mutex(format!("held/{i}")).unwrap().acquire().await.unwrap();
        let began = Instant::now();
        let guards: Vec<Guard> =
            stream::iter(0..locks).map(acquire).buffer_unordered(at_once).collect().await;
        if locks > 1 {
            println!("    taken in {:.1} s", began.elapsed().as_secs_f64());
        }
        let sent = || proxy.counts().up.forwarded;
        tokio::time::sleep(EVERY * 2).await;
        // From a little after a beat to a little after another, so that none is counted or not by chance.
        let silent = sent();
        while sent() == silent {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(EVERY / 5).await;
        let before = sent();
        tokio::time::sleep(EVERY * RENEWALS).await;
        assert!(guards.iter().all(|guard| !guard.is_lost()));
        sent() - before
    })
}
