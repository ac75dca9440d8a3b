use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Held, Key, Mode, Note,
    Patience, Place, Released, Renewal, Seq, Ttl,
};
use tenure_memcached::MemcachedEngine;
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    memcached::{Memcached, MemcachedOptions},
};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<MemcachedEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = tenure_memcached::MemcachedOptions::from_url(&mut url)?;
    url.no_more_options(tenure_memcached::OPTIONS)?;
    MemcachedEngine::open(options).await
}

/// A server of this test's own with these arguments.
pub(crate) fn server(args: &[&str]) -> Result<Memcached> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    Memcached::start(MemcachedOptions { args, ..MemcachedOptions::default() })
}

/// An exclusive claim that waits, with a lease of 30 seconds.
pub(crate) fn claim(key: &str) -> Result<Claim> {
    brief(key, Duration::from_secs(30))
}

/// The same with another lease.
pub(crate) fn brief(key: &str, ttl: Duration) -> Result<Claim> {
    Ok(Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::new(ttl)?,
        floor: Seq::ZERO,
        note: Note::new("anna@host:1", "test"),
    })
}

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &MemcachedEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &MemcachedEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &MemcachedEngine, claim: &Claim) -> Result {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        Released::Freed,
        "the release of a claim in the line"
    );
    Ok(())
}

/// Renews one hold.
pub(crate) async fn renew(engine: &MemcachedEngine, claim: &Claim, seq: Seq) -> Result<Renewal, Error> {
    Ok(engine.renew(&[Held { claim, seq }]).await?[0])
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Attempts until the claim holds.
pub(crate) async fn until_held(engine: &MemcachedEngine, claim: &Claim) -> Result<Grant> {
    let attempts = async {
        loop {
            match engine.attempt(claim).await {
                Ok(Attempt::Granted(grant)) => return Ok(grant),
                Ok(Attempt::Busy(_)) => {}
                Err(err) if err.is_retryable() => {}
                Err(err) => return Err(err.into()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the claim holds", attempts).await?
}

pub(crate) async fn line(engine: &MemcachedEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// How many items of ours a server has, besides who it is and what it was tried with.
pub(crate) fn items(server: &Memcached) -> Result<usize> {
    let ours = |item: &&String| item.starts_with("tenure:line:") || item.starts_with("tenure:lease:");
    Ok(server.items()?.iter().filter(ours).count())
}

/// Requires that an error is of this kind, says this, and had no effect.
pub(crate) fn says(err: &Error, kind: tenure_core::ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}
