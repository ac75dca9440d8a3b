//! The steps that rules are made of: each does one thing and says plainly when it went otherwise.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, Engine, Filter, Grant, Held, Key, Patience, Place, Released, Renewal,
    Seat, Seq, Standing, Turn,
};

use crate::{Failure, Result, ensure, ensure_eq};

/// Within this time a release has arrived at all members of a quorum.
const SETTLED: Duration = Duration::from_secs(10);

/// Attempts a claim that must hold at once.
///
/// # Errors
/// If it is busy.
pub async fn hold<E: Engine + ?Sized>(engine: &Arc<E>, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => {
            Err(Failure::new(format!("a claim ({}) that must hold is {busy:?}", claim.mode)))
        }
    }
}

/// Attempts a claim that must be busy.
///
/// # Errors
/// If it holds.
pub async fn wait<E: Engine + ?Sized>(engine: &Arc<E>, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => {
            Err(Failure::new(format!("a claim ({}) that must wait got {grant:?}", claim.mode)))
        }
    }
}

/// Attempts a claim that must wait at a place, and returns its seat.
///
/// # Errors
/// If it holds or was given no place.
pub async fn queue<E: Engine + ?Sized>(engine: &Arc<E>, claim: &Claim) -> Result<Seat> {
    let busy = wait(engine, claim).await?;
    busy.seat.ok_or_else(|| Failure::new("a claim that waits was given no seat"))
}

/// Releases a claim that must have a place.
///
/// # Errors
/// If it had none.
pub async fn let_go<E: Engine + ?Sized>(engine: &Arc<E>, claim: &Claim) -> Result<()> {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        Released::Freed,
        "release of a claim in the line"
    );
    Ok(())
}

/// Renews one hold.
///
/// # Errors
/// If the engine fails or does not give exactly one answer.
pub async fn renew(engine: &Arc<dyn Engine>, claim: &Claim, seq: Seq) -> Result<Renewal> {
    let answers = engine.renew(&[Held { claim, seq }]).await?;
    ensure_eq!(answers.len(), 1, "answers to one renewal");
    Ok(answers[0])
}

/// Requires that a claim holds at this number, by renewing it and by the line.
///
/// # Errors
/// If either says otherwise.
pub async fn still_holds(engine: &Arc<dyn Engine>, claim: &Claim, seq: Seq) -> Result<()> {
    let renewal = renew(engine, claim, seq).await?;
    ensure!(matches!(renewal, Renewal::Renewed(_)), "a hold that nobody may touch is {renewal:?}");
    let line = line(engine, &claim.key).await?;
    let place = line.iter().find(|place| place.id == claim.id);
    ensure!(
        place.is_some_and(|place| place.seq == seq && place.standing == Standing::Holds),
        "the line does not show the holder at {seq}: {line:?}"
    );
    Ok(())
}

/// The line of one key.
///
/// # Errors
/// If the engine fails or shows another key's places.
pub async fn line(engine: &Arc<dyn Engine>, key: &Key) -> Result<Vec<Place>> {
    let line = engine.line(&Filter::Key(key.clone())).await?;
    ensure!(line.iter().all(|place| place.key == *key), "the line of {key:?} shows another key: {line:?}");
    Ok(line)
}

/// How many places of the line belong to this claim.
///
/// # Errors
/// If the engine fails.
pub async fn places(engine: &Arc<dyn Engine>, claim: &Claim) -> Result<usize> {
    Ok(line(engine, &claim.key).await?.iter().filter(|place| place.id == claim.id).count())
}

/// Requires that a claim's place is shown to live for more than this, if the line shows leases.
///
/// # Errors
/// If it is shown to live shorter, or not at all.
pub async fn lives_longer(engine: &Arc<dyn Engine>, claim: &Claim, time: Duration) -> Result<()> {
    let line = line(engine, &claim.key).await?;
    let place = line.iter().find(|place| place.id == claim.id);
    let left = place.ok_or_else(|| Failure::new(format!("the claim has no place: {line:?}")))?.lease_left;
    ensure!(
        left.is_none_or(|left| left > time),
        "a place that lives longer than {time:?} shows {left:?} left"
    );
    Ok(())
}

/// Requires that nobody stands in the line of this key. A release from a quorum is done when a majority has heard of
/// it; the others are given a moment to.
///
/// # Errors
/// If somebody does.
pub async fn nobody(engine: &Arc<dyn Engine>, key: &Key) -> Result<()> {
    let patience = if engine.guarantees().engine == "quorum" { SETTLED } else { Duration::ZERO };
    let give_up = tokio::time::Instant::now() + patience;
    loop {
        let line = line(engine, key).await?;
        if line.is_empty() {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < give_up, "the line must be empty: {line:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Attempts and waits for turns until the claim holds: the smallest acquire loop. A turn that does not come is
/// made up for by asking again after `recheck`.
///
/// # Errors
/// If the claim does not hold within `limit`, or the engine fails.
pub async fn acquire(
    engine: &Arc<dyn Engine>,
    claim: &Claim,
    recheck: Duration,
    limit: Duration,
) -> Result<Grant> {
    let wait = async {
        for round in 0.. {
            if let Attempt::Granted(grant) = engine.attempt(claim).await? {
                return Ok(grant);
            }
            if claim.patience == Patience::Try {
                tokio::time::sleep(recheck).await;
                continue;
            }
            // Either way the next attempt tells: a push is only a hint here, and it may be spurious.
            let _ = tokio::time::timeout(recheck, engine.turn(claim)).await;
            breathe(round).await;
        }
        Err(Failure::new("a claim was attempted too often"))
    };
    tokio::time::timeout(limit, wait)
        .await
        .unwrap_or_else(|_| Err(Failure::new(format!("a claim did not come to hold within {limit:?}"))))
}

/// Waits for a turn and requires that it is worth another attempt which then holds.
///
/// # Errors
/// If none comes within `limit`, it names another seat, or the claim does not hold then.
pub async fn turn(engine: &Arc<dyn Engine>, claim: &Claim, seq: Seq, limit: Duration) -> Result<()> {
    let give_up = tokio::time::Instant::now() + limit;
    for round in 0.. {
        let Ok(turn) = tokio::time::timeout_at(give_up, engine.turn(claim)).await else {
            return Err(Failure::new(format!("no turn came within {limit:?}")));
        };
        if let Turn::Holds(seat) = turn {
            ensure_eq!(seat.seq, seq, "the seat of a push");
        }
        match (turn, engine.attempt(claim).await?) {
            (_, Attempt::Granted(grant)) => {
                ensure_eq!(grant.seat.seq, seq, "the seat after a turn");
                return Ok(());
            }
            // `Again` may be spurious; `Holds` may not.
            (Turn::Again, Attempt::Busy(_)) => breathe(round).await,
            (Turn::Holds(_), Attempt::Busy(busy)) => {
                return Err(Failure::new(format!("the engine pushed a hold that is {busy:?}")));
            }
        }
    }
    Err(Failure::new("too many turns came"))
}

/// Lets others run; after some rounds also lets time pass, so that an engine which answers at once and says
/// nothing new cannot keep virtual time from reaching the limit.
async fn breathe(round: u32) {
    if round < 16 {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(Duration::from_millis(u64::from(round.min(50) / 10))).await;
    }
}
