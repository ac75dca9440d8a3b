//! The engines that need no server.

use crate::bed::{Meter, bill};

#[tokio::test]
async fn memory() {
    bill("memory:counts", Meter::Nobody).await.has_fewest_verbs();
}

#[tokio::test(flavor = "multi_thread")]
async fn file() {
    let dir = tempfile::tempdir().unwrap();
    // The engine makes its directory itself, for nobody else.
    let url = format!("file:{}", dir.path().join("locks").display());
    bill(&url, Meter::Nobody).await.has_fewest_verbs();
}
