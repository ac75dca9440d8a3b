//! Many clients on one key at once.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tenure_core::{Answered, Attempt, Claim, Engine, Patience};
use tenure_testkit::{Failure, Result, ensure, mariadb::MariaDb};

use crate::support::{exclusive, let_go, open, within};

const CLIENTS: usize = 8;
const ROUNDS: u64 = 60;

/// What the holders saw: one at a time, with rising numbers.
#[derive(Default)]
struct Seen {
    inside: AtomicU64,
    last: AtomicU64,
    grants: AtomicU64,
}

/// Clients that come and go at once never hold together, their numbers rise in the order in which they held, and they
/// do not undo each other: the row of the key appears and disappears all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holds_at_a_time_and_nobody_is_undone() -> Result {
    let server = MariaDb::shared()?;
    let seen = Arc::new(Seen::default());
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (engine, seen) = (open(&server.url()).await?, seen.clone());
        let patience = if client % 2 == 0 { Patience::Queue } else { Patience::Try };
        clients.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let claim = Claim { patience, ..exclusive("storm")? };
                let mut tries = 0;
                let grant = loop {
                    match engine.attempt(&claim).await? {
                        Attempt::Granted(grant) => break Some(grant),
                        Attempt::Busy(_) if patience == Patience::Try && tries > 20 => break None,
                        Attempt::Busy(_) => tries += 1,
                    }
                };
                let Some(grant) = grant else {
                    let _ = engine.release(&claim, Answered::All).await?;
                    continue;
                };
                ensure!(seen.inside.fetch_add(1, Ordering::SeqCst) == 0, "two hold");
                let before = seen.last.swap(grant.seat.seq.get(), Ordering::SeqCst);
                ensure!(before < grant.seat.seq.get(), "{} after {before}", grant.seat.seq);
                seen.grants.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                seen.inside.fetch_sub(1, Ordering::SeqCst);
                let_go(&engine, &claim).await?;
            }
            Ok(())
        }));
    }
    for client in clients {
        within("a client is done", client).await?.map_err(|err| Failure::new(err.to_string()))??;
    }
    let least = ROUNDS * CLIENTS as u64 / 2;
    let grants = seen.grants.load(Ordering::SeqCst);
    ensure!(grants >= least, "{grants} grants, at least {least} are due");
    Ok(())
}
