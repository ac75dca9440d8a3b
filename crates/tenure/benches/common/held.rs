//! What 10,000 held locks cost: memory for each, and the watchdog's share of a core.

use std::time::Duration;

use tenure::Guard;

use crate::{
    NAME, URL,
    common::{child as part, cpu_time, resident, runtime},
    open, server,
};

const LOCKS: usize = 10_000;
/// Two whole renewals of the default ttl.
const WATCHED: Duration = Duration::from_secs(10);

/// The bound is a share of a core.
const BOUND: &str = "TENURE_BENCH_BOUND";

pub(crate) fn measure(bound: &str) {
    let server = server();
    assert!(part("held").env(URL, server.url()).env(BOUND, bound).status().unwrap().success());
}

pub(crate) fn child() {
    runtime().block_on(async {
        let (client, _) = open(&std::env::var(URL).unwrap()).await;
        drop(client.mutex("warm").unwrap().acquire().await.unwrap());
        let before = resident();
        let mut guards: Vec<Guard> = Vec::with_capacity(LOCKS);
        for i in 0..LOCKS {
            guards.push(client.mutex(format!("held/{i}")).unwrap().acquire().await.unwrap());
        }
        let each = (resident() - before) / LOCKS;
        let cpu = cpu_time();
        tokio::time::sleep(WATCHED).await;
        let share = (cpu_time() - cpu).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
        assert!(guards.iter().all(|guard| !guard.is_lost()));
        println!(
            "{NAME}, 10,000 held locks: {each} bytes each (at most 1024), watchdog {share:.2} % of a core (under {})",
            std::env::var(BOUND).unwrap()
        );
    });
}
