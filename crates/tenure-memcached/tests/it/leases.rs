//! Time: a server counts whole seconds, and a lease must not be short of its own.

use std::time::{Duration, Instant};

use tenure_core::{Answered, Attempt, Claim, Engine, ErrorKind, Eviction, Patience, Released, Renewal, When};
use tenure_testkit::{Result, ensure, ensure_eq, memcached::Memcached};

use crate::support::{brief, claim, hold, let_go, line, open, renew, says, wait};

/// Under two seconds is refused, and nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_under_two_seconds_are_refused() -> Result {
    let engine = open(&Memcached::shared()?.url()).await?;
    let short = brief("short", Duration::from_millis(1999))?;
    says(&engine.attempt(&short).await.unwrap_err(), ErrorKind::Invalid, "2s or more")?;
    ensure_eq!(line(&engine, "short").await?.len(), 0, "places");
    let enough = brief("short", Duration::from_secs(2))?;
    hold(&engine, &enough).await?;
    let_go(&engine, &enough).await
}

/// Taken at any moment of the server's second, a lease lasts for all of its time and at most two seconds more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_never_short_of_its_time() -> Result {
    let url = Memcached::shared()?.url();
    let tries = (0..8).map(async |n| {
        let (here, there) = (open(&url).await?, open(&url).await?);
        tokio::time::sleep(Duration::from_millis(n * 125)).await;
        let ttl = Duration::from_millis(2000 + 100 * n);
        let (dead, next) = (brief(&format!("phase/{n}"), ttl)?, claim(&format!("phase/{n}"))?);
        let sent = Instant::now();
        hold(&here, &dead).await?;
        let taken = Instant::now();
        while let Attempt::Busy(busy) = there.attempt(&next).await? {
            let whole = Duration::from_secs(ttl.as_secs_f64().ceil() as u64);
            ensure!(busy.lapses_in.is_some_and(|left| left <= whole), "{ttl:?} is said to end in {busy:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        ensure!(taken.elapsed() >= ttl, "a lease of {ttl:?} lasted {:?}", taken.elapsed());
        ensure!(
            sent.elapsed() < ttl + Duration::from_millis(2500),
            "a lease of {ttl:?} lasted {:?}",
            sent.elapsed()
        );
        let_go(&there, &next).await
    });
    futures_util::future::try_join_all(tries).await.map(drop)
}

/// Another client that has never heard of a claim renews it, repeats its attempt and releases it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_does_not_remember_it_finds_in_the_line() -> Result {
    let url = Memcached::shared()?.url();
    let (here, there) = (open(&url).await?, open(&url).await?);
    let long = brief("unknown", Duration::from_secs(60))?;
    let seq = hold(&here, &long).await?.seat.seq;
    let short = Claim { ttl: brief("unknown", Duration::from_secs(2))?.ttl, ..long.clone() };
    ensure_eq!(
        renew(&there, &short, seq).await?,
        Renewal::Renewed(Some(Duration::from_secs(2))),
        "the renewal"
    );
    let left = line(&there, "unknown").await?[0].lease_left;
    ensure!(left > Some(Duration::from_secs(50)), "the lease was cut to {left:?}");
    let third = open(&url).await?;
    ensure_eq!(hold(&third, &long).await?.seat.seq, seq, "the number of the place it has");
    ensure_eq!(line(&third, "unknown").await?.len(), 1, "places");
    let fourth = open(&url).await?;
    let_go(&fourth, &long).await?;
    ensure_eq!(line(&third, "unknown").await?.len(), 0, "places");
    Ok(())
}

/// An operator stops a holder: it lives to the end of its lease, and asking again does not make that later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_place_does_not_live_on_by_being_renewed() -> Result {
    let url = Memcached::shared()?.url();
    let (here, there) = (open(&url).await?, open(&url).await?);
    let (stopped, next) = (brief("stopped", Duration::from_secs(4))?, claim("stopped")?);
    let seq = hold(&here, &stopped).await?.seat.seq;
    let held = Instant::now();
    let gently = Eviction { key: stopped.key.clone(), id: stopped.id, seq, when: When::Gently };
    ensure_eq!(there.evict(&gently).await?, tenure_core::Evicted::Stopped, "the eviction");
    while let Attempt::Busy(_) = there.attempt(&next).await? {
        ensure_eq!(renew(&here, &stopped, seq).await?, Renewal::Lost, "a renewal of what was stopped");
        ensure!(held.elapsed() < Duration::from_millis(6500), "it lives on after {:?}", held.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(held.elapsed() >= Duration::from_secs(4), "it ended after {:?}", held.elapsed());
    let_go(&there, &next).await
}

/// A release that overtakes its attempt leaves a grave: the attempt that arrives later holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_arrives_after_its_release_is_dead() -> Result {
    let server = Memcached::shared()?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let (late, next) = (claim("late")?, claim("late")?);
    hold(&here, &late).await?;
    // What the attempt sent, as it would arrive a second time from a connection that was given up.
    let item = server.ask(b"mg tenure:line:late v\r\n", "\r\n")?;
    let all = server.ask(b"mg tenure:line:late v\r\n", "test\n\r\n")?;
    let value = all
        .strip_prefix(&item[..item.find("\r\n").unwrap_or(0) + 2])
        .unwrap_or_default()
        .trim_end_matches("\r\n");
    let words: Vec<_> = value.lines().nth(1).unwrap_or_default().split(' ').collect();
    let lease = format!("tenure:lease:{}{}", words[0], words[1]);
    ensure_eq!(here.release(&late, Answered::InDoubt).await?, Released::Freed, "the release");
    let again =
        format!("ms {lease} 1 ME T30\r\n1\r\nms tenure:line:late {} ME T99\r\n{value}\r\n", value.len());
    server.ask(again.as_bytes(), "NS\r\nHD\r\n")?;
    hold(&there, &Claim { patience: Patience::Try, ..next.clone() }).await?;
    let_go(&there, &next).await
}

/// A waiter is told how long the lease ahead of it lasts, and a dead holder is found out within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_found_out_by_whoever_waits() -> Result {
    let url = Memcached::shared()?.url();
    let (here, there) = (open(&url).await?, open(&url).await?);
    let (dead, next) = (brief("found out", Duration::from_secs(2))?, claim("found out")?);
    hold(&here, &dead).await?;
    let held = Instant::now();
    wait(&there, &next).await?;
    while let Attempt::Busy(_) = there.attempt(&next).await? {
        ensure!(held.elapsed() < Duration::from_millis(4500), "nobody found out for {:?}", held.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let_go(&there, &next).await
}
