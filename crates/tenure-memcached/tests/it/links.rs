//! Connections: cut, half open, silent, and shared by many.

use std::{sync::Arc, time::Duration};

use tenure_core::{Answered, Engine, Renewal};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    memcached::Memcached,
    proxy::{Flow, Proxy, Side, Way},
};

use crate::support::{brief, claim, hold, let_go, line, open, renew, until_held, within};

fn way(server: &Memcached) -> Result<(Proxy, String)> {
    let proxy = Proxy::start(server.addr())?;
    let url = format!("memcached://{}", proxy.addr());
    Ok((proxy, url))
}

/// All verbs of a client share one connection, and a thousand tasks make no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_share_one_connection() -> Result {
    let (proxy, url) = way(Memcached::shared()?)?;
    let engine = open(&url).await?;
    let tasks = (0..1000).map(|number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let claim = claim(&format!("many/{number}"))?;
            let seq = hold(&engine, &claim).await?.seat.seq;
            ensure_eq!(
                renew(&engine, &claim, seq).await?,
                Renewal::Renewed(Some(claim.ttl.get())),
                "the renewal"
            );
            let_go(&engine, &claim).await
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        within("all are done", task).await?.map_err(|err| Failure::new(err.to_string()))??;
    }
    ensure_eq!(proxy.counts().connections, 1, "connections");
    Ok(())
}

/// A connection that is reset costs the verb that was under way, and no hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_made_anew() -> Result {
    let (proxy, url) = way(Memcached::shared()?)?;
    let engine = open(&url).await?;
    let first = claim("cut")?;
    let seq = hold(&engine, &first).await?.seat.seq;
    for _ in 0..5 {
        proxy.reset()?;
        let renewed = within("the hold is renewed", async {
            loop {
                if let Ok(renewal) = renew(&engine, &first, seq).await {
                    return renewal;
                }
            }
        });
        ensure_eq!(renewed.await?, Renewal::Renewed(Some(first.ttl.get())), "the renewal");
    }
    let_go(&engine, &first).await
}

/// A connection whose other end is gone without a word is given up once requests were left unanswered on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_given_up() -> Result {
    let (proxy, url) = way(Memcached::shared()?)?;
    let engine = open(&url).await?;
    let first = claim("half-open")?;
    let seq = hold(&engine, &first).await?.seat.seq;
    proxy.half_open(Side::Server)?;
    let renewed = within("the hold is renewed on another connection", async {
        loop {
            let renew = renew(&engine, &first, seq);
            if let Ok(Ok(renewal)) = tokio::time::timeout(Duration::from_millis(200), renew).await {
                return renewal;
            }
        }
    });
    ensure_eq!(renewed.await?, Renewal::Renewed(Some(first.ttl.get())), "the renewal");
    let_go(&engine, &first).await
}

/// A server that falls silent costs each verb a third of its ttl, and few connections however many ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_server_does_not_make_a_thousand_connections() -> Result {
    let (proxy, url) = way(Memcached::shared()?)?;
    let engine = open(&url).await?;
    proxy.flow(Way::Down, Flow::Swallow)?;
    let before = proxy.counts().connections;
    let asked = std::time::Instant::now();
    let tasks = (0..1000).map(|number| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            Ok::<_, Failure>(engine.attempt(&brief(&format!("mute/{number}"), Duration::from_secs(3))?).await)
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        let answer = task.await.map_err(|err| Failure::new(err.to_string()))??;
        ensure!(answer.as_ref().is_err_and(|err| err.is_retryable()), "a mute server said {answer:?}");
    }
    ensure!(asked.elapsed() < Duration::from_secs(3), "it took {:?}", asked.elapsed());
    let made = proxy.counts().connections - before;
    ensure!(made <= 3, "{made} connections were made");
    proxy.reset()?;
    proxy.heal()?;
    let claim = claim("again")?;
    until_held(&engine, &claim).await?;
    let_go(&engine, &claim).await
}

/// Verbs that are dropped at any moment leave answers behind, which go to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_waits_for_go_to_nobody_else() -> Result {
    let server = Memcached::shared()?;
    let engine = open(&server.url()).await?;
    let mut kept = Vec::new();
    for n in 0..200u64 {
        let dropped = claim(&format!("dropped/{n}"))?;
        let patience = Duration::from_micros(n * 3 % 400);
        let _ = tokio::time::timeout(patience, engine.attempt(&dropped)).await;
        let claim = claim(&format!("kept/{n}"))?;
        kept.push((hold(&engine, &claim).await?.seat.seq, claim));
        let _ = engine.release(&dropped, Answered::InDoubt).await?;
    }
    for (seq, claim) in &kept {
        let places = line(&engine, claim.key.as_str()).await?;
        ensure!(
            places.len() == 1 && places[0].seq == *seq && places[0].id == claim.id,
            "{places:?}, not {seq}"
        );
        let_go(&engine, claim).await?;
    }
    for n in 0..200 {
        ensure_eq!(line(&engine, &format!("dropped/{n}")).await?.len(), 0, "places of a dropped claim");
    }
    Ok(())
}
