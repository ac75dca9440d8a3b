//! Long random walks on memory and this engine side by side: every answer and every line must agree.

use tenure_testkit::{Result, etcd::Etcd, walks::agree_with_memory};

use crate::support::open;

/// Eight walks of 200 verbs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_etcd_agree() -> Result {
    let url = format!("{}?ns=walks", Etcd::shared()?.url());
    agree_with_memory(8, 200, async || open(&url).await).await
}
