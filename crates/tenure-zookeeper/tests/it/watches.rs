//! Waiters watch the nearest place in their way, and no other.

use tenure_core::{Engine, Mode, Turn};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    zookeeper::{Zookeeper, ZookeeperOptions},
};

use crate::support::{claim, hold, let_go, noticed, open, queue, turn, within};

/// How many watches the server keeps, of those on the evictions one for each session.
fn watches(server: &Zookeeper) -> Result<u64> {
    server.counts("zk_watch_count")
}

/// Of many waiters, each a client of its own, each has one watch, and a release wakes one of them: no herd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_waiter() -> Result {
    const WAITERS: usize = 5;
    let server = Zookeeper::start(&ZookeeperOptions::default())?;
    // Of watches on the same node a server counts one for each session, so a client for each.
    let mut clients = Vec::new();
    for _ in 0..=WAITERS {
        clients.push((open(&server.url()).await?, claim("k", Mode::Exclusive)?));
    }
    hold(&clients[0].0, &clients[0].1).await?;
    let mut seats = vec![None];
    for (engine, claim) in &clients[1..] {
        seats.push(Some(queue(engine, claim).await?));
    }
    // One session was opened with the client, and one for the ttl of its claim.
    let evictions = 2 * clients.len() as u64;
    reach(&server, evictions, async || {}).await?;
    let mut turns: Vec<_> =
        clients[1..].iter().map(|(engine, claim)| Box::pin(turn(engine, claim))).collect();
    // In this order, so that whoever watched too many would be seen to before the last has one.
    for (n, turn) in turns.iter_mut().enumerate() {
        reach(&server, evictions + n as u64 + 1, async || drop(futures_util::poll!(&mut *turn))).await?;
    }
    for n in 0..WAITERS {
        let_go(&clients[n].0, &clients[n].1).await?;
        let turn = within("the next is told", turns.remove(0)).await??;
        ensure_eq!(Some(turn), seats[n + 1].map(Turn::Holds), "the turn of {n}");
        for late in &mut turns {
            ensure!(futures_util::poll!(&mut *late).is_pending(), "somebody further back was woken");
        }
    }
    let_go(&clients[WAITERS].0, &clients[WAITERS].1).await
}

/// Does this until the server keeps so many watches, and no more.
async fn reach(server: &Zookeeper, count: u64, mut step: impl AsyncFnMut()) -> Result {
    let reached = async {
        loop {
            step().await;
            match watches(server)? {
                found if found == count => return Ok(()),
                found => ensure!(found < count, "{found} watches, and there should be {count}"),
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the watches are set", reached).await?
}

/// A waiter whose blocker went before it was watched hears of its turn all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_went_before_it_was_watched_is_noticed() -> Result {
    let url = crate::support::corner("before")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    let claims = (0..3).map(|_| claim("k", Mode::Exclusive)).collect::<Result<Vec<_>>>()?;
    hold(&there, &claims[0]).await?;
    queue(&there, &claims[1]).await?;
    let seat = queue(&here, &claims[2]).await?;
    // Nobody watches yet.
    let_go(&there, &claims[1]).await?;
    let_go(&there, &claims[0]).await?;
    noticed(turn(&here, &claims[2]).await?, seat)?;
    ensure_eq!(hold(&here, &claims[2]).await?.seat, seat, "the seat");
    let_go(&here, &claims[2]).await
}

/// Readers behind a writer, who is behind a reader: all of them are told by one departure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_behind_one_writer_are_told_together() -> Result {
    let url = crate::support::corner("readers")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    let (first, writer) = (claim("k", Mode::Shared)?, claim("k", Mode::Exclusive)?);
    hold(&there, &first).await?;
    queue(&there, &writer).await?;
    let (one, two) = (claim("k", Mode::Shared)?, claim("k", Mode::Shared)?);
    let seats = [queue(&here, &one).await?, queue(&there, &two).await?];
    let (a, b, gone) = futures_util::join!(
        turn(&here, &one),
        turn(&there, &two),
        there.release(&writer, tenure_core::Answered::All)
    );
    let _ = gone?;
    for (turn, (engine, claim, seat)) in
        [a?, b?].into_iter().zip([(&here, &one, seats[0]), (&there, &two, seats[1])])
    {
        ensure!(turn == Turn::Holds(seat) || turn == Turn::Again, "{turn:?}");
        ensure_eq!(hold(engine, claim).await?.seat, seat, "the seat");
    }
    Ok(())
}
