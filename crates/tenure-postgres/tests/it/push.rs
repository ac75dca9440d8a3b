//! Pushes: to whom, and only to them.

use tenure_core::{Engine, Eviction, Mode, Turn, When};
use tenure_testkit::{Result, ensure_eq};

use crate::support::{claim, hold, let_go, open, queue, server, turn, within};

/// A release tells exactly those who now hold, with the seat that they know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_tells_those_who_now_hold() -> Result {
    let server = server(&[])?;
    let [a, b, c] = [open(&server.url()).await?, open(&server.url()).await?, open(&server.url()).await?];
    let first = claim("k", Mode::Exclusive)?;
    hold(&a, &first).await?;
    let [one, two, last] =
        [claim("k", Mode::Shared)?, claim("k", Mode::Shared)?, claim("k", Mode::Exclusive)?];
    let seats = [queue(&b, &one).await?, queue(&c, &two).await?, queue(&a, &last).await?];
    let_go(&a, &first).await?;
    ensure_eq!(turn(&b, &one).await?, Turn::Holds(seats[0]), "the first reader");
    ensure_eq!(turn(&c, &two).await?, Turn::Holds(seats[1]), "the second reader");
    let mut waiting = std::pin::pin!(a.turn(&last));
    ensure_eq!(futures_util::FutureExt::now_or_never(&mut waiting), None, "the writer");
    let_go(&b, &one).await?;
    let_go(&c, &two).await?;
    ensure_eq!(within("the writer is told", waiting).await?, Turn::Holds(seats[2]), "the writer");
    Ok(())
}

/// The owner of a hold that an operator breaks is told at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_tells_the_owner() -> Result {
    let server = server(&[])?;
    let [owner, operator] = [open(&server.url()).await?, open(&server.url()).await?];
    let held = claim("k", Mode::Exclusive)?;
    let seq = hold(&owner, &held).await?.seat.seq;
    let eviction = Eviction { key: held.key.clone(), id: held.id, seq, when: When::Now };
    ensure_eq!(operator.evict(&eviction).await?, tenure_core::Evicted::Freed, "the eviction");
    ensure_eq!(within("the owner is told", owner.lost()).await?, [(held.id, seq)], "what is lost");
    Ok(())
}
