use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Key, Mode, Note,
    Patience, Place, Seat, Seq, Ttl, Turn,
};
use tenure_testkit::{Failure, Result, ensure, ensure_eq, zookeeper::Zookeeper};
use tenure_zookeeper::{ZookeeperEngine, ZookeeperOptions};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<ZookeeperEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = ZookeeperOptions::from_url(&mut url)?;
    url.no_more_options(tenure_zookeeper::OPTIONS)?;
    ZookeeperEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new(format!("{url} was opened"))),
        Err(err) => Ok(err),
    }
}

/// A node of this test's own on the server that all share.
pub(crate) fn corner(name: &str) -> Result<String> {
    Ok(Zookeeper::shared()?.url().replace("/tenure", &format!("/{name}-{}", fresh())))
}

fn fresh() -> String {
    ClaimId::fresh().to_string()
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

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &ZookeeperEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &ZookeeperEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Attempts a claim that must wait, and gives its seat.
pub(crate) async fn queue(engine: &ZookeeperEngine, claim: &Claim) -> Result<Seat> {
    wait(engine, claim).await?.seat.ok_or_else(|| Failure::new("a claim that waits has no seat"))
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &ZookeeperEngine, claim: &Claim) -> Result {
    ensure_eq!(
        engine.release(claim, Answered::All).await?,
        tenure_core::Released::Freed,
        "the release of a claim in the line"
    );
    Ok(())
}

/// The turn of a claim, which must come.
pub(crate) async fn turn(engine: &ZookeeperEngine, claim: &Claim) -> Result<Turn> {
    within("a turn comes", engine.turn(claim)).await
}

/// The turn has come: the claim is told that it holds or, while something on its session is still unread, to ask.
pub(crate) fn noticed(turn: Turn, seat: Seat) -> Result {
    ensure!(turn == Turn::Holds(seat) || turn == Turn::Again, "{turn:?}");
    Ok(())
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Asks again until the engine can answer: a connection may have to be made first.
pub(crate) async fn again<T>(what: &str, mut ask: impl AsyncFnMut() -> tenure_core::Result<T>) -> Result<T> {
    let asked = async {
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(err) if err.is_retryable() => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(err) => return Err(err.into()),
            }
        }
    };
    within(what, asked).await?
}

pub(crate) async fn line(engine: &ZookeeperEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}
