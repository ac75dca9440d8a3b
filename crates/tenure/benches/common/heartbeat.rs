//! What is sent to keep one lock, and to keep 10,000.

use std::time::Duration;

use tenure::Guard;
use tenure_testkit::proxy::Proxy;

use crate::{NAME, common::runtime, open, server};

const LOCKS: usize = 10_000;
/// Two whole renewals of the default ttl.
const WATCHED: Duration = Duration::from_secs(10);

pub(crate) fn measure() {
    let (one, many) = (bytes(1), bytes(LOCKS));
    println!(
        "{NAME}, kept for {WATCHED:?}: {one} bytes sent for one lock, {many} for 10,000: {:.2} times (at most 1)",
        many as f64 / one as f64
    );
}

fn bytes(locks: usize) -> u64 {
    let server = server();
    let proxy = Proxy::start(server.addr()).unwrap();
    runtime().block_on(async {
        let (client, _) = open(&format!("{NAME}://{}", proxy.addr())).await;
        let mut guards: Vec<Guard> = Vec::new();
        for i in 0..locks {
            guards.push(client.mutex(format!("held/{i}")).unwrap().acquire().await.unwrap());
        }
        let before = proxy.counts().up.forwarded;
        tokio::time::sleep(WATCHED).await;
        assert!(guards.iter().all(|guard| !guard.is_lost()));
        proxy.counts().up.forwarded - before
    })
}
