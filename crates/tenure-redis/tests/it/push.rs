//! The lease argument of the hand-off: a push is believed only if it names the seat of the newest acknowledged
//! attempt, so whatever becomes of a message must not equal another seat.

use std::{sync::Arc, time::Duration};

use tenure_core::{Answered, Engine, Mode, Patience, Seat, Turn};
use tenure_redis::RedisEngine;
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    process::wait_until,
    proxy::{Flow, Proxy, Way},
    redis::{Redis, RedisOptions, Role},
};

use crate::support::{
    LIMIT, brief, claim, durable, forge, forgetful, hold, let_go, line, open, queue, turn, until_held,
    until_shown, wait,
};

/// A server, a client beside it, and one that is reached through a proxy.
async fn proxied() -> Result<(Redis, Proxy, Arc<RedisEngine>, Arc<RedisEngine>)> {
    let server = forgetful()?;
    let proxy = Proxy::start(server.addr())?;
    let near = open(&server.url()).await?;
    let far = open(&format!("redis://{}", proxy.addr())).await?;
    Ok((server, proxy, near, far))
}

/// A message that is lost costs its waiter nothing but the news: when the connection ends, everybody asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_is_made_up_for_when_the_connection_ends() -> Result {
    let (_server, proxy, near, far) = proxied().await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&near, &first).await?;
    let seat = queue(&far, &next).await?;
    proxy.flow(Way::Down, Flow::Swallow)?;
    let_go(&near, &first).await?;
    proxy.until("the message is lost", |counts| counts.down.lost > 0).await?;
    proxy.heal()?;
    ensure_eq!(turn(&far, &next).await?, Turn::Again, "what a waiter hears when its connection ends");
    ensure_eq!(hold(&far, &next).await?.seat, seat, "the place that it has all along");
    Ok(())
}

/// A message that was held back until its place had lapsed, another claim held, and the waiter had a new place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_message_never_names_the_new_seat() -> Result {
    let (_server, proxy, near, far) = proxied().await?;
    let ttl = Duration::from_millis(300);
    let (first, other) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let next = brief("k", Mode::Exclusive, ttl)?;
    hold(&near, &first).await?;
    let before = queue(&far, &next).await?;
    proxy.flow(Way::Down, Flow::Hold)?;
    let_go(&near, &first).await?;
    proxy.until("the message is held back", |counts| counts.down.held > 0).await?;
    until_held(&near, &other).await?;

    let again = tokio::spawn({
        let (far, next) = (far.clone(), next.clone());
        async move { queue(&far, &next).await }
    });
    until_shown(&near, "k", 2).await?;
    proxy.heal()?;
    let now = again.await.map_err(|err| Failure::new(err.to_string()))??;
    let heard = turn(&far, &next).await?;
    ensure_eq!(heard, Turn::Holds(before), "the late message");
    ensure!(now.seq > before.seq, "the new place has number {}, the old one {}", now.seq, before.seq);
    Ok(())
}

/// A push that outlives its place: the attempt that follows it gets a new place, behind whoever holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_for_a_lapsed_place_leads_to_a_new_one() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    let next = brief("k", Mode::Exclusive, Duration::from_millis(100))?;
    let other = claim("k", Mode::Exclusive)?;
    hold(&engine, &first).await?;
    let before = queue(&engine, &next).await?;
    let_go(&engine, &first).await?;
    until_held(&engine, &other).await?;
    ensure_eq!(turn(&engine, &next).await?, Turn::Holds(before), "the message");
    let now = queue(&engine, &next).await?;
    ensure!(now.seq > before.seq, "the same number for a new place");
    Ok(())
}

/// A message that comes twice wakes once more at most, and nobody once the claim holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doubled_message_does_nothing() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&engine, &first).await?;
    let seat = queue(&engine, &next).await?;
    let_go(&engine, &first).await?;
    forge(&server, 'H', next.id, seat)?;
    ensure_eq!(turn(&engine, &next).await?, Turn::Holds(seat), "the message");
    ensure_eq!(hold(&engine, &next).await?.seat, seat, "the hold");
    let_go(&engine, &next).await?;
    let other = claim("k", Mode::Exclusive)?;
    hold(&engine, &other).await?;
    forge(&server, 'H', next.id, seat)?;
    ensure_eq!(line(&engine, "k").await?.len(), 1, "places after a copy of an old message");
    Ok(())
}

