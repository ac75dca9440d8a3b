use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Key, Mode, Note,
    Patience, Place, Seat, Seq, Ttl, Turn,
};
use tenure_postgres::PostgresEngine;
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    postgres::{Postgres, PostgresOptions},
};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<PostgresEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = tenure_postgres::PostgresOptions::from_url(&mut url)?;
    url.no_more_options(tenure_postgres::OPTIONS)?;
    PostgresEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new(format!("{url} was opened"))),
        Err(err) => Ok(err),
    }
}

/// A server of this test's own with these settings.
pub(crate) fn server(settings: &[&str]) -> Result<Postgres> {
    let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
    Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() })
}

/// A claim that waits, with a lease of 30 seconds.
pub(crate) fn claim(key: &str, mode: Mode) -> Result<Claim> {
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
pub(crate) fn brief(key: &str, ttl: Duration) -> Result<Claim> {
    Ok(Claim { ttl: Ttl::new(ttl)?, ..claim(key, Mode::Exclusive)? })
}

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &PostgresEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &PostgresEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Attempts a claim that must wait, and gives its seat.
pub(crate) async fn queue(engine: &PostgresEngine, claim: &Claim) -> Result<Seat> {
    wait(engine, claim).await?.seat.ok_or_else(|| Failure::new("a claim that waits has no seat"))
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &PostgresEngine, claim: &Claim) -> Result {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        tenure_core::Released::Freed,
        "the release of a claim in the line"
    );
    Ok(())
}

/// The turn of a claim, which must come.
pub(crate) async fn turn(engine: &PostgresEngine, claim: &Claim) -> Result<Turn> {
    within("a turn comes", engine.turn(claim)).await
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Attempts until the claim holds: what expires gives no notice of itself, and a server may be away for a while.
pub(crate) async fn until_held(engine: &PostgresEngine, claim: &Claim) -> Result<Grant> {
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

pub(crate) async fn line(engine: &PostgresEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// How many rows there are that say something of a claim.
pub(crate) fn rows(server: &Postgres) -> Result<u64> {
    count(server, "state < 4")
}

/// How many rows there are like this.
pub(crate) fn count(server: &Postgres, which: &str) -> Result<u64> {
    let answer = server.sql(&format!("SELECT count(*) FROM tenure_places WHERE {which}"))?;
    let number = answer.first().and_then(|row| row.first()?.parse().ok());
    number.ok_or_else(|| Failure::new(format!("not a number: {answer:?}")))
}

/// Waits until a client of ours waits for a key.
pub(crate) async fn somebody_waits(server: &Postgres) -> Result {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure' AND wait_event_type = 'Lock'";
    within("somebody waits for the key", async {
        while server.sql(waits)? != vec![vec!["1".to_owned()]] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Failure>(())
    })
    .await?
}

/// The beginning of a transaction that keeps a key to itself.
pub(crate) fn lock(key: &str) -> String {
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended(encode('{key}', 'hex'), \
         'tenure_places'::regclass::oid::bigint))"
    )
}

/// Requires that an error is of this kind, says this, and had no effect.
pub(crate) fn says(err: &Error, kind: tenure_core::ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}
