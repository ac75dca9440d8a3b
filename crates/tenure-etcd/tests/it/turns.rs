//! Whom a departure wakes, and whom not.

use std::time::Duration;

use tenure_core::{Claim, ClaimId, Engine, Mode, Permits, Turn};
use tenure_testkit::{Result, ensure, ensure_eq, etcd::Etcd};

use crate::support::{claim, hold, let_go, open, wait, within};

fn url() -> Result<String> {
    Ok(format!("{}?ns=turns", Etcd::shared()?.url()))
}

/// Only who stands next is woken: the others sleep on, however many they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_the_next_and_nobody_else() -> Result {
    let engine = open(&url()?).await?;
    let claims = [claim("herd")?, claim("herd")?, claim("herd")?, claim("herd")?];
    hold(&engine, &claims[0]).await?;
    let mut seats = Vec::new();
    for claim in &claims[1..] {
        seats.push(wait(&engine, claim).await?.seat.unwrap());
    }
    let mut turns: Vec<_> = claims[1..].iter().map(|claim| engine.turn(claim)).collect();
    let rest = turns.split_off(1);
    let (first, released) =
        futures_util::join!(within("the next is woken", turns.pop().unwrap()), let_go(&engine, &claims[0]));
    released?;
    ensure_eq!(first?, Turn::Holds(seats[0]), "the turn of the next");
    let others = futures_util::future::select_all(rest);
    let woken = tokio::time::timeout(Duration::from_millis(300), others).await;
    ensure_eq!(woken.is_err(), true, "somebody else was woken");
    Ok(())
}

/// What stood in the way and went, or changed, between the attempt and the watch is noticed all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_before_the_watch_is_asked() -> Result {
    let engine = open(&url()?).await?;
    let (holder, waiter) = (claim("early")?, claim("early")?);
    hold(&engine, &holder).await?;
    let seat = wait(&engine, &waiter).await?.seat.unwrap();
    let_go(&engine, &holder).await?;
    ensure_eq!(within("it is told", engine.turn(&waiter)).await?, Turn::Holds(seat), "the turn");
    let_go(&engine, &waiter).await?;

    let (writer, reader) = (claim("changed")?, Claim { mode: Mode::Shared, ..claim("changed")? });
    let grant = hold(&engine, &writer).await?;
    wait(&engine, &reader).await?;
    let downgraded = engine.downgrade(tenure_core::Held { claim: &writer, seq: grant.seat.seq }).await?;
    ensure!(
        matches!(downgraded, tenure_core::Renewal::Renewed(_)),
        "the downgrade was answered {downgraded:?}"
    );
    ensure_eq!(within("it is told", engine.turn(&reader)).await?, Turn::Again, "the turn");
    hold(&engine, &reader).await?;
    Ok(())
}

/// Readers behind a writer are woken together, and believe it without asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_behind_one_writer_wake_together() -> Result {
    let engine = open(&url()?).await?;
    let writer = claim("readers")?;
    let reader = || Ok::<_, tenure_testkit::Failure>(Claim { mode: Mode::Shared, ..claim("readers")? });
    let readers = [reader()?, reader()?, reader()?];
    hold(&engine, &writer).await?;
    let mut seats = Vec::new();
    for reader in &readers {
        seats.push(Turn::Holds(wait(&engine, reader).await?.seat.unwrap()));
    }
    let turns = futures_util::future::join_all(readers.iter().map(|reader| engine.turn(reader)));
    let (turns, released) = futures_util::join!(within("all are woken", turns), let_go(&engine, &writer));
    released?;
    ensure_eq!(turns?, seats, "the turns");
    Ok(())
}

fn of_three(key: &str, take: u32) -> Result<Claim> {
    Ok(Claim { mode: Mode::Permits(Permits::new(take, 3)?), id: ClaimId::fresh(), ..claim(key)? })
}

/// Where only the sum of permits is in the way, who waits counts who leaves, and knows that it holds without asking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_are_given_back_wake_whom_they_suffice_for() -> Result {
    let engine = open(&url()?).await?;
    let (one, two) = (of_three("permits", 1)?, of_three("permits", 1)?);
    let (third, fourth) = (of_three("permits", 2)?, of_three("permits", 1)?);
    hold(&engine, &one).await?;
    hold(&engine, &two).await?;
    let seat = wait(&engine, &third).await?.seat.unwrap();
    let behind = wait(&engine, &fourth).await?.seat.unwrap();
    let (turn, released) =
        futures_util::join!(within("it is woken", engine.turn(&third)), let_go(&engine, &one));
    released?;
    ensure_eq!(turn?, Turn::Holds(seat), "the turn");
    hold(&engine, &third).await?;
    // What was given back before it began to watch does not suffice; what is given back then does.
    let (turn, released) =
        futures_util::join!(within("it is woken", engine.turn(&fourth)), let_go(&engine, &two));
    released?;
    ensure_eq!(turn?, Turn::Holds(behind), "the turn of the one behind");
    let_go(&engine, &third).await?;
    let_go(&engine, &fourth).await
}

/// A permit that is given back is one waiter's: those behind it sleep on, however many they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_given_back_wakes_one_waiter_and_nobody_else() -> Result {
    let engine = open(&url()?).await?;
    let claims = (0..8).map(|_| of_three("crowd", 1)).collect::<Result<Vec<_>>>()?;
    for claim in &claims[..3] {
        hold(&engine, claim).await?;
    }
    let mut seats = Vec::new();
    for claim in &claims[3..] {
        seats.push(wait(&engine, claim).await?.seat.unwrap());
    }
    let mut turns: Vec<_> = claims[3..].iter().map(|claim| engine.turn(claim)).collect();
    let rest = turns.split_off(1);
    let (first, released) =
        futures_util::join!(within("the next is woken", turns.pop().unwrap()), let_go(&engine, &claims[1]));
    released?;
    ensure_eq!(first?, Turn::Holds(seats[0]), "the turn of the next");
    let others = futures_util::future::select_all(rest);
    let woken = tokio::time::timeout(Duration::from_millis(300), others).await;
    ensure_eq!(woken.is_err(), true, "somebody else was woken");
    Ok(())
}
