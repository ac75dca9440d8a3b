//! Connections: killed by an operator, cut, half open, and held up by a key that somebody has locked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenure_core::{Answered, Attempt, Engine, ErrorKind, Held, Mode, Released, Renewal};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    postgres::Postgres,
    proxy::{Flow, Proxy, Side, Way},
};

use crate::support::{
    LIMIT, brief, claim, count, hold, let_go, lock, open, queue, rows, server, turn, until_held, within,
};

/// An operator ends all sessions of a client: it asks again, has its holds and its place, and hears of its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_cost_nothing_but_a_connection() -> Result {
    let server = server(&[])?;
    let (near, far) = (open(&server.url()).await?, open(&server.url()).await?);
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let held = hold(&near, &first).await?.seat;
    let seat = queue(&far, &next).await?;
    for _ in 0..3 {
        server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure'",
        )?;
        ensure_eq!(turn(&far, &next).await?, tenure_core::Turn::Again, "what is heard of the end");
        // Its other connection may not know yet that it has ended.
        let again = within("it is asked again", async {
            loop {
                if let Ok(seat) = queue(&far, &next).await {
                    return seat;
                }
            }
        });
        ensure_eq!(again.await?, seat, "the same place");
        let renewal = within("the hold is renewed", async {
            loop {
                if let Ok(renewals) = near.renew(&[Held { claim: &first, seq: held.seq }]).await {
                    return renewals;
                }
            }
        });
        ensure_eq!(renewal.await?, [Renewal::Renewed(Some(first.ttl.get()))], "the renewal");
    }
    let_go(&near, &first).await?;
    ensure_eq!(turn(&far, &next).await?, tenure_core::Turn::Holds(seat), "the push");
    Ok(())
}

/// A connection whose other end is gone without a word is given up once requests were left unanswered on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_given_up() -> Result {
    let server = Postgres::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&server.url().replace(&server.addr().to_string(), &proxy.addr().to_string())).await?;
    ensure_eq!(engine.guarantees().wake, tenure_core::Wake::Push, "through a proxy that is no pooler");
    let first = claim("half-open", Mode::Exclusive)?;
    let seq = hold(&engine, &first).await?.seat.seq;
    proxy.half_open(Side::Server)?;
    let renewed = within("the hold is renewed on another connection", async {
        loop {
            let renew = [Held { claim: &first, seq }];
            if let Ok(Ok(renewals)) =
                tokio::time::timeout(Duration::from_millis(200), engine.renew(&renew)).await
            {
                return renewals;
            }
        }
    });
    ensure_eq!(renewed.await?, [Renewal::Renewed(Some(first.ttl.get()))], "the renewal");
    proxy.reset()?;
    proxy.heal()?;
    until_held(&engine, &first).await?;
    let_go(&engine, &first).await
}

/// A thousand tasks that ask while the server says nothing share a few connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_do_not_make_a_thousand_connections() -> Result {
    let server = Postgres::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&server.url().replace(&server.addr().to_string(), &proxy.addr().to_string())).await?;
    proxy.flow(Way::Down, Flow::Swallow)?;
    proxy.reset()?;
    let before = proxy.counts().connections;
    let mut tasks = Vec::new();
    for number in 0..1000 {
        let (engine, claim) = (Arc::clone(&engine), claim(&format!("k/{number}"), Mode::Exclusive)?);
        let patience = Duration::from_millis(300 + number / 2);
        tasks.push(tokio::spawn(async move { tokio::time::timeout(patience, engine.attempt(&claim)).await }));
    }
    for task in tasks {
        let answer = task.await.map_err(|err| Failure::new(err.to_string()))?;
        ensure!(!matches!(answer, Ok(Ok(_))), "a mute server granted a lock");
    }
    let made = proxy.counts().connections - before;
    ensure!(made <= 3, "{made} connections were made");
    proxy.reset()?;
    proxy.heal()?;
    let claim = claim("again", Mode::Exclusive)?;
    until_held(&engine, &claim).await?;
    let_go(&engine, &claim).await
}

