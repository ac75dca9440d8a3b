//! The server's clock is set back while it lives.

use std::time::Duration;

use tenure_core::{Engine, Held, Mode, Renewal};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    process::WallClock,
    redis::{Redis, RedisOptions},
};

use crate::support::{brief, claim, hold, let_go, line, open, queue, until_held};

/// Numbers go on above those drawn before, whoever holds goes on holding, and the dead are in the way for one lease
/// more, not for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_costs_one_lease_at_most() -> Result {
    if let Err(why) = WallClock::installed() {
        ensure!(std::env::var_os("CI").is_none(), "{why}");
        return Ok(());
    }
    let server = Redis::start(RedisOptions { clock: true, ..RedisOptions::default() })?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(500);
    let (lives, dead) = (claim("lives", Mode::Exclusive)?, brief("dead", Mode::Exclusive, ttl)?);
    let seq = hold(&engine, &lives).await?.seat.seq;
    hold(&engine, &dead).await?;
    let grave = brief("dead", Mode::Exclusive, ttl)?;
    queue(&engine, &grave).await?;
    let before = server.wall_clock()?;
    server.process().step_clock(-3_600_000)?;
    let now = server.wall_clock()?;
    ensure!(now < before - 3500.0, "the clock was not set back: {before}, then {now}");

    let shown = line(&engine, "dead").await?;
    ensure!(
        shown.iter().all(|place| place.lease_left <= Some(ttl)),
        "shown after the clock was set: {shown:?}"
    );
    let next = claim("dead", Mode::Exclusive)?;
    let waits = queue(&engine, &next).await?;
    ensure!(waits.seq > seq, "{} after {seq}", waits.seq);
    until_held(&engine, &next).await?;
    let renewed = engine.renew(&[Held { claim: &lives, seq }]).await?;
    ensure_eq!(renewed, [Renewal::Renewed(Some(lives.ttl.get()))], "a hold that lives");
    let_go(&engine, &lives).await?;
    let again = hold(&engine, &claim("lives", Mode::Exclusive)?).await?.seat.seq;
    ensure!(again > waits.seq && waits.seq > seq, "numbers went back: {seq}, {}, {again}", waits.seq);
    Ok(())
}
