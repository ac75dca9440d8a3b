//! Fences over restarts.

use tenure_core::{Engine, ErrorKind, Seq};
use tenure_testkit::{Result, ensure, memcached::Memcached, process::wait_until};

use crate::support::{claim, hold, let_go, open, says, server};

/// A server that has just started grants nothing yet, whatever client asks, and then only larger numbers than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_a_new_life_are_larger_and_wait_for_their_second() -> Result {
    let server = server(&[])?;
    let mut last = Seq::ZERO;
    let mut refused = 0;
    for _ in 0..3 {
        let engine = open(&server.url()).await?;
        for _ in 0..100 {
            let claim = claim("k")?;
            let seq = hold(&engine, &claim).await?.seat.seq;
            ensure!(seq > last, "{seq} came after {last}");
            last = seq;
            let_go(&engine, &claim).await?;
        }
        server.process().start_again()?;
        let answers = || server.ask(b"mn\r\n", "MN\r\n").map(drop);
        wait_until("it answers", crate::support::LIMIT, answers)?;
        let young = open(&server.url()).await?;
        if let Err(err) = young.attempt(&claim("k")?).await {
            says(&err, ErrorKind::Unavailable, "started a moment ago")?;
            refused += 1;
        }
        ready(&server)?;
    }
    // Unless this machine took a second from the start to the question.
    ensure!(refused > 0, "a server that has just started was never too young");
    Ok(())
}

fn ready(server: &Memcached) -> Result {
    wait_until("it is old enough", crate::support::LIMIT, || {
        ensure!(server.stat("uptime")?.parse().unwrap_or(0) >= 4, "it is too young");
        Ok(())
    })
}
