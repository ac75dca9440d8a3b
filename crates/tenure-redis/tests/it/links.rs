//! Connections: how many are made, and when one is given up.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use tenure_core::{Answered, Engine, ErrorKind, Mode, Released};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    proxy::{Flow, Proxy, Way},
};

use crate::support::{claim, forgetful, hold, keys, let_go, open, queue, within};

/// A thousand tasks that ask while the server says nothing share one connection, also if they give up one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_do_not_make_a_thousand_connections() -> Result {
    let server = forgetful()?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&format!("redis://{}", proxy.addr())).await?;
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
    proxy.heal()?;
    works_again(&engine).await
}

/// When nobody listens, each of them learns it from one of a few refusals, and soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_shared() -> Result {
    let server = forgetful()?;
    let proxy = Proxy::start(server.addr())?;
    let engine = open(&format!("redis://{}", proxy.addr())).await?;
    proxy.refuse()?;
    proxy.reset()?;
    let claim = claim("k", Mode::Exclusive)?;
    // The end of the connection is noticed a moment later.
    within("the connection has ended", async {
        while engine.examine().await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await?;
    let err = engine.attempt(&claim).await.err().ok_or_else(|| Failure::new("nobody granted a lock"))?;
    ensure!(err.kind() == ErrorKind::Unavailable && !err.may_have_applied(), "{err:?}");
    proxy.accept()?;
    works_again(&engine).await
}

/// A connection that answers nothing is given up once requests were left unanswered on it, and the next verb makes
/// another: also if what went unanswered was the wish to listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mute_connection_is_given_up() -> Result {
    let server = forgetful()?;
    let proxy = Proxy::start(server.addr())?;
    for listens in [false, true] {
        let engine = open(&format!("redis://{}", proxy.addr())).await?;
        let first = claim("k", Mode::Exclusive)?;
        if listens {
            hold(&engine, &first).await?;
            let_go(&engine, &first).await?;
        }
        let before = proxy.counts().connections;
        // Only connections that are there already are mute: new ones go to the server directly.
        proxy.flow(Way::Up, Flow::Stall)?;
        within("another connection is made", async {
            while proxy.counts().connections == before {
                let _ = tokio::time::timeout(Duration::from_millis(200), engine.attempt(&first)).await;
            }
        })
        .await?;
        proxy.reset()?;
        proxy.heal()?;
        works_again(&engine).await?;
    }
    Ok(())
}

/// Verbs on a connection that is given up meanwhile are answered all the same, and the push finds its listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_outlive_their_connection() -> Result {
    let server = forgetful()?;
    let proxy = Proxy::start(server.addr())?;
    let (near, far) = (open(&server.url()).await?, open(&format!("redis://{}", proxy.addr())).await?);
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&near, &first).await?;
    let seat = queue(&far, &next).await?;
    for _ in 0..5 {
        proxy.reset()?;
        let turn = within("the end of the connection is heard of", far.turn(&next)).await?;
        ensure_eq!(turn, tenure_core::Turn::Again, "what is heard");
        ensure_eq!(queue(&far, &next).await?, seat, "the same place");
    }
    let_go(&near, &first).await?;
    let turn = within("the push comes", far.turn(&next)).await?;
    ensure_eq!(turn, tenure_core::Turn::Holds(seat), "the push");
    Ok(())
}

/// An attempt that nobody heard the answer of is before its release if both went by one connection: nothing is left for
/// it to find. By another connection the release may have overtaken it, and a grave is left to refuse it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_leaves_a_grave_only_where_it_may_have_overtaken_its_attempt() -> Result {
    let server = forgetful()?;
    let (engine, other) = (open(&server.url()).await?, open(&server.url()).await?);
    for engine in [&engine, &other] {
        let warm = claim("warm", Mode::Exclusive)?;
        hold(engine, &warm).await?;
        let_go(engine, &warm).await?;
    }
    for _ in 0..20 {
        let unheard = claim("k", Mode::Exclusive)?;
        // If this thread stands still meanwhile, it is heard all the same.
        let heard = engine.attempt(&unheard).now_or_never().is_some();
        let answered = if heard { Answered::All } else { Answered::InDoubt };
        let released = engine.release(&unheard, answered).await?;
        ensure_eq!(released, Released::Freed, "what the attempt took");
        ensure_eq!(keys(&server)?, ["tenure:id", "tenure:mark"], "what is left");
    }
    let unheard = claim("k", Mode::Exclusive)?;
    drop(engine.attempt(&unheard).now_or_never());
    let _ = other.release(&unheard, Answered::InDoubt).await?;
    ensure_eq!(keys(&server)?, ["tenure:id", "tenure:lock:k", "tenure:mark"], "the grave");
    Ok(())
}

async fn works_again(engine: &Arc<tenure_redis::RedisEngine>) -> Result {
    let claim = claim("again", Mode::Exclusive)?;
    within("the engine works again", async {
        while engine.attempt(&claim).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await?;
    let_go(engine, &claim).await
}
