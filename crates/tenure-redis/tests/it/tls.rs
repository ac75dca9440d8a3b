//! `rediss:`, and what is said when one end speaks TLS and the other does not.

use tenure_core::{Engine, ErrorKind};
use tenure_testkit::{
    Failure, Result, ensure,
    redis::{Redis, RedisOptions, certificates},
};

use crate::support::{claim, hold, let_go, open, refusal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_checked_both_ways() -> Result {
    let server = Redis::start(RedisOptions { tls: true, ..RedisOptions::default() })?;
    let files = certificates()?;
    let (ca, stranger) = (files.ca.display(), files.stranger.display());
    let url = server.tls_url().ok_or_else(|| Failure::new("no TLS"))?;
    let engine = open(&format!("{url}?ca={ca}")).await?;
    let claim = claim("k", tenure_core::Mode::Exclusive)?;
    hold(&engine, &claim).await?;
    let_go(&engine, &claim).await?;
    engine.examine().await?;
    let (cert, key) = (files.cert.display(), files.key.display());
    open(&format!("{url}?ca={ca}&cert={cert}&key={key}")).await?;

    for (url, kind, text) in [
        (format!("{url}?ca={stranger}"), ErrorKind::Denied, "name its authority with `ca=`"),
        (url.clone(), ErrorKind::Denied, "name its authority with `ca=`"),
        (format!("{url}?ca={}.not", ca), ErrorKind::Invalid, "cannot read"),
        (format!("{url}?ca={}", files.key.display()), ErrorKind::Denied, "name its authority"),
        (format!("rediss://localhost:{}?ca={ca}", server.port()), ErrorKind::Unavailable, "rediss:"),
        (
            server.tls_addr().map(|at| format!("redis://{at}")).unwrap_or_default(),
            ErrorKind::Unavailable,
            "TLS",
        ),
    ] {
        let err = refusal(&url).await?;
        ensure!(err.kind() == kind && err.to_string().contains(text), "{url}: {err}");
    }
    Ok(())
}
