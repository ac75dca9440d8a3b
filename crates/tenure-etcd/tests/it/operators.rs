//! What operators do to the store by hand.

use std::{pin::pin, time::Duration};

use tenure_core::{Claim, Engine, ErrorKind, Held, Mode, Permits, Renewal, Turn};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    etcd::{Etcd, EtcdOptions},
    proxy::{Flow, Proxy, Way},
};

use crate::support::{claim, hold, line, open, renewed, wait, within};

/// A place that is deleted by hand is lost to its holder at the next renewal, though its lease lives; the holder's other
/// locks are left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_deleted_by_hand_is_lost_at_the_next_renewal() -> Result {
    let server = Etcd::shared()?;
    let engine = open(&format!("{}?ns=byhand", server.url())).await?;
    let (gone, kept) = (claim("gone")?, claim("kept")?);
    let (lost, held) = (hold(&engine, &gone).await?.seat.seq, hold(&engine, &kept).await?.seat.seq);
    ensure_eq!(server.admin().delete("byhand/line/gone#")?, 1, "deleted places");
    ensure!(!renewed(&engine, &gone, lost).await?, "a place that is gone was renewed");
    ensure!(renewed(&engine, &kept, held).await?, "the other place is lost");
    ensure_eq!(within("the loss is told", engine.lost()).await?, [(gone.id, lost)], "the losses");
    Ok(())
}

/// Without the key of its session nothing proves that the lease lives: all its places are lost, and told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_deleted_by_hand_is_the_end_of_all_its_places() -> Result {
    let server = Etcd::shared()?;
    let engine = open(&format!("{}?ns=session", server.url())).await?;
    let claims = [claim("a")?, claim("b")?];
    let mut held = Vec::new();
    for claim in &claims {
        held.push((claim.id, hold(&engine, claim).await?.seat.seq));
    }
    ensure_eq!(server.admin().delete("session/session/")?, 1, "deleted sessions");
    let mut told = within("the loss is told", engine.lost()).await?;
    told.sort();
    ensure_eq!(told, held, "the losses");
    ensure!(!renewed(&engine, &claims[0], held[0].1).await?, "it was renewed");
    Ok(())
}

/// A renewal under way when the lease ends renews none of its places, though there are too many to look at each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends_during_a_renewal_is_the_end_of_all_its_places() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&format!("etcd://{}", proxy.addr())).await?;
    let mut held = Vec::new();
    for n in 0..100 {
        let claim = claim(&format!("k{n}"))?;
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    // Nobody hears of the end before the renewal has looked at what it knows.
    proxy.flow(Way::Down, Flow::Hold)?;
    let leases = server.admin().leases()?;
    ensure_eq!(leases.len(), 1, "leases of a client");
    server.admin().revoke(&leases[0])?;
    let before = proxy.counts().up.forwarded;
    let asked = async {
        proxy.until("the renewal is on its way", |counts| counts.up.forwarded > before).await?;
        proxy.heal()
    };
    let (answers, asked) = futures_util::join!(engine.renew(&holds), asked);
    asked?;
    ensure!(answers?.iter().all(|answer| *answer == Renewal::Lost), "a place without a lease was renewed");
    Ok(())
}

/// The lease is revoked while a waiter sleeps: it wakes up, stands at the end of the line, and the old number is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_is_revoked_stands_at_the_end() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let (holder, sleeper, next) = (claim("k")?, claim("k")?, claim("k")?);
    hold(&there, &holder).await?;
    let before = server.admin().leases()?;
    let old = wait(&here, &sleeper).await?.seat.unwrap().seq;
    let between = wait(&there, &next).await?.seat.unwrap().seq;
    let lease = server.admin().leases()?.into_iter().find(|lease| !before.contains(lease)).unwrap();
    server.admin().revoke(&lease)?;
    let new = wait(&here, &sleeper).await?.seat.unwrap().seq;
    ensure!(old < between && between < new, "numbers {old}, {between}, {new}");
    ensure!(!renewed(&here, &sleeper, old).await?, "the old place was renewed");
    Ok(())
}

/// What was not written by tenure is not taken for a place, nor passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_among_the_places_is_named() -> Result {
    let server = Etcd::shared()?;
    let engine = open(&format!("{}?ns=foreign", server.url())).await?;
    server.admin().put("foreign/line/k#not-a-claim", "x")?;
    let err = engine.attempt(&claim("k")?).await.unwrap_err();
    ensure_eq!(err.kind(), ErrorKind::Broken, "the kind of the error");
    ensure!(err.to_string().contains("did not write"), "it says {err}");
    ensure_eq!(line(&engine, "other").await?.len(), 0, "places of another key");
    server.admin().delete("foreign/")?;
    Ok(())
}

/// A waiter that listens to one place needs no history: that it was forgotten changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_before_the_watch_is_not_noticed() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let (holder, waiter) = (claim("k")?, claim("k")?);
    hold(&here, &holder).await?;
    let seat = wait(&there, &waiter).await?.seat.unwrap();
    forget(&server)?;
    let mut turn = pin!(there.turn(&waiter));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut turn).await;
    ensure_eq!(early.is_err(), true, "it was woken for nothing");
    let release = async { here.release(&holder, tenure_core::Answered::All).await };
    let (turn, _) = futures_util::join!(within("the turn comes", turn), release);
    ensure_eq!(turn?, Turn::Holds(seat), "the turn");
    Ok(())
}

/// Nor does one that listens to a crowd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_before_a_crowd_is_watched_is_not_noticed() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let of_three = |take| -> Result<Claim> {
        Ok(Claim { mode: Mode::Permits(Permits::new(take, 3)?), ..claim("crowd")? })
    };
    let (one, two, waiter) = (of_three(1)?, of_three(1)?, of_three(2)?);
    hold(&here, &one).await?;
    hold(&here, &two).await?;
    let seat = wait(&there, &waiter).await?.seat.unwrap();
    forget(&server)?;
    let mut turn = pin!(there.turn(&waiter));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut turn).await;
    ensure_eq!(early.is_err(), true, "it was woken for nothing");
    let release = async { here.release(&one, tenure_core::Answered::All).await };
    let (turn, _) = futures_util::join!(within("the turn comes", turn), release);
    ensure_eq!(turn?, Turn::Holds(seat), "the turn");
    Ok(())
}

/// Not even the revision at which a watch would begin is left.
fn forget(server: &Etcd) -> Result {
    for _ in 0..3 {
        server.admin().compact()?;
    }
    Ok(())
}
