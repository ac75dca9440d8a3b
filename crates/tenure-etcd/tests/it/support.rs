use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Held, Key, Mode, Note,
    Patience, Place, Released, Renewal, Seq, Ttl,
};
use tenure_etcd::{EtcdEngine, EtcdOptions};
use tenure_testkit::{Failure, Result, ensure, ensure_eq};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<EtcdEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = EtcdOptions::from_url(&mut url)?;
    url.no_more_options(tenure_etcd::OPTIONS)?;
    EtcdEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new(format!("{url} was opened"))),
        Err(err) => Ok(err),
    }
}

/// An exclusive claim that waits, with a lease of 30 seconds.
pub(crate) fn claim(key: &str) -> Result<Claim> {
    Ok(Claim {
        key: Key::new(key)?,
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::new(Duration::from_secs(30))?,
        floor: Seq::ZERO,
        note: Note::new("anna@host:1", "test"),
    })
}

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &EtcdEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &EtcdEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &EtcdEngine, claim: &Claim) -> Result {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        Released::Freed,
        "the release of a claim in the line"
    );
    Ok(())
}

/// Whether a hold is renewed.
pub(crate) async fn renewed(engine: &EtcdEngine, claim: &Claim, seq: Seq) -> Result<bool> {
    let answers = engine.renew(&[Held { claim, seq }]).await?;
    ensure_eq!(answers.len(), 1, "answers to one renewal");
    Ok(matches!(answers[0], Renewal::Renewed(_)))
}

pub(crate) async fn line(engine: &EtcdEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Asks until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result {
    let asked = async {
        while !is_so().await? {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    within(what, asked).await?
}

/// Requires that an error is of this kind, says this, and had no effect.
pub(crate) fn says(err: &Error, kind: tenure_core::ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}
