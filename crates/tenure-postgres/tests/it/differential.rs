//! Long random walks on memory and this engine side by side: every answer and every line must agree.

use tenure_testkit::{Result, postgres::Postgres, walks::agree_with_memory};

use crate::support::open;

/// Eight walks of 400 verbs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_postgres_agree() -> Result {
    let url = Postgres::shared()?.url();
    agree_with_memory(8, 400, async || open(&url).await).await
}
