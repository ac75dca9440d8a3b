//! The server goes away and comes back.

use tenure_core::{Answered, Engine, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

use crate::support::{again, exclusive, hold, let_go, line, open, renew, server};

/// A restart and a crash forget nothing: who held holds, who waited waits, and the next number is larger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_remembers() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let (holder, waiter) = (exclusive("life")?, exclusive("life")?);
    let first = hold(&engine, &holder).await?.seat;
    let second = crate::support::wait(&engine, &waiter).await?.seat.ok_or_else(|| Failure::new("no seat"))?;
    for kill in [true, false] {
        if kill {
            server.kill()?
        } else {
            server.terminate()?
        }
        let err =
            engine.attempt(&waiter).await.err().ok_or_else(|| Failure::new("a dead server answered"))?;
        ensure_eq!(err.kind(), tenure_core::ErrorKind::Unavailable, "{err}");
        let err =
            engine.attempt(&waiter).await.err().ok_or_else(|| Failure::new("a dead server answered"))?;
        ensure!(!err.may_have_applied(), "nothing was sent, but {err:?}");
        server.restart()?;
        let renewed = again("it is renewed", async || renew(&engine, &holder, first.seq).await).await?;
        ensure_eq!(renewed, Renewal::Renewed(Some(holder.ttl.get())), "the renewal");
        let _ = again("the waiter is answered", async || engine.attempt(&waiter).await).await?;
        let shown: Vec<_> = line(&engine, "life").await?.iter().map(|place| place.seq).collect();
        ensure_eq!(shown, [first.seq, second.seq], "the line");
    }
    let_go(&engine, &holder).await?;
    ensure_eq!(hold(&engine, &waiter).await?.seat.seq, second.seq, "the number of the second");
    let_go(&engine, &waiter).await?;
    let third = exclusive("life")?;
    let seq = hold(&engine, &third).await?.seat.seq;
    ensure!(seq > second.seq, "{seq} after {}", second.seq);
    Ok(())
}

/// A server that is frozen answers nobody, and loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_thaws() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let claim = exclusive("frozen")?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    server.pause()?;
    let late = exclusive("frozen")?;
    let short = std::time::Duration::from_millis(300);
    ensure!(tokio::time::timeout(short, engine.attempt(&late)).await.is_err(), "a frozen server answered");
    ensure!(tokio::time::timeout(short, engine.attempt(&late)).await.is_err(), "a frozen server answered");
    server.resume()?;
    let renewed = again("it is renewed", async || renew(&engine, &claim, seq).await).await?;
    ensure_eq!(renewed, Renewal::Renewed(Some(claim.ttl.get())), "the renewal");
    let _ =
        again("the late one is released", async || engine.release(&late, Answered::InDoubt).await).await?;
    ensure_eq!(line(&engine, "frozen").await?.len(), 1, "places");
    let_go(&engine, &claim).await
}
