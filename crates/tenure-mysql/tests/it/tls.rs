//! `tls=verify`: whom it trusts, and what it says of the others.

use tenure_core::{Engine, ErrorKind};
use tenure_testkit::{
    Failure, Result, ensure,
    mariadb::{MariaDb, MariaDbOptions},
    tls::certificates,
};

use crate::support::{exclusive, hold, let_go, open, refusal, says, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_checked() -> Result {
    let server = MariaDb::start(MariaDbOptions { tls: true, ..MariaDbOptions::default() })?;
    server.add_user("app", "hunter2")?;
    // Who says `tls=verify` and got a plain connection would be refused here.
    server.sql("GRANT ALL ON tenure.* TO app REQUIRE SSL")?;
    let files = certificates()?;
    let (ca, stranger, key) = (files.ca.display(), files.stranger.display(), files.key.display());
    let root = server.tls_url().ok_or_else(|| Failure::new("no TLS"))?;
    let url = root.replace("root@", "app:hunter2@");
    let engine = open(&format!("{url}?tls=verify&ca={ca}")).await?;
    let claim = exclusive("tls")?;
    hold(&engine, &claim).await?;
    let_go(&engine, &claim).await?;
    engine.examine().await?;
    ensure!(!format!("{engine:?}").contains("hunter2"), "a password: {engine:?}");
    // The certificate has this address too, and no other.
    open(&format!("{}?tls=verify&ca={ca}", url.replace("localhost", "127.0.0.1"))).await?;

    for (url, kind, text) in [
        (format!("{url}?tls=verify&ca={stranger}"), ErrorKind::Denied, "name its authority with `ca=`"),
        (format!("{url}?tls=verify"), ErrorKind::Denied, "name its authority with `ca=`"),
        (format!("{url}?tls=verify&ca={key}"), ErrorKind::Denied, "name its authority with `ca=`"),
        (format!("{url}?tls=verify&ca={ca}.not"), ErrorKind::Invalid, "cannot read"),
        (
            format!("{}?tls=verify&ca={ca}", url.replace("localhost", "[::ffff:127.0.0.1]")),
            ErrorKind::Denied,
            "is for another name",
        ),
        (format!("{url}?tls=off"), ErrorKind::Denied, "refused the user or the password"),
    ] {
        let err = refusal(&url).await?;
        says(&err, kind, text)?;
        ensure!(!format!("{err} {err:?}").contains("hunter2"), "a password: {err:?}");
    }
    Ok(())
}

/// Nothing is sent to a server that does not speak TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_gets_no_password() -> Result {
    let server = server(&["skip-ssl"])?;
    server.add_user("app", "hunter2")?;
    let url = format!("{}?tls=verify", server.url_of("app", "hunter2"));
    says(&refusal(&url).await?, ErrorKind::Denied, "offers no TLS")?;
    Ok(())
}
