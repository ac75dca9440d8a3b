//! Claims that may take no place any more, and releases that are made up for.

use tenure_core::{Answered, Engine, ErrorKind, Eviction, Released, When};
use tenure_testkit::{
    Result, ensure_eq,
    etcd::{Etcd, EtcdOptions},
};

use crate::support::{claim, eventually, hold, line, open, says, wait};

fn url(ns: &str) -> Result<String> {
    Ok(format!("{}?ns={ns}", Etcd::shared()?.url()))
}

/// An attempt that arrives after the release that could not wait for it takes no place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_attempt_takes_no_place() -> Result {
    let engine = open(&url("graves")?).await?;
    let late = claim("late")?;
    ensure_eq!(engine.release(&late, Answered::InDoubt).await?, Released::NotHeld, "the release before");
    says(&engine.attempt(&late).await.unwrap_err(), ErrorKind::Lost, "released before")?;
    ensure_eq!(line(&engine, "late").await?.len(), 0, "places");
    // Also where there was one.
    let held = claim("late")?;
    hold(&engine, &held).await?;
    ensure_eq!(engine.release(&held, Answered::InDoubt).await?, Released::Freed, "the release");
    says(&engine.attempt(&held).await.unwrap_err(), ErrorKind::Lost, "released before")?;
    hold(&engine, &claim("late")?).await?;
    Ok(())
}

/// An evicted waiter that becomes the first in line between the look and the deed is not evicted as a waiter: gently is
/// gently. One that waits is taken away at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_evicted_stays_out() -> Result {
    let engine = open(&url("evicted")?).await?;
    let (holder, waiter) = (claim("k")?, claim("k")?);
    let held = hold(&engine, &holder).await?.seat.seq;
    let waits = wait(&engine, &waiter).await?.seat.unwrap().seq;
    let evict = async |claim: &tenure_core::Claim, seq, when| {
        engine.evict(&Eviction { key: claim.key.clone(), id: claim.id, seq, when }).await
    };
    ensure_eq!(evict(&waiter, waits, When::Gently).await?, tenure_core::Evicted::Freed, "of a waiter");
    says(&engine.attempt(&waiter).await.unwrap_err(), ErrorKind::Lost, "evicted")?;
    ensure_eq!(evict(&holder, held, When::Gently).await?, tenure_core::Evicted::Stopped, "of a holder");
    ensure_eq!(evict(&holder, held, When::Gently).await?, tenure_core::Evicted::Stopped, "once more");
    says(&engine.attempt(&holder).await.unwrap_err(), ErrorKind::Lost, "evicted")?;
    ensure_eq!(evict(&holder, held, When::Now).await?, tenure_core::Evicted::Freed, "at once");
    ensure_eq!(line(&engine, "k").await?.len(), 0, "places");
    Ok(())
}

/// A release that nobody could wait for is made up for once the server is back: the lease of its place lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_was_given_up_is_made_up_for() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let engine = open(&server.url()).await?;
    let (gone, kept) = (claim("gone")?, claim("kept")?);
    hold(&engine, &gone).await?;
    let seq = hold(&engine, &kept).await?.seat.seq;
    server.pause()?;
    let release = engine.release(&gone, Answered::All);
    let answer = tokio::time::timeout(std::time::Duration::from_millis(50), release).await;
    assert!(answer.is_err(), "a frozen server answers");
    // What was sent arrives when it wakes up, so it must not.
    server.kill()?;
    server.restart()?;
    let other = open(&server.url()).await?;
    ensure_eq!(line(&other, "gone").await?.len(), 1, "places after the restart");
    eventually("the renewal gets through and the release is made up for", async || {
        let _ = engine.renew(&[tenure_core::Held { claim: &kept, seq }]).await;
        Ok(line(&other, "gone").await?.is_empty())
    })
    .await?;
    ensure_eq!(line(&other, "kept").await?.len(), 1, "places of the other lock");
    Ok(())
}
