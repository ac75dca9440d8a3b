//! Who may create tables, who may use them, and what the others are told.

use std::sync::Arc;

use tenure_core::{Engine, ErrorKind};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{exclusive, hold, let_go, open, refusal, rows, says, server};

/// Many clients that come at once to a database without tables all find one engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_are_created_once() -> Result {
    let server = server(&[])?;
    let url = Arc::new(server.url());
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { open(&url).await })
        })
        .collect();
    let mut identities = Vec::new();
    for opening in opening {
        identities.push(opening.await.map_err(|err| Failure::new(err.to_string()))??.identity());
    }
    identities.sort();
    identities.dedup();
    ensure_eq!(identities.len(), 1, "identities");
    Ok(())
}

/// A user who may not create tables is told what to run, and can use them once somebody has run it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_user_uses_what_is_there() -> Result {
    let server = server(&[])?;
    server.add_user("app", "hunter2")?;
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.* TO app")?;
    let url = server.url_of("app", "hunter2");
    says(&refusal(&url).await?, ErrorKind::Denied, "tenure schema mysql")?;
    server.sql(&tenure_mysql::schema("tenure")?)?;
    let engine = open(&url).await?;
    let claim = exclusive("rights")?;
    hold(&engine, &claim).await?;
    let_go(&engine, &claim).await?;
    ensure_eq!(rows(&server)?.1, "0", "places");
    server.sql("CREATE TABLE grants_end (x INT); REVOKE UPDATE ON tenure.* FROM app")?;
    let engine = open(&url).await?;
    let err = engine.attempt(&exclusive("rights")?).await.err();
    says(err.as_ref().ok_or_else(|| Failure::new("it was granted"))?, ErrorKind::Denied, "UPDATE")?;
    ensure_eq!(rows(&server)?, ("0".to_owned(), "0".to_owned()), "lines and places");
    Ok(())
}

/// What cannot be opened says why, and never a password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_says_why() -> Result {
    let server = server(&[])?;
    server.add_user("app", "hunter2")?;
    let address = server.addr();
    for (url, kind, said) in [
        (server.url_of("app", "hunter3"), ErrorKind::Denied, "refused the user or the password"),
        (server.url_of("nobody", "hunter3"), ErrorKind::Denied, "refused the user or the password"),
        (format!("mysql://root@{address}/nowhere"), ErrorKind::Invalid, "no database"),
        ("mysql://root@127.0.0.1:1/tenure".to_owned(), ErrorKind::Unavailable, "cannot connect"),
    ] {
        let err = refusal(&url).await?;
        says(&err, kind, said)?;
        ensure!(!format!("{err} {err:?}").contains("hunter"), "a password: {err}");
    }
    open(&server.url()).await?;
    server.sql("ALTER TABLE tenure_lines DROP bell")?;
    says(&refusal(&server.url()).await?, ErrorKind::Invalid, "tables of another tenure")?;
    server.sql("ALTER TABLE tenure_lines ADD bell BINARY(16) NOT NULL")?;
    open(&server.url()).await?;
    server.sql("SET GLOBAL read_only = 1")?;
    says(&refusal(&server.url()).await?, ErrorKind::Unavailable, "read-only")?;
    Ok(())
}

/// A server that becomes read-only under an open engine refuses, plainly and without effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_become_read_only() -> Result {
    let server = server(&[])?;
    server.sql(&tenure_mysql::schema("tenure")?)?;
    server.add_user("app", "hunter2")?;
    server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tenure.* TO app")?;
    let engine = open(&server.url_of("app", "hunter2")).await?;
    server.sql("SET GLOBAL read_only = 1")?;
    for _ in 0..2 {
        let err = engine.attempt(&exclusive("read-only")?).await.err();
        says(
            err.as_ref().ok_or_else(|| Failure::new("it was granted"))?,
            ErrorKind::Unavailable,
            "read-only",
        )?;
    }
    server.sql("SET GLOBAL read_only = 0")?;
    let claim = exclusive("read-only")?;
    let _ = crate::support::again("it can be written again", async || engine.attempt(&claim).await).await?;
    Ok(())
}
