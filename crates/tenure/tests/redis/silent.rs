//! The server is busy with something else for a while, or falls silent between two answers.

use std::time::Instant;

use tenure::{ErrorKind, connect};
use tenure_testkit::{
    proxy::{Flow, Proxy, Way},
    redis::Redis,
};

use crate::bed::{client, empties, gets, millis, renewed_since, secs, server, waits, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_asleep_for_less_than_a_lease_is_not_noticed() {
    let redis = server(&["--enable-debug-command", "yes"]);
    let (ttl, url) = (secs(2), redis.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    // Longer than a renewal waits for its answer: the first one fails.
    redis.admin().unwrap().command(&["DEBUG", "SLEEP", "1"]).unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_once_and_no_more_does_not_keep_a_new_client_for_ever() {
    let proxy = Proxy::start(Redis::shared().unwrap().addr()).unwrap();
    proxy.delay(Way::Up, millis(500)).unwrap();
    let url = format!("redis://{}", proxy.addr());
    let connecting = tokio::spawn(async move { connect(&url).await });
    proxy.until("the first question is passed on", |counts| counts.up.forwarded > 0).await.unwrap();
    proxy.flow(Way::Up, Flow::Hold).unwrap();
    let err = within("the connection is given up", connecting).await.unwrap().unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
}
