//! Long random walks on memory and this engine side by side: every answer and every line must agree.

use tenure_testkit::{Result, mariadb::MariaDb, walks::agree_with_memory};

use crate::support::open;

/// Four walks of 1,500 verbs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_mysql_agree() -> Result {
    let url = MariaDb::shared()?.url();
    agree_with_memory(4, 1_500, async || open(&url).await).await
}
