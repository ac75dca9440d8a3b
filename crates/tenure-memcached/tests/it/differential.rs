//! Long random walks on memory and this engine side by side: every answer and every line must agree.

use std::time::Duration;

use tenure_testkit::{
    Result,
    memcached::Memcached,
    walks::{Pace, agree_with_memory_at},
};

use crate::support::open;

/// Eight walks of 300 verbs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_memcached_agree() -> Result {
    let url = Memcached::shared()?.url();
    let pace = Pace { short: Duration::from_secs(2), after: Duration::from_millis(1200), ..Pace::default() };
    agree_with_memory_at(pace, 8, 300, async || open(&url).await).await
}
