//! Long random walks on memory and this engine side by side: every answer and every line must agree.

use tenure_testkit::{Result, redis::Redis, walks::agree_with_memory};

use crate::support::open;

/// Eight walks of 2,500 verbs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_redis_agree() -> Result {
    let url = Redis::shared()?.url();
    agree_with_memory(8, 2_500, async || open(&url).await).await
}
