//! Who creates the tables, and what becomes of those who may not.

use tenure_core::{Engine, ErrorKind, Mode};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{claim, hold, let_go, open, refusal, rows, says, server};

/// Eight clients that find nothing there all open, on the same tables, and with the same identity.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_at_once_create_the_tables_once() -> Result {
    let server = server(&[])?;
    for schema in ["public", "locks"] {
        let url = format!("{}?schema={schema}", server.url());
        let openings: Vec<_> = (0..8)
            .map(|_| {
                tokio::spawn({
                    let url = url.clone();
                    async move { open(&url).await }
                })
            })
            .collect();
        let mut identities = Vec::new();
        for opening in openings {
            let engine = opening.await.map_err(|err| Failure::new(err.to_string()))??;
            identities.push(engine.identity());
        }
        identities.dedup();
        ensure_eq!(identities.len(), 1, "identities of one store");
    }
    let tables = server.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'tenure_places'")?;
    ensure_eq!(tables, vec![vec!["2".to_owned()]], "tables of places");
    Ok(())
}

/// A user who may not create anything is told what to run; when that was run, with the rights it lists, all works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_user_works_once_the_tables_are_there() -> Result {
    let server = server(&[])?;
    server.add_user("anna", "secret")?;
    let url = server.url_of("anna", "secret");
    let err = refusal(&url).await?;
    says(&err, ErrorKind::Denied, "`tenure schema postgres`")?;
    ensure!(!format!("{err} {err:?}").contains("secret"), "the error shows the password: {err:?}");

    let migration = tenure_postgres::schema(&tenure_postgres::PostgresOptions::default());
    server.sql(&migration)?;
    says(&refusal(&url).await?, ErrorKind::Denied, "rights")?;
    for grant in migration.lines().filter_map(|line| line.strip_prefix("--   GRANT")) {
        server.sql(&format!("GRANT{}", grant.replace("someone", "anna")))?;
    }
    let engine = open(&url).await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let one = hold(&engine, &first).await?;
    let_go(&engine, &first).await?;
    ensure!(hold(&engine, &next).await?.seat.seq > one.seat.seq, "numbers that grow");
    let_go(&engine, &next).await?;
    ensure_eq!(rows(&server)?, 0, "rows afterwards");
    Ok(())
}

/// What a person runs twice changes nothing, and takes nothing from those who hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_migration_can_be_run_again() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    let seat = hold(&engine, &first).await?.seat;
    server.sql(&tenure_postgres::schema(&tenure_postgres::PostgresOptions::default()))?;
    let again = open(&server.url()).await?;
    ensure_eq!(again.identity(), engine.identity(), "the identity");
    ensure_eq!(hold(&engine, &first).await?.seat, seat, "the seat");
    Ok(())
}

/// What is wrong with the URL or the server is said when it is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_at_once() -> Result {
    let server = server(&[])?;
    server.add_user("anna", "secret")?;
    says(&refusal(&server.url_of("anna", "wrong")).await?, ErrorKind::Denied, "password")?;
    let other = server.url().replace("/tenure", "/nowhere");
    says(&refusal(&other).await?, ErrorKind::Invalid, "no such database")?;
    server.sql("ALTER DATABASE tenure SET default_transaction_read_only = on")?;
    says(&refusal(&server.url()).await?, ErrorKind::Unavailable, "read-only")?;
    server.kill()?;
    let err = refusal(&server.url()).await?;
    ensure_eq!(err.kind(), ErrorKind::Unavailable, "a server that is not there");
    Ok(())
}
