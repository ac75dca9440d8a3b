//! Many at once on one key: each alone, all served, and a bound for how many may wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tenure_core::{Answered, Claim, Engine, ErrorKind, Held, Mode, Patience, Renewal, Seq};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, memcached::Memcached};

use crate::support::{claim, hold, items, let_go, line, open, says, server, until_held, within};

/// Twelve clients change one line as fast as they can: each holds alone, numbers only rise, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_takes_turns() -> Result {
    let server = server(&[])?;
    let inside = Arc::new(AtomicU32::new(0));
    let last = Arc::new(std::sync::Mutex::new(Seq::ZERO));
    let mut tasks = Vec::new();
    for n in 0..12 {
        let engine = open(&server.url()).await?;
        let (inside, last) = (inside.clone(), last.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let patience = if n % 3 == 0 { Patience::Try } else { Patience::Queue };
                let claim = Claim { patience, ..claim("crowd")? };
                let seq = until_held(&engine, &claim).await?.seat.seq;
                ensure_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "who else is inside");
                let before = std::mem::replace(&mut *last.lock().map_err(|_| Failure::new("poisoned"))?, seq);
                ensure!(seq > before, "{seq} came after {before}");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                let_go(&engine, &claim).await?;
            }
            Ok::<_, Failure>(())
        }));
    }
    for task in tasks {
        within("all had their turns", task).await?.map_err(|err| Failure::new(err.to_string()))??;
    }
    ensure_eq!(items(&server)?, 0, "items that are left");
    Ok(())
}

/// Readers come and go at once, and a writer waits for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share() -> Result {
    let url = Memcached::shared()?.url();
    let engine = open(&url).await?;
    let readers =
        (0..20).map(|_| Ok(Claim { mode: Mode::Shared, ..claim("readers")? })).collect::<Result<Vec<_>>>()?;
    futures_util::future::try_join_all(readers.iter().map(|reader| hold(&engine, reader))).await?;
    let writer = claim("readers")?;
    crate::support::wait(&engine, &writer).await?;
    futures_util::future::try_join_all(readers.iter().map(|reader| let_go(&engine, reader))).await?;
    hold(&engine, &writer).await?;
    let_go(&engine, &writer).await
}

/// A line has a bound, and who is beyond it leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_has_a_bound() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let first = claim("full")?;
    hold(&engine, &first).await?;
    for _ in 1..1000 {
        crate::support::wait(&engine, &claim("full")?).await?;
    }
    let one_more = claim("full")?;
    says(&engine.attempt(&one_more).await.unwrap_err(), ErrorKind::Unavailable, "1000 are in line already")?;
    ensure_eq!(line(&engine, "full").await?.len(), 1000, "places");
    ensure_eq!(items(&server)?, 1001, "items");
    let_go(&engine, &first).await?;
    let waits = crate::support::wait(&engine, &one_more).await?;
    ensure_eq!(waits.ahead, Some(999), "who is ahead");
    let released =
        tokio::time::timeout(Duration::from_secs(5), engine.release(&one_more, Answered::All)).await;
    ensure!(matches!(released, Ok(Ok(tenure_core::Released::Freed))), "{released:?}");
    Ok(())
}

/// Others line up at the very moment of a downgrade: it is done all the same, and is not said to be done before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_survives_those_who_come() -> Result {
    let url = Memcached::shared()?.url();
    let (here, there) = (open(&url).await?, open(&url).await?);
    for round in 0..100 {
        let key = format!("downgraded/{round}");
        let held = claim(&key)?;
        let seq = hold(&here, &held).await?.seat.seq;
        let coming = [claim(&key)?, claim(&key)?, claim(&key)?];
        let (downgraded, came) = futures_util::join!(
            here.downgrade(Held { claim: &held, seq }),
            futures_util::future::join_all(coming.iter().map(|claim| there.attempt(claim)))
        );
        ensure_eq!(downgraded?, Renewal::Renewed(Some(held.ttl.get())), "the downgrade in round {round}");
        for came in came {
            let _ = came?;
        }
        ensure_eq!(line(&here, &key).await?[0].mode, Mode::Shared, "the mode in round {round}");
        let_go(&here, &held).await?;
        for claim in &coming {
            let_go(&there, claim).await?;
        }
    }
    Ok(())
}
