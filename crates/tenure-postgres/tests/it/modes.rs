//! The line rule, in the words of the database.

use tenure_core::{Engine, Held, Mode, Permits, Renewal, Turn};
use tenure_testkit::{Result, ensure_eq};

use crate::support::{claim, hold, let_go, open, queue, server, turn};

fn permits(take: u32, of: u32) -> Result<Mode> {
    Ok(Mode::Permits(Permits::new(take, of)?))
}

/// Permits are given up to their sum, to whoever comes and to whoever waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_given_up_to_their_sum() -> Result {
    let server = server(&[])?;
    let engine = open(&server.url()).await?;
    let [two, one] = [claim("k", permits(2, 4)?)?, claim("k", permits(1, 4)?)?];
    hold(&engine, &two).await?;
    hold(&engine, &one).await?;
    let next = claim("k", permits(2, 4)?)?;
    // Of four, one is left; when one more is given back, two are, and no more.
    let seat = queue(&engine, &next).await?;
    let [after, last] = [claim("k", permits(1, 4)?)?, claim("k", permits(1, 4)?)?];
    queue(&engine, &after).await?;
    queue(&engine, &last).await?;
    let_go(&engine, &one).await?;
    ensure_eq!(turn(&engine, &next).await?, Turn::Holds(seat), "the next, for whom there are two");
    hold(&engine, &next).await?;
    queue(&engine, &after).await?;
    queue(&engine, &last).await?;
    let_go(&engine, &two).await?;
    hold(&engine, &after).await?;
    hold(&engine, &last).await?;
    let _ = queue(&engine, &claim("k", permits(1, 4)?)?).await?;
    Ok(())
}

/// Readers behind a writer hold, and are told so, when it becomes a reader; a writer behind them does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_lets_readers_in() -> Result {
    let server = server(&[])?;
    let engines = [open(&server.url()).await?, open(&server.url()).await?];
    let writer = claim("k", Mode::Exclusive)?;
    let seq = hold(&engines[0], &writer).await?.seat.seq;
    let [one, two] = [claim("k", Mode::Shared)?, claim("k", Mode::Shared)?];
    let seats = [queue(&engines[1], &one).await?, queue(&engines[1], &two).await?];
    let last = claim("k", Mode::Exclusive)?;
    queue(&engines[1], &last).await?;
    let answer = engines[0].downgrade(Held { claim: &writer, seq }).await?;
    ensure_eq!(answer, Renewal::Renewed(Some(writer.ttl.get())), "the downgrade");
    for (reader, seat) in [&one, &two].into_iter().zip(seats) {
        ensure_eq!(turn(&engines[1], reader).await?, Turn::Holds(seat), "a reader");
        hold(&engines[1], reader).await?;
    }
    queue(&engines[1], &last).await?;
    Ok(())
}