/// Somebody keeps one key locked: attempts on it fail in time, and neither renewals nor the releases of other keys wait
/// for it. With the row of a place locked, that hold lives on as long as its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_key_holds_up_nobody_else() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_secs(12);
    let [stuck, free, third] = [brief("stuck", ttl)?, brief("free", ttl)?, brief("third", ttl)?];
    let seqs = [hold(&engine, &stuck).await?.seat.seq, hold(&engine, &free).await?.seat.seq];
    hold(&engine, &third).await?;
    let mut somebody = server.admin()?;
    somebody.sql(&lock("stuck"))?;

    let sent = Instant::now();
    let waiter = brief("stuck", ttl)?;
    let attempt = engine.attempt(&waiter);
    let others = async {
        let holds = [Held { claim: &free, seq: seqs[1] }];
        let renewed = engine.renew(&holds).await?;
        ensure_eq!(renewed, [Renewal::Renewed(Some(ttl))], "the renewal of another key");
        let_go(&engine, &third).await?;
        ensure!(sent.elapsed() < Duration::from_secs(1), "they took {:?}", sent.elapsed());
        Ok::<_, Failure>(())
    };
    let (refused, others) = tokio::join!(attempt, others);
    others?;
    let err = refused.err().ok_or_else(|| Failure::new("the key was not locked"))?;
    crate::support::says(&err, ErrorKind::Unavailable, "55P03")?;
    ensure!(sent.elapsed() < ttl / 3, "the attempt took {:?}", sent.elapsed());

    let holds = [Held { claim: &stuck, seq: seqs[0] }, Held { claim: &free, seq: seqs[1] }];
    ensure_eq!(engine.renew(&holds).await?, [Renewal::Renewed(Some(ttl)); 2], "renewals beside a locked key");
    somebody.sql("SELECT 1 FROM tenure_places WHERE key = 'stuck' FOR UPDATE; SELECT pg_sleep(1.5)")?;
    match engine.renew(&holds).await?[..] {
        [Renewal::Renewed(Some(left)), Renewal::Renewed(Some(whole))] => {
            ensure!(left < ttl - Duration::from_secs(1) && whole == ttl, "{left:?} and {whole:?}");
        }
        ref other => return Err(Failure::new(format!("renewals beside a locked row: {other:?}"))),
    }
    somebody.sql("COMMIT")?;
    ensure_eq!(engine.renew(&holds).await?, [Renewal::Renewed(Some(ttl)); 2], "renewals afterwards");
    let_go(&engine, &stuck).await?;
    let_go(&engine, &free).await?;
    ensure_eq!(rows(&server)?, 0, "rows afterwards");
    Ok(())
}

/// A release that overtakes an attempt which still waits in the server leaves nothing behind but a grave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_attempt_leaves_no_ghost() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    hold(&engine, &first).await?;
    let mut somebody = server.admin()?;
    somebody.sql(&lock("k"))?;
    let cancelled = claim("k", Mode::Exclusive)?;
    let attempt = tokio::time::timeout(Duration::from_millis(100), engine.attempt(&cancelled)).await;
    ensure!(attempt.is_err(), "the attempt did not wait: {attempt:?}");
    let release = engine.release(&cancelled, Answered::InDoubt);
    let commit = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        somebody.sql("COMMIT")
    };
    let (released, committed) = tokio::join!(release, commit);
    committed?;
    let _: Released = released?;
    let_go(&engine, &first).await?;
    let next = claim("k", Mode::Exclusive)?;
    hold(&engine, &next).await?;
    Ok(())
}

/// A request is written by whoever asks, and waits for no task: here the one of the connection cannot run meanwhile.
#[tokio::test]
async fn a_request_is_written_by_whoever_asks() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    // Afterwards the statements are prepared, and the row there.
    for _ in 0..2 {
        let first = claim("k", Mode::Exclusive)?;
        hold(&engine, &first).await?;
        let_go(&engine, &first).await?;
    }
    let second = claim("k", Mode::Exclusive)?;
    let mut attempt = std::pin::pin!(engine.attempt(&second));
    ensure!(futures_util::FutureExt::now_or_never(&mut attempt).is_none(), "an answer without a trip");
    let began = Instant::now();
    while count(&server, "state = 0")? == 0 {
        ensure!(began.elapsed() < LIMIT, "nothing has reached the server");
    }
    let answer = within("the attempt is answered", attempt).await??;
    ensure!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
    Ok(())
}

/// A client whose ttl is not the usual one gets the short way too: its session is set to the limits of that ttl, which
/// hold from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_the_limits_of_the_ttl_that_is_asked_for() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_secs(2);
    for _ in 0..10 {
        let short = brief("k", ttl)?;
        hold(&engine, &short).await?;
        let_go(&engine, &short).await?;
    }
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure' AND query LIKE '%SET LOCAL%'";
    ensure_eq!(server.sql(asked)?, [["0"]], "sessions that were asked with limits of their own");
    let mut somebody = server.admin()?;
    somebody.sql(&lock("k"))?;
    let (late, began) = (brief("k", ttl)?, Instant::now());
    let refused = within("the server refuses to wait", engine.attempt(&late)).await?;
    ensure!(refused.is_err(), "{refused:?}");
    ensure!(began.elapsed() < ttl, "it waited for the limits of another ttl");
    somebody.sql("COMMIT")?;
    Ok(())
}
