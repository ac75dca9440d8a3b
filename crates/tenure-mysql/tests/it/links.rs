//! Connections that end, and those that only seem alive.

use tenure_core::{Engine, Renewal};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    proxy::{Proxy, Side},
};

use crate::support::{again, exclusive, hold, let_go, line, open, renew, server, wait, within};

/// Killed connections cost an error at most, and no hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_are_made_again() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let claim = exclusive("killed")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    for _ in 0..3 {
        let ids = server.sql("SELECT id FROM information_schema.PROCESSLIST WHERE command = 'Sleep'")?;
        ensure!(ids.len() >= 2, "{} connections", ids.len());
        let kill: String = ids.iter().map(|row| format!("KILL CONNECTION {};", row[0])).collect();
        server.sql(&kill)?;
        let renewed = again("it is renewed", async || renew(&engine, &claim, seq).await).await?;
        ensure_eq!(renewed, Renewal::Renewed(Some(claim.ttl.get())), "the renewal");
        let other = exclusive("killed")?;
        let _ = again("the other waits", async || engine.attempt(&other).await).await?;
        ensure_eq!(line(&engine, "killed").await?.len(), 2, "places");
        let_go(&engine, &other).await?;
    }
    let_go(&engine, &claim).await
}

/// A server that ends idle sessions after a second does not end ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_stay() -> Result {
    let server = server(&["wait_timeout=1", "interactive_timeout=1"])?;
    let engine = open(&server.url()).await?;
    let claim = exclusive("idle")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    let mut other = server.admin()?;
    // One that is not ours shows that the time has passed.
    let gone = async {
        while other.sql("DO 0").is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        }
    };
    within("an idle session ends", gone).await?;
    ensure_eq!(renew(&engine, &claim, seq).await?, Renewal::Renewed(Some(claim.ttl.get())), "the renewal");
    let_go(&engine, &claim).await
}

/// A server that has become unreachable without a word is noticed by its silence, and a new connection made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_given_up() -> Result {
    let server = server(&[])?;
    let proxy = Proxy::start(server.addr())?;
    let url = format!("mysql://root@{}/tenure", proxy.addr());
    let engine = open(&url).await?;
    let claim = exclusive("silent")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    proxy.half_open(Side::Server)?;
    let short = std::time::Duration::from_millis(300);
    let (late, other) = (exclusive("silent")?, exclusive("silent")?);
    ensure!(
        tokio::time::timeout(short, engine.attempt(&late)).await.is_err(),
        "an answer through a dead route"
    );
    ensure!(tokio::time::timeout(short, renew(&engine, &claim, seq)).await.is_err(), "an answer through it");
    let renewed = again("it is renewed", async || renew(&engine, &claim, seq).await).await?;
    ensure_eq!(renewed, Renewal::Renewed(Some(claim.ttl.get())), "the renewal");
    let _ = again("the other waits", async || engine.attempt(&other).await).await?;
    // The attempt that was given up may have come through.
    let _ = engine.release(&late, tenure_core::Answered::InDoubt).await?;
    ensure_eq!(line(&engine, "silent").await?.len(), 2, "places");
    let_go(&engine, &claim).await?;
    hold(&engine, &other).await?;
    let err = engine.attempt(&late).await.err().ok_or_else(|| Failure::new("a released claim came back"))?;
    ensure_eq!(err.kind(), tenure_core::ErrorKind::Lost, "{err}");
    let third = exclusive("silent")?;
    wait(&engine, &third).await?;
    Ok(())
}

/// Verbs that were given up leave no answer behind for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_verbs_do_not_mix_up_answers() -> Result {
    let server = tenure_testkit::mariadb::MariaDb::shared()?;
    let engine = open(&server.url()).await?;
    for number in 0..200u64 {
        let (doomed, claim) =
            (exclusive(&format!("mixed/{number}/a"))?, exclusive(&format!("mixed/{number}/b"))?);
        let wait = std::time::Duration::from_micros(number * 10);
        let _ = tokio::time::timeout(wait, engine.attempt(&doomed)).await;
        let grant = hold(&engine, &claim).await?;
        let shown = line(&engine, claim.key.as_str()).await?;
        ensure_eq!(shown.iter().map(|place| place.seq).collect::<Vec<_>>(), [grant.seat.seq], "the line");
        let _ = engine.release(&doomed, tenure_core::Answered::InDoubt).await?;
        ensure_eq!(line(&engine, doomed.key.as_str()).await?.len(), 0, "what the cancelled one left");
        let_go(&engine, &claim).await?;
    }
    Ok(())
}

/// What is sent once is one trip; what is sent again and again is prepared, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_used_again_is_prepared() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let mut prepared = Vec::new();
    for _ in 0..5 {
        let claim = exclusive("again")?;
        hold(&engine, &claim).await?;
        let_go(&engine, &claim).await?;
        prepared.push(server.sql("SHOW GLOBAL STATUS LIKE 'Com_stmt_prepare'")?[0][1].clone());
    }
    // The second release, and the third attempt: the first one was for a key without a row.
    ensure_eq!(prepared, ["0", "1", "2", "2", "2"], "statements that were prepared by then");
    Ok(())
}
