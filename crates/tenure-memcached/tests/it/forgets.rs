//! The server forgets: a line, a lease, or everything.

use std::time::Duration;

use tenure_core::{Answered, Engine, Released, Renewal};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, memcached::Memcached};

use crate::support::{brief, claim, hold, items, let_go, line, open, renew, server, until_held, wait};

/// Filled until it evicts: the holder is told at its next renewal, its release frees nobody, and fences go on rising.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_filled_until_it_forgets_tells_the_holder() -> Result {
    let server = server(&["-m", "2"])?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    // Leases that outlive the test, or they would end by themselves.
    let long = Duration::from_secs(3600);
    let (first, waiter) = (brief("k", long)?, brief("k", long)?);
    let seq = hold(&here, &first).await?.seat.seq;
    wait(&there, &waiter).await?;
    let mut evictions = 0;
    while items(&server)? > 0 {
        evictions += 20_000;
        server.fill_until_it_forgets(evictions)?;
    }
    ensure_eq!(renew(&here, &first, seq).await?, Renewal::Lost, "the renewal of what was forgotten");
    let next = hold(&there, &waiter).await?.seat.seq;
    ensure!(next > seq, "{next} came after {seq}");
    ensure_eq!(
        here.release(&first, Answered::All).await?,
        Released::NotHeld,
        "the release of what was forgotten"
    );
    ensure_eq!(
        renew(&there, &waiter, next).await?,
        Renewal::Renewed(Some(waiter.ttl.get())),
        "the next holder"
    );
    let_go(&there, &waiter).await
}

/// The line is lost and the lease is not, or the other way round: either is the end of the hold, and of no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_half_of_it_is_losing_it() -> Result {
    let server = server(&[])?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    for half in ["line", "lease"] {
        let (first, next) = (claim("k")?, claim("k")?);
        let seq = hold(&here, &first).await?.seat.seq;
        let item = server.items()?.into_iter().find(|item| item.starts_with(&format!("tenure:{half}:")));
        let item = item.ok_or_else(|| Failure::new(format!("there is no {half}")))?;
        server.ask(format!("md {item}\r\n").as_bytes(), "HD\r\n")?;
        ensure_eq!(renew(&here, &first, seq).await?, Renewal::Lost, "the renewal without its {half}");
        let new = hold(&there, &next).await?.seat.seq;
        ensure!(new > seq, "{new} came after {seq}");
        ensure_eq!(renew(&here, &first, seq).await?, Renewal::Lost, "another renewal");
        ensure_eq!(
            here.release(&first, Answered::All).await?,
            Released::NotHeld,
            "the release without its {half}"
        );
        ensure_eq!(line(&there, "k").await?.len(), 1, "places besides the next holder's");
        ensure_eq!(
            renew(&there, &next, new).await?,
            Renewal::Renewed(Some(next.ttl.get())),
            "the next holder"
        );
        let_go(&there, &next).await?;
        ensure_eq!(items(&server)?, 0, "items that are left");
    }
    Ok(())
}

/// A waiter whose line was lost takes a place anew, behind whoever came first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_line_up_again() -> Result {
    let server = server(&[])?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let claims = [claim("k")?, claim("k")?, claim("k")?];
    hold(&here, &claims[0]).await?;
    wait(&here, &claims[1]).await?;
    let before = wait(&there, &claims[2]).await?.seat;
    server.ask(b"flush_all\r\n", "OK\r\n")?;
    // Before a second is over, what is stored may count as older than the flush.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let new = hold(&there, &claims[2]).await?.seat.seq;
    ensure!(before.is_some_and(|before| new > before.seq), "{new} came after {before:?}");
    ensure_eq!(wait(&here, &claims[1]).await?.ahead, Some(1), "who is ahead now");
    let_go(&there, &claims[2]).await?;
    hold(&here, &claims[1]).await?;
    let_go(&here, &claims[1]).await
}

/// A place whose lease is over is not freed any more by its owner, though nobody has looked at the line since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_after_the_lease_frees_nobody() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let claim = claim("k")?;
    hold(&engine, &claim).await?;
    let lease = server.items()?.into_iter().find(|item| item.starts_with("tenure:lease:"));
    let lease = lease.ok_or_else(|| Failure::new("there is no lease"))?;
    server.ask(format!("md {lease}\r\n").as_bytes(), "HD\r\n")?;
    ensure_eq!(engine.release(&claim, Answered::All).await?, Released::NotHeld, "the release");
    ensure_eq!(items(&server)?, 0, "items that are left");
    Ok(())
}

/// Started anew with nothing: nobody of the life before is believed, though numbers of items begin again at one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_remembered_of_another_life_touches_nobody() -> Result {
    let server = server(&[])?;
    let (here, there) = (open(&server.url()).await?, open(&server.url()).await?);
    let (first, next) = (claim("k")?, claim("k")?);
    // So many that the next life, which makes some itself, does not get past it.
    for _ in 0..100 {
        version(&server, b"ms other 0 c\r\n\r\n")?;
    }
    let seq = hold(&here, &first).await?.seat.seq;
    let remembered = version(&server, b"mg tenure:line:k c\r\n")?;
    server.restart()?;
    let elsewhere = claim("elsewhere")?;
    until_held(&there, &elsewhere).await?;
    // The line of the next holder, made after its lease, gets the very version that the first one remembers.
    while version(&server, b"ms other 0 c\r\n\r\n")? < remembered - 2 {}
    let new = hold(&there, &next).await?.seat.seq;
    ensure_eq!(version(&server, b"mg tenure:line:k c\r\n")?, remembered, "the version in the next life");
    ensure!(new > seq, "{new} came after {seq}");
    let release = crate::support::within("the release is answered", async {
        loop {
            match here.release(&first, Answered::All).await {
                Err(err) if err.is_retryable() => {}
                answer => return answer,
            }
        }
    });
    ensure_eq!(release.await??, Released::NotHeld, "the release from another life");
    ensure_eq!(renew(&there, &next, new).await?, Renewal::Renewed(Some(next.ttl.get())), "the next holder");
    let_go(&there, &next).await
}

/// The unique number that the answer to this command names.
fn version(server: &Memcached, command: &[u8]) -> Result<u64> {
    let said = server.ask(command, "\r\n")?;
    let number = said.trim_end().strip_prefix("HD c").and_then(|number| number.parse().ok());
    number.ok_or_else(|| Failure::new(format!("no number: {said}")))
}
