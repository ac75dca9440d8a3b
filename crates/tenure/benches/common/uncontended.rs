//! A lock that nobody else wants, taken and given back, in turns with what the benchmark compares with.

use crate::{
    COMPARED,
    common::{block, median, report, runtime},
    open,
};

/// Rounds of so many locks each.
pub(crate) fn measure(url: &str, name: &str, rounds: usize, locks: u32, bound: &str) {
    runtime().block_on(async {
        let (client, yardstick) = open(url).await;
        let mutex = client.mutex("k").unwrap();
        let (mut ours, mut compared) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            compared.push(block(locks, async || yardstick.once().await).await);
            ours.push(block(locks, async || mutex.acquire().await.unwrap().release().await.unwrap()).await);
        }
        let what = format!("{name}, uncontended acquire + release  /  {COMPARED}");
        report(&what, median(ours), median(compared), bound);
    });
}
