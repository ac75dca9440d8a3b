//! What the own tests of an engine are made of, beside the suite that all engines pass.
//!
//! They know their engine by its type and open it by a URL; whatever else they need is in their `support.rs`.

use std::{sync::Arc, time::Duration};

use tenure_core::{
    Attempt, Claim, ClaimId, Engine, Error, ErrorKind, Filter, Grant, Held, Key, Mode, Note, Patience, Place,
    Renewal, Seq, Ttl, Turn,
};

pub use crate::steps::{hold, let_go, queue, wait};
use crate::{Failure, Result, ensure};

/// How long anything may take that is expected to happen.
pub const LIMIT: Duration = Duration::from_secs(15);

/// The error that opening an engine must have given.
///
/// # Errors
/// If it was opened.
pub fn refused<E>(opened: Result<E, Error>) -> Result<Error> {
    opened.err().ok_or_else(|| Failure::new("an engine that must be refused was opened"))
}

/// Requires that an error is of this kind, says this, and had no effect.
///
/// # Errors
/// If it is another.
pub fn says(err: &Error, kind: ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}

/// A claim that waits, with a lease of 30 seconds.
///
/// # Errors
/// If the key is none.
pub fn claim(key: &str, mode: Mode) -> Result<Claim> {
    Ok(Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode,
        patience: Patience::Queue,
        ttl: Ttl::new(Duration::from_secs(30))?,
        floor: Seq::ZERO,
        note: Note::new("anna@host:1", "test"),
    })
}

/// The same, exclusive, with another lease.
///
/// # Errors
/// If the key is none, or the lease.
pub fn brief(key: &str, ttl: Duration) -> Result<Claim> {
    Ok(Claim { ttl: Ttl::new(ttl)?, ..claim(key, Mode::Exclusive)? })
}

/// Renews one hold.
///
/// # Errors
/// As the engine says.
pub async fn renew<E: Engine>(engine: &Arc<E>, claim: &Claim, seq: Seq) -> Result<Renewal, Error> {
    Ok(engine.renew(&[Held { claim, seq }]).await?[0])
}

/// The line of a key.
///
/// # Errors
/// If the engine fails.
pub async fn line<E: Engine>(engine: &Arc<E>, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// What happens within the limit.
///
/// # Errors
/// If it does not.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// The turn of a claim, which must come.
///
/// # Errors
/// If it does not.
pub async fn turn<E: Engine>(engine: &Arc<E>, claim: &Claim) -> Result<Turn> {
    within("a turn comes", engine.turn(claim)).await
}

/// Attempts until the claim holds: what expires gives no notice of itself, and a server may be away for a while.
///
/// # Errors
/// If it does not hold in time, or the engine fails for good.
pub async fn until_held<E: Engine>(engine: &Arc<E>, claim: &Claim) -> Result<Grant> {
    let attempts = async {
        loop {
            let next = match engine.attempt(claim).await {
                Ok(Attempt::Granted(grant)) => return Ok(grant),
                Ok(Attempt::Busy(busy)) => busy.lapses_in.unwrap_or_default(),
                Err(err) if err.is_retryable() => Duration::from_millis(10),
                Err(err) => return Err(err.into()),
            };
            tokio::time::sleep(next + Duration::from_millis(1)).await;
        }
    };
    within("the claim holds", attempts).await?
}