/// After a restart the place and its number are the same, and the life of the server is another: a message from the
/// life before names no seat that anybody has now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_from_another_life_names_no_seat_of_this_one() -> Result {
    let server = durable()?;
    let engine = open(&server.url()).await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let held = hold(&engine, &first).await?.seat;
    let before = queue(&engine, &next).await?;
    server.kill()?;
    server.restart()?;
    ensure_eq!(turn(&engine, &next).await?, Turn::Again, "the end of the connection");
    let now = queue(&engine, &next).await?;
    ensure_eq!(now.seq, before.seq, "the number of a place that was kept");
    ensure!(now.incarnation != before.incarnation, "a restarted server must have another life: {now:?}");
    forge(&server, 'H', next.id, before)?;
    let heard = turn(&engine, &next).await?;
    ensure_eq!(heard, Turn::Holds(before), "the old message");
    ensure!(heard != Turn::Holds(now), "the old message names the new seat");
    ensure_eq!(hold(&engine, &first).await?.seat.seq, held.seq, "the first holder's place");
    Ok(())
}

/// The answer to an attempt that waits for replicas comes after the push that ends the wait: on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_overtakes_the_answer_is_kept() -> Result {
    let server = forgetful()?;
    let replica =
        Redis::start(RedisOptions { role: Role::ReplicaOf(server.port()), ..RedisOptions::default() })?;
    replica.wait_for_info("master_link_status", "up", LIMIT)?;
    let near = open(&server.url()).await?;
    let far = open(&format!("{}?replicas=1", server.url())).await?;
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&near, &first).await?;
    // The connections are there before the replica stops.
    queue(&far, &claim("warm", Mode::Shared)?).await.err();
    replica.pause()?;
    let attempt = tokio::spawn({
        let (far, next) = (far.clone(), next.clone());
        async move { far.attempt(&next).await }
    });
    until_shown(&near, "k", 2).await?;
    let seq = line(&near, "k").await?[1].seq;
    let_go(&near, &first).await?;
    replica.resume()?;
    let answer = attempt.await.map_err(|err| Failure::new(err.to_string()))?;
    // Whether the replica was quick enough or not, the push was not missed.
    if let Ok(tenure_core::Attempt::Granted(grant)) = &answer {
        return Err(Failure::new(format!("the attempt was made before the release: {grant:?}")));
    }
    match turn(&far, &next).await? {
        Turn::Holds(Seat { seq: pushed, .. }) => ensure_eq!(pushed, seq, "the place that was pushed"),
        Turn::Again => return Err(Failure::new("the push was forgotten")),
    }
    Ok(())
}

/// Whoever is refused stops listening: there is nobody else who would see to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_refused_leaves_no_listener() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let (first, late) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&engine, &first).await?;
    let _ = engine.release(&late, Answered::InDoubt).await?;
    ensure!(engine.attempt(&late).await.is_err(), "a claim that was released before is let in");
    // A listener would wait here for ever.
    ensure_eq!(turn(&engine, &late).await?, Turn::Again, "the turn of a claim that was refused");
    Ok(())
}

/// A claim that does not wait leaves no listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_wait_is_told_to_ask_at_once() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let first = claim("k", Mode::Exclusive)?;
    hold(&engine, &first).await?;
    let hasty = tenure_core::Claim { patience: Patience::Try, ..claim("k", Mode::Exclusive)? };
    ensure!(wait(&engine, &hasty).await?.seat.is_none(), "a claim that does not wait has a seat");
    ensure_eq!(turn(&engine, &hasty).await?, Turn::Again, "the turn of a claim that nobody waits for");
    wait_until("nothing is left of it", LIMIT, || {
        ensure!(server.command(&["HLEN", "tenure:lock:k"])?.int() == Some(1), "fields of a stranger");
        Ok(())
    })?;
    Ok(())
}
