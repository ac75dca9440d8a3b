//! `sslmode=`, and what is said when one end speaks TLS and the other does not.

use std::fs;

use tenure_core::{Engine, ErrorKind, Mode};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    postgres::{Postgres, PostgresOptions},
    tls::certificates,
};

use crate::support::{claim, hold, let_go, open, refusal};

/// How many connections of the engine there are, and how many of them are private.
fn connections(server: &Postgres) -> Result<String> {
    let rows = server.sql(
        "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) \
         WHERE application_name = 'tenure'",
    )?;
    Ok(rows.concat().join(" of which "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_must_be_who_it_should_be() -> Result {
    // The certificate is not for the second of these.
    let settings = vec!["listen_addresses=127.0.0.1,127.0.0.2".to_owned()];
    let server = Postgres::start(PostgresOptions { settings, tls: true, ..PostgresOptions::default() })?;
    let plain = crate::support::server(&[])?;
    let files = certificates()?;
    let (ca, stranger) = (files.ca.display(), files.stranger.display());
    let url = server.tls_url().ok_or_else(|| Failure::new("no TLS"))?;
    for mode in ["require", "verify-full"] {
        let engine = open(&format!("{url}?sslmode={mode}&ca={ca}")).await?;
        ensure_eq!(connections(&server)?, "2 of which 2", "connections with {mode}");
        let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
        hold(&engine, &first).await?;
        let seat = crate::support::queue(&engine, &next).await?;
        let_go(&engine, &first).await?;
        ensure_eq!(crate::support::turn(&engine, &next).await?, tenure_core::Turn::Holds(seat), "the push");
        let_go(&engine, &next).await?;
        engine.examine().await?;
        drop(engine);
        crate::support::within("it hangs up", async {
            while connections(&server)? != "0 of which 0" {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            Ok::<_, Failure>(())
        })
        .await??;

        let wrong_name = url.replace("localhost", "127.0.0.2");
        for (url, kind, text) in [
            (
                format!("{url}?sslmode={mode}&ca={stranger}"),
                ErrorKind::Denied,
                "name its authority with `ca=`",
            ),
            (format!("{url}?sslmode={mode}"), ErrorKind::Denied, "name its authority with `ca=`"),
            (format!("{wrong_name}?sslmode={mode}&ca={ca}"), ErrorKind::Denied, "127.0.0.2"),
            (format!("{url}?sslmode={mode}&ca={ca}.not"), ErrorKind::Invalid, "cannot read certificates"),
            (format!("{url}?sslmode={mode}&ca={}", files.key.display()), ErrorKind::Invalid, "there is none"),
            (format!("{}?sslmode={mode}&ca={ca}", plain.url()), ErrorKind::Unavailable, "does not speak TLS"),
        ] {
            let err = refusal(&url).await?;
            ensure!(err.kind() == kind && err.to_string().contains(text), "{url}: {err}");
            ensure!(!err.may_have_applied(), "{url}: {err}");
        }
    }
    Ok(())
}

/// A server that wants TLS refuses those without; a password shows nowhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_tls_has_it() -> Result {
    let server = Postgres::start(PostgresOptions { tls: true, ..PostgresOptions::default() })?;
    let mut admin = server.admin()?;
    server.add_user("anna", "hunter2")?;
    fs::write(
        server.process().dir().join("data/pg_hba.conf"),
        "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all postgres 127.0.0.1/32 trust\n",
    )?;
    admin.sql("SELECT pg_reload_conf(); GRANT CREATE ON SCHEMA public TO anna")?;
    let err = crate::support::within("plain connections are refused", async {
        loop {
            let err = refusal(&server.url_of("anna", "hunter2")).await?;
            if err.to_string().contains("no encryption") {
                return Ok::<_, Failure>(err);
            }
        }
    })
    .await??;
    ensure_eq!(err.kind(), ErrorKind::Denied, "{err}");
    ensure!(!format!("{err} {err:?}").contains("hunter2"), "the error shows the password");
    let ca = certificates()?.ca.display();
    let url = format!("{}?sslmode=verify-full&ca={ca}", server.url_of("anna", "hunter2"));
    let engine = open(&url).await?;
    let held = claim("k", Mode::Exclusive)?;
    hold(&engine, &held).await?;
    let_go(&engine, &held).await?;
    ensure!(!format!("{engine:?}").contains("hunter2"), "the engine shows the password");
    let err = refusal(&url.replace("hunter2", "hunter3")).await?;
    ensure_eq!(err.kind(), ErrorKind::Denied, "{err}");
    ensure!(!format!("{err} {err:?}").contains("hunter3"), "the error shows the password");
    Ok(())
}
