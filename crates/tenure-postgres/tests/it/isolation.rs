//! What the database thinks a transaction is.

use std::{sync::Arc, time::Duration};

use tenure_core::{Attempt, Engine, Grade, Mode, Wake};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    pgbouncer::{PgBouncer, PgBouncerOptions},
    postgres::Postgres,
};

use crate::support::{claim, let_go, open, server, within};

/// Eight tasks on two clients take turns on one key, whatever the default isolation level; nobody fails, and there
/// is never a second holder. Directly and through a pooler, where a session keeps nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_default_level_works() -> Result {
    for level in ["repeatable read", "serializable"] {
        let server = server(&[&format!("default_transaction_isolation={level}")])?;
        let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions::default())?;
        for url in [server.url(), pooler.url()] {
            take_turns(&url).await.map_err(|err| Failure::new(format!("{level}, {url}: {err}")))?;
        }
    }
    Ok(())
}

async fn take_turns(url: &str) -> Result {
    let engines = [open(url).await?, open(url).await?];
    let inside = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (engine, inside) = (engines[task % 2].clone(), inside.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let claim = claim("turns", Mode::Exclusive)?;
                    while !matches!(engine.attempt(&claim).await?, Attempt::Granted(_)) {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    ensure_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "others inside");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    let_go(&engine, &claim).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in tasks {
        within("all took their turns", task).await?.map_err(|err| Failure::new(err.to_string()))??;
    }
    Ok(())
}

/// The functions refuse a snapshot that may be older than the lock: called so, they would see a line of the past.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_refuses_an_older_snapshot() -> Result {
    let server = Postgres::shared()?;
    open(&server.url()).await?;
    let release = "SELECT tenure_v1_release('k', md5('x')::uuid, 1000000, true)";
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let refused = server.sql(&format!("BEGIN ISOLATION LEVEL {level}; {release}; ROLLBACK"));
        let err = refused.err().ok_or_else(|| Failure::new("it was not refused"))?;
        ensure!(err.to_string().contains("read committed"), "{err}");
    }
    server.sql(&format!("BEGIN ISOLATION LEVEL READ COMMITTED; {release}; ROLLBACK"))?;
    Ok(())
}

/// A server that would acknowledge first and write later is made to write first; one that never flushes is graded so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_forgotten_decides_the_grade() -> Result {
    let lazy = server(&["synchronous_commit=off"])?;
    let engine = open(&lazy.url()).await?;
    ensure_eq!(engine.guarantees().grade, Grade::Fenced, "the grade with synchronous_commit=off");
    let facts = engine.examine().await?;
    ensure!(facts.iter().any(|fact| fact.text.contains("off, and on for locks")), "{facts:?}");
    let careless = server(&["fsync=off"])?;
    let engine = open(&careless.url()).await?;
    ensure_eq!(engine.guarantees().grade, Grade::Advisory, "the grade with fsync=off");
    ensure!(engine.examine().await?.iter().any(|fact| fact.name == "fsync" && fact.warns), "no warning");
    Ok(())
}

/// A pooler that lends connections for a session passes pushes on; one that lends them for a transaction does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_noticed() -> Result {
    let server = Postgres::shared()?;
    ensure_eq!(open(&server.url()).await?.guarantees().wake, Wake::Push, "directly");
    for (mode, size, wake) in
        [("session", 8, Wake::Push), ("transaction", 8, Wake::Poll), ("transaction", 1, Wake::Poll)]
    {
        let settings = vec![format!("pool_mode={mode}"), format!("default_pool_size={size}")];
        let pooler = PgBouncer::start(server.addr(), &PgBouncerOptions { settings })?;
        for _ in 0..5 {
            let engine = open(&pooler.url()).await?;
            ensure_eq!(engine.guarantees().wake, wake, "behind a pooler in {mode} mode, {size} connections");
        }
    }
    Ok(())
}
