//! `zookeepers:`, and what is said when one end speaks TLS and the other does not.

use tenure_core::{Engine, Mode};
use tenure_testkit::{
    Failure, Result, ensure,
    tls::certificates,
    zookeeper::{Zookeeper, ZookeeperOptions},
};

use crate::support::{claim, hold, let_go, open, refusal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_must_be_who_it_should_be() -> Result {
    let server = Zookeeper::start(&ZookeeperOptions { tls: true, ..ZookeeperOptions::default() })?;
    let files = certificates()?;
    let (ca, stranger) = (files.ca.display(), files.stranger.display());
    let url = server.tls_url().ok_or_else(|| Failure::new("no TLS"))?;
    let engine = open(&format!("{url}?ca={ca}")).await?;
    let held = claim("k", Mode::Exclusive)?;
    hold(&engine, &held).await?;
    let_go(&engine, &held).await?;
    engine.examine().await?;
    for url in [
        format!("{url}?ca={stranger}"),
        url.clone(),
        format!("{}?ca={ca}", server.url().replacen("zookeeper", "zookeepers", 1)),
    ] {
        let err = refusal(&url).await?;
        ensure!(!err.may_have_applied(), "{url}: {err}");
    }
    let err = refusal(&format!("{url}?ca={ca}.not")).await?;
    ensure!(err.to_string().contains("cannot read certificates"), "{err}");
    let plain = url.replacen("zookeepers", "zookeeper", 1);
    ensure!(
        !refusal(&plain).await?.may_have_applied(),
        "a server that speaks TLS was taken for one that does not"
    );
    Ok(())
}
