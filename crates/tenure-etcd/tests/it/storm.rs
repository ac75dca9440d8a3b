//! Many at once.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tenure_core::{Attempt, Claim, Engine, Mode, Patience};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, etcd::Etcd};

use crate::support::{claim, let_go, line, open};

const WRITER: u32 = 1000;

/// Readers and writers that do not wait get in only where they hold, and leave nothing behind where they do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_who_do_not_wait_never_meet_and_leave_nothing_behind() -> Result {
    let url = format!("{}?ns=storm", Etcd::shared()?.url());
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for task in 0..8 {
        let (engine, inside) = (open(&url).await?, inside.clone());
        tasks.push(tokio::spawn(async move {
            let mut grants = 0;
            for round in 0..60 {
                let (mode, weight) =
                    if (task + round) % 4 == 0 { (Mode::Exclusive, WRITER) } else { (Mode::Shared, 1) };
                let wish = Claim { mode, patience: Patience::Try, ..claim("k")? };
                match engine.attempt(&wish).await {
                    Ok(Attempt::Granted(_)) => {
                        let before = inside.fetch_add(weight, Ordering::SeqCst);
                        ensure!(
                            before < WRITER && (weight == 1 || before == 0),
                            "{mode} got in beside {before}"
                        );
                        tokio::task::yield_now().await;
                        inside.fetch_sub(weight, Ordering::SeqCst);
                        let_go(&engine, &wish).await?;
                        grants += 1;
                    }
                    Ok(Attempt::Busy(busy)) => {
                        ensure!(busy.seat.is_none(), "a place was left behind: {busy:?}")
                    }
                    // Others came in each time it looked.
                    Err(err) => ensure!(err.is_retryable() && !err.may_have_applied(), "{err}"),
                }
            }
            Ok::<_, Failure>(grants)
        }));
    }
    let mut grants = 0;
    for task in tasks {
        grants += task.await.unwrap()?;
    }
    ensure!(grants > 8, "only {grants} got in");
    let engine = open(&url).await?;
    ensure_eq!(line(&engine, "k").await?.len(), 0, "places");
    Ok(())
}
