//! What is sent, and how little that is.

use std::time::Duration;

use tenure_core::{Claim, ClaimId, Engine, Held, Key, Renewal};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    etcd::{Etcd, EtcdOptions},
    proxy::Proxy,
};

use crate::support::{claim, hold, let_go, open};

/// A renewal of a thousand locks costs no more than one of a single lock; and they are kept by one lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_costs_the_same_for_one_lock_or_a_thousand() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&format!("etcd://{}", proxy.addr())).await?;
    let cost = async |claims: &[(Claim, tenure_core::Seq)]| -> Result<u64> {
        let holds: Vec<_> = claims.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
        let before = proxy.counts().up.forwarded;
        let answers = engine.renew(&holds).await?;
        ensure!(answers.iter().all(|answer| matches!(answer, Renewal::Renewed(_))), "one is lost");
        Ok(proxy.counts().up.forwarded - before)
    };
    let mut held = Vec::new();
    for n in 0..1000 {
        let claim = claim(&format!("k{n}"))?;
        let seq = hold(&engine, &claim).await?.seat.seq;
        held.push((claim, seq));
    }
    ensure_eq!(server.admin().leases()?.len(), 1, "leases of a client");
    let (one, all) = (cost(&held[..1]).await?, cost(&held).await?);
    ensure!(all <= one, "{all} bytes for a thousand locks, {one} for one");
    // Many calls at once, as the watchdog makes them, share what they can.
    let before = proxy.counts().up.forwarded;
    let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    let calls = holds.chunks(100).map(|chunk| engine.renew(chunk));
    let answers = futures_util::future::try_join_all(calls).await?.concat();
    ensure_eq!(answers.len(), 1000, "answers");
    let shared = proxy.counts().up.forwarded - before;
    ensure!(shared <= 2 * all, "{shared} bytes for ten calls, {all} for one");
    // Though none of them is looked at, whoever was evicted is found.
    let other = open(&server.url()).await?;
    let (victim, seq) = &held[500];
    let eviction = tenure_core::Eviction {
        key: victim.key.clone(),
        id: victim.id,
        seq: *seq,
        when: tenure_core::When::Now,
    };
    ensure_eq!(other.evict(&eviction).await?, tenure_core::Evicted::Freed, "the eviction");
    let answers = engine.renew(&holds).await?;
    let lost: Vec<_> = (0..1000).filter(|&at| answers[at] == Renewal::Lost).collect();
    ensure_eq!(lost, [500], "who is lost");
    for (claim, _) in &held[..3] {
        let_go(&engine, claim).await?;
    }
    Ok(())
}

/// A claim that finds nobody in line learns that it holds, and nothing else: no line is read and none is sent. The second in
/// line learns all of it in the same call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_alone_reads_no_line() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&format!("etcd://{}", proxy.addr())).await?;
    let other = open(&server.url()).await?;
    let down = || proxy.counts().down.forwarded;
    // The lease is there by then, and so are the headers that all answers have.
    hold(&engine, &claim("first")?).await?;
    let alone = claim("alone")?;
    hold(&engine, &alone).await?;
    // HTTP/2 and the watch of the session have a word of their own to say now and then.
    let mut least = u64::MAX;
    for n in 0..5 {
        let before = down();
        hold(&engine, &claim(&format!("alone/{n}"))?).await?;
        least = least.min(down() - before);
    }
    ensure!(least < 120, "{least} bytes say that a claim holds which is alone");
    // Whether it does is seen by others, and by itself when it asks again.
    let second = Claim { key: alone.key.clone(), ..claim("second")? };
    crate::support::wait(&other, &second).await?;
    hold(&engine, &alone).await?;
    let_go(&other, &second).await?;
    let_go(&engine, &alone).await?;
    hold(&other, &Claim { id: ClaimId::fresh(), ..second }).await?;
    Ok(())
}

/// A place that asks for more time than its lease has is moved to one that has it, and keeps its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_lease_moves_the_place_and_keeps_its_number() -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let engine = open(&server.url()).await?;
    let short = claim("k")?;
    let seq = hold(&engine, &short).await?.seat.seq;
    let long = Claim { ttl: tenure_core::Ttl::new(Duration::from_secs(300))?, ..short.clone() };
    let answer = engine.renew(&[Held { claim: &long, seq }]).await?;
    ensure!(
        matches!(answer[..], [Renewal::Renewed(Some(left))] if left > Duration::from_secs(290)),
        "a longer renewal is {answer:?}"
    );
    ensure_eq!(server.admin().leases()?.len(), 2, "leases");
    ensure_eq!(hold(&engine, &short).await?.seat.seq, seq, "the number of the place");
    // Another wish of the same length shares that lease.
    let other = Claim { id: ClaimId::fresh(), key: Key::new("other")?, ..long.clone() };
    hold(&engine, &other).await?;
    ensure_eq!(server.admin().leases()?.len(), 2, "leases");
    let_go(&engine, &short).await
}
