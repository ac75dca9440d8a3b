//! Numbers rise over whatever a server forgets, and a grant says for how long nothing was forgotten.

use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, Engine, ErrorKind, Held, Mode, Seq};
use tenure_redis::RedisEngine;
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    process::wait_until,
    redis::{Persistence, Redis, RedisOptions},
};

use crate::support::{LIMIT, claim, durable, forgetful, hold, let_go, open, says};

const DAY: u64 = 24 * 60 * 60 * 1_000_000;

/// Takes and gives back a lock: its number, and for how long nothing was forgotten.
async fn draw(engine: &Arc<RedisEngine>) -> Result<(Seq, Option<Duration>)> {
    let claim = claim("k", Mode::Exclusive)?;
    let grant = hold(engine, &claim).await?;
    let_go(engine, &claim).await?;
    Ok((grant.seat.seq, grant.remembers))
}

/// The same once the server remembers at least so long.
async fn draw_at(engine: &Arc<RedisEngine>, least: Duration) -> Result<(Seq, Duration)> {
    let (_, remembers) = draw(engine).await?;
    let remembers = remembers.ok_or_else(|| Failure::new("a server that forgets never says so"))?;
    tokio::time::sleep(least.saturating_sub(remembers)).await;
    let (seq, now) = draw(engine).await?;
    let now = now.unwrap_or_default();
    ensure!(now >= least && now > remembers, "{remembers:?} and then only {now:?} is remembered");
    Ok((seq, now))
}

fn now(server: &Redis) -> Result<u64> {
    let time = server.command(&["TIME"])?;
    let part = |at: usize| time.items().get(at).and_then(|part| part.text()?.parse::<u64>().ok());
    match (part(0), part(1)) {
        (Some(seconds), Some(micros)) => Ok(seconds * 1_000_000 + micros),
        _ => Err(Failure::new("TIME is two numbers")),
    }
}

/// The mark deleted, everything flushed, a restart that forgets: each starts what is remembered anew, and no number
/// comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgets_goes_on_above() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let long = Duration::from_millis(60);
    let (mut last, mut remembered) = draw_at(&engine, long).await?;
    for what in ["DEL", "FLUSHALL", "restart", "FLUSHDB", "damage"] {
        match what {
            "DEL" => drop(server.command(&["DEL", "tenure:mark"])?),
            "damage" => drop(server.command(&["SET", "tenure:mark", "17 anything"])?),
            "restart" => {
                server.kill()?;
                server.restart()?;
                // The connection ends a moment after the server, and the first verb on it fails.
                engine.renew(&[Held { claim: &claim("k", Mode::Shared)?, seq: last }]).await.ok();
            }
            flush => drop(server.command(&[flush])?),
        }
        let (seq, remembers) = draw(&engine).await?;
        ensure!(seq > last, "{what}: {seq} after {last}");
        ensure!(remembers.is_some_and(|time| time < remembered), "{what}: {remembers:?} is remembered");
        (last, remembered) = draw_at(&engine, long).await?;
        ensure!(last > seq, "{what}: {last} after {seq}");
    }
    Ok(())
}

/// A server that keeps every write forgets nothing; one that flushes now and then may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_remembered() -> Result {
    let server = durable()?;
    let engine = open(&server.url()).await?;
    let (first, remembers) = draw(&engine).await?;
    ensure_eq!(remembers, None, "what a server remembers that keeps every write");
    // A mark far above the clock shows that it is the memory that keeps the order.
    let floor = Seq::new(now(&server)? + DAY / 2).unwrap_or_default();
    let high = Claim { floor, ..claim("k", Mode::Exclusive)? };
    ensure_eq!(hold(&engine, &high).await?.seat.seq, floor, "the number at a floor");
    let_go(&engine, &high).await?;
    server.kill()?;
    server.restart()?;
    engine.renew(&[Held { claim: &high, seq: floor }]).await.ok();
    let (next, remembers) = draw(&engine).await?;
    ensure!(first < floor && next > floor, "{next} after {floor}");
    ensure_eq!(remembers, None, "what it remembers after a restart");

    let options = RedisOptions { persistence: Persistence::AofEverysec, ..RedisOptions::default() };
    let server = Redis::start(options)?;
    let engine = open(&server.url()).await?;
    let (_, before) = draw_at(&engine, Duration::from_millis(50)).await?;
    let high = Claim { floor, ..claim("k", Mode::Exclusive)? };
    hold(&engine, &high).await?;
    wait_until("the file is flushed", LIMIT, || {
        ensure!(server.info("aof_pending_bio_fsync")? == "0", "not yet");
        Ok(())
    })?;
    server.terminate()?;
    server.restart()?;
    engine.renew(&[Held { claim: &high, seq: floor }]).await.ok();
    let_go(&engine, &high).await?;
    let (next, remembers) = draw(&engine).await?;
    ensure!(next > floor, "{next} after {floor}");
    ensure!(remembers.is_some_and(|time| time < before), "another life remembers {remembers:?}");
    Ok(())
}

/// A floor lifts the number of a place and of all that come after; by a renewal too; and not over a day ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floors_are_kept_unless_they_are_absurd() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let at = |ahead| Ok::<_, Failure>(Seq::new(now(&server)? + ahead).unwrap_or_default());
    let holder = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &holder).await?.seat.seq;
    let floor = at(DAY / 4)?;
    let lifted = Claim { floor, ..holder.clone() };
    drop(engine.renew(&[Held { claim: &lifted, seq }]).await?);
    let_go(&engine, &holder).await?;
    let (next, _) = draw(&engine).await?;
    ensure_eq!(next.get(), floor.get() + 1, "the number after a renewal lifted it");
    drop(engine.renew(&[Held { claim: &Claim { floor: seq, ..holder.clone() }, seq }]).await?);
    let (next, _) = draw(&engine).await?;
    ensure_eq!(next.get(), floor.get() + 2, "the number after a renewal with a lower floor");

    let absurd = Claim { floor: at(DAY + DAY / 24)?, ..claim("k", Mode::Exclusive)? };
    let err = engine.attempt(&absurd).await.err().ok_or_else(|| Failure::new("an absurd floor was kept"))?;
    says(&err, ErrorKind::Invalid, "more than a day ahead")?;
    let holder = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &holder).await?.seat.seq;
    let lifted = Claim { floor: absurd.floor, ..holder.clone() };
    let err = engine.renew(&[Held { claim: &lifted, seq }]).await;
    let err = err.err().ok_or_else(|| Failure::new("a renewal said that an absurd floor is kept"))?;
    says(&err, ErrorKind::Invalid, "more than a day ahead")?;
    let_go(&engine, &holder).await?;
    let (next, _) = draw(&engine).await?;
    ensure_eq!(next.get(), floor.get() + 4, "the number after what was refused");
    Ok(())
}

/// Whoever joins a line has a larger number than all in it, even if the mark was lost and the clock is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_rise_along_a_line_without_the_mark() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let floor = Seq::new(now(&server)? + DAY / 2).unwrap_or_default();
    let mut last = hold(&engine, &Claim { floor, ..claim("k", Mode::Shared)? }).await?.seat.seq;
    ensure!(last >= floor, "{last} is below its floor");
    for _ in 0..3 {
        server.command(&["DEL", "tenure:mark"])?;
        let seq = hold(&engine, &claim("k", Mode::Shared)?).await?.seat.seq;
        ensure!(seq > last, "{seq} came after {last}");
        last = seq;
        let other = hold(&engine, &claim("other", Mode::Shared)?).await?.seat.seq;
        ensure!(other > last, "{other} was drawn after {last} for another key");
    }
    Ok(())
}
