//! Which server is asked, and when another is.

use std::time::{Duration, Instant};

use tenure_core::{Engine, ErrorKind};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    etcd::{Cluster, Etcd, EtcdOptions},
    process::Port,
    proxy::{Flow, Proxy},
};

use crate::support::{claim, eventually, hold, let_go, open, refusal, renewed, says};

/// Servers that are down, or that take connections and say nothing, are passed over quickly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_do_not_answer_are_passed_over() -> Result {
    let server = Etcd::shared()?;
    let down = Port::claim()?;
    let silent = Proxy::start(server.addr())?;
    silent.flow_both(Flow::Stall)?;
    let began = Instant::now();
    let url = format!("etcd://{},{},{}?ns=links", down.addr(), silent.addr(), server.addr());
    let engine = open(&url).await?;
    ensure!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    let claim = claim("k")?;
    hold(&engine, &claim).await?;
    let_go(&engine, &claim).await?;
    says(&refusal(&format!("etcd://{}", down.addr())).await?, ErrorKind::Unavailable, "cannot connect")?;
    says(&refusal(&format!("etcd://{}", silent.addr())).await?, ErrorKind::Unavailable, "failed")
}

/// A frozen server is noticed by a ping that it does not answer, long before any lease ends, and another is asked;
/// though renewals are given up earlier than that takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_noticed_and_another_is_asked() -> Result {
    let cluster = Cluster::start()?;
    let leader = cluster.leader()?;
    let engine = open(&cluster.url_from((leader + 1) % 3)).await?;
    let claim = claim("k")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    // Its leader stays, so nothing but the connection is in the way.
    cluster.nodes()[(leader + 1) % 3].pause()?;
    let frozen = Instant::now();
    eventually("the hold is renewed", async || {
        let renewal = tokio::time::timeout(Duration::from_millis(200), renewed(&engine, &claim, seq)).await;
        Ok(matches!(renewal, Ok(Ok(true))))
    })
    .await?;
    let took = frozen.elapsed();
    ensure!(took < Duration::from_secs(3), "it took {took:?}");
    ensure!(took > Duration::from_millis(500), "it was given up after {took:?} already");
    let_go(&engine, &claim).await
}

/// A connection that nobody uses for a while is left alone by both ends, also if the client waits all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_is_not_given_up_and_does_not_give_up_its_client() -> Result {
    let proxy = Proxy::start(Etcd::shared()?.addr())?;
    let engine = open(&format!("etcd://{}?ns=slow", proxy.addr())).await?;
    let claim = claim("k")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    // Slow enough to be asked whether it is there each time, and asked often.
    proxy.delay(tenure_testkit::proxy::Way::Up, Duration::from_millis(450))?;
    for _ in 0..8 {
        ensure!(renewed(&engine, &claim, seq).await?, "the hold is lost");
    }
    ensure_eq!(proxy.counts().connections, 1, "connections");
    proxy.heal()?;
    let_go(&engine, &claim).await
}

/// A server that is started again forgets who its clients said they are; they say it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_says_again_who_it_is() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    server.admin().secure("secret")?;
    let engine = open(&format!("etcd://root:secret@{}", server.addr())).await?;
    let claim = claim("k")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    // Through a new connection with the old word the server would say no for ever.
    server.kill()?;
    server.restart()?;
    eventually("the hold is renewed", async || {
        match engine.renew(&[tenure_core::Held { claim: &claim, seq }]).await {
            Ok(answers) => Ok(matches!(answers[..], [tenure_core::Renewal::Renewed(_)])),
            Err(err) if err.is_retryable() => Ok(false),
            Err(err) => Err(err.into()),
        }
    })
    .await?;
    let_go(&engine, &claim).await
}
