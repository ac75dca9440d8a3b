//! Who is told: exactly those who now hold, whichever verb found it out.

use std::time::Duration;

use tenure_core::{Answered, Engine, Evicted, Eviction, Held, Mode, Patience, Permits, Turn, When};
use tenure_testkit::{Result, ensure_eq};

use crate::support::{Ears, brief, claim, forgetful, hold, let_go, open, queue, turn, until_shown, within};

/// A release is told to the process whose claim now holds, and to no other, however many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_process_that_now_holds_is_told() -> Result {
    let server = forgetful()?;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push((open(&server.url()).await?, claim("k", Mode::Exclusive)?));
    }
    hold(&clients[0].0, &clients[0].1).await?;
    for (engine, claim) in &clients[1..] {
        queue(engine, claim).await?;
    }
    let mut ears = Ears::open(&server)?;
    let mut told = Vec::new();
    for pair in clients.windows(2) {
        let [(engine, holder), (next_engine, next)] = pair else { continue };
        let_go(engine, holder).await?;
        let heard = ears.heard()?;
        ensure_eq!(heard.len(), 1, "messages for one hand-off");
        told.extend(heard);
        let holds = turn(next_engine, next).await?;
        ensure_eq!(holds, Turn::Holds(hold(next_engine, next).await?.seat), "the push");
    }
    told.sort();
    told.dedup();
    ensure_eq!(told.len(), 3, "processes that were told, each by its own channel");
    let_go(&clients[3].0, &clients[3].1).await?;
    ensure_eq!(ears.heard()?, [], "messages when nobody waits");
    Ok(())
}

/// Everybody who now holds is told at once: shared claims, and permits as far as they fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_now_hold_are_told_at_once() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let permits = |take| Permits::new(take, 3).map(Mode::Permits);
    for (key, modes, holders) in [
        ("shared", [Mode::Shared, Mode::Shared, Mode::Shared, Mode::Exclusive], 3),
        ("permits", [permits(1)?, permits(2)?, permits(1)?, permits(1)?], 2),
        ("mixed", [Mode::Shared, permits(1)?, Mode::Shared, Mode::Shared], 1),
    ] {
        let first = claim(key, Mode::Exclusive)?;
        hold(&engine, &first).await?;
        let mut waiters = Vec::new();
        for mode in modes {
            let waiter = claim(key, mode)?;
            let seat = queue(&engine, &waiter).await?;
            waiters.push((waiter, seat));
        }
        let mut ears = Ears::open(&server)?;
        let_go(&engine, &first).await?;
        ensure_eq!(ears.heard()?.len(), holders, "messages");
        for (waiter, seat) in &waiters[..holders] {
            ensure_eq!(turn(&engine, waiter).await?, Turn::Holds(*seat), "the push");
        }
    }
    Ok(())
}

/// A lease that ended is noticed by whichever verb comes next, and whoever then holds is told by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_verb_that_finds_a_lapsed_place_tells_the_next() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let ttl = Duration::from_millis(100);
    for verb in ["attempt", "try", "renew", "release", "downgrade", "evict"] {
        let (dead, next) = (brief(verb, Mode::Exclusive, ttl)?, claim(verb, Mode::Exclusive)?);
        hold(&engine, &dead).await?;
        let seat = queue(&engine, &next).await?;
        let mut ears = Ears::open(&server)?;
        until_shown(&engine, verb, 1).await?;
        let stranger = claim(verb, Mode::Exclusive)?;
        let held = Held { claim: &stranger, seq: seat.seq };
        match verb {
            "attempt" => drop(queue(&engine, &stranger).await?),
            "try" => {
                drop(engine.attempt(&tenure_core::Claim { patience: Patience::Try, ..stranger }).await?);
            }
            "renew" => drop(engine.renew(&[held]).await?),
            "downgrade" => drop(engine.downgrade(held).await?),
            "release" => drop(engine.release(&stranger, Answered::All).await?),
            _ => {
                let eviction =
                    Eviction { key: stranger.key, id: stranger.id, seq: seat.seq, when: When::Now };
                ensure_eq!(engine.evict(&eviction).await?, Evicted::Gone, "the eviction of nobody");
            }
        }
        ensure_eq!(ears.heard()?.len(), 1, "messages after a lapse that a verb noticed");
        ensure_eq!(turn(&engine, &next).await?, Turn::Holds(seat), "the push after {verb}");
    }
    Ok(())
}

/// An eviction is told to the owner of the place, and what it frees to whoever holds next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_is_told_to_the_owner_and_to_the_next() -> Result {
    let server = forgetful()?;
    let (owner, waiter) = (open(&server.url()).await?, open(&server.url()).await?);
    let (first, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    let seat = hold(&owner, &first).await?.seat;
    let waits = queue(&waiter, &next).await?;
    let mut ears = Ears::open(&server)?;
    let eviction = Eviction { key: first.key.clone(), id: first.id, seq: seat.seq, when: When::Gently };
    ensure_eq!(owner.evict(&eviction).await?, Evicted::Stopped, "a gentle eviction");
    let lost = within("the owner learns of it", owner.lost()).await?;
    ensure_eq!(lost, [(first.id, seat.seq)], "what the owner learns");
    ensure_eq!(ears.heard()?.len(), 1, "messages after a gentle eviction");
    let eviction = Eviction { when: When::Now, ..eviction };
    ensure_eq!(waiter.evict(&eviction).await?, Evicted::Freed, "an eviction at once");
    let kinds: Vec<_> = ears.heard()?.into_iter().map(|(_, kind)| kind).collect();
    ensure_eq!(kinds, ['L', 'H'], "messages after an eviction at once");
    ensure_eq!(turn(&waiter, &next).await?, Turn::Holds(waits), "the push to the next");
    Ok(())
}

/// A downgrade is told to the readers who now hold beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_is_told_to_the_readers_behind() -> Result {
    let server = forgetful()?;
    let engine = open(&server.url()).await?;
    let writer = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &writer).await?.seat.seq;
    let readers = [claim("k", Mode::Shared)?, claim("k", Mode::Shared)?];
    let mut seats = Vec::new();
    for reader in &readers {
        seats.push(queue(&engine, reader).await?);
    }
    let mut ears = Ears::open(&server)?;
    for told in [2, 0] {
        let _ = engine.downgrade(Held { claim: &writer, seq }).await?;
        ensure_eq!(ears.heard()?.len(), told, "messages");
    }
    for (reader, seat) in readers.iter().zip(seats) {
        ensure_eq!(turn(&engine, reader).await?, Turn::Holds(seat), "the push");
    }
    Ok(())
}
