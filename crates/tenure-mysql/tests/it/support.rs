use std::{future::Future, sync::Arc, time::Duration};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Engine, EngineUrl, Error, Filter, Grant, Held, Key, Mode, Note,
    Patience, Place, Renewal, Seq, Ttl,
};
use tenure_mysql::{MysqlEngine, MysqlOptions};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    mariadb::{MariaDb, MariaDbOptions},
};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<MysqlEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = MysqlOptions::from_url(&mut url)?;
    url.no_more_options(&[])?;
    MysqlEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    match open(url).await {
        Ok(_) => Err(Failure::new(format!("{url} was opened"))),
        Err(err) => Ok(err),
    }
}

/// A server of this test's own with some settings.
pub(crate) fn server(settings: &[&str]) -> Result<MariaDb> {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    MariaDb::start(MariaDbOptions { settings, ..MariaDbOptions::default() })
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

pub(crate) fn exclusive(key: &str) -> Result<Claim> {
    claim(key, Mode::Exclusive)
}

/// Attempts a claim that must hold.
pub(crate) async fn hold(engine: &MysqlEngine, claim: &Claim) -> Result<Grant> {
    match engine.attempt(claim).await? {
        Attempt::Granted(grant) => Ok(grant),
        Attempt::Busy(busy) => Err(Failure::new(format!("a claim that must hold is {busy:?}"))),
    }
}

/// Attempts a claim that must wait.
pub(crate) async fn wait(engine: &MysqlEngine, claim: &Claim) -> Result<Busy> {
    match engine.attempt(claim).await? {
        Attempt::Busy(busy) => Ok(busy),
        Attempt::Granted(grant) => Err(Failure::new(format!("a claim that must wait got {grant:?}"))),
    }
}

/// Renews one hold.
pub(crate) async fn renew(engine: &MysqlEngine, claim: &Claim, seq: Seq) -> Result<Renewal, Error> {
    Ok(engine.renew(&[Held { claim, seq }]).await?[0])
}

/// Releases a claim that must have had a place.
pub(crate) async fn let_go(engine: &MysqlEngine, claim: &Claim) -> Result {
    let released = engine.release(claim, Answered::All).await?;
    ensure_eq!(released, tenure_core::Released::Freed, "the release of a claim in the line");
    Ok(())
}

/// What happens within the limit.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| Failure::new(format!("waited {LIMIT:?} in vain until {what}")))
}

/// Repeats a verb until the server is there again.
pub(crate) async fn again<T>(what: &str, mut verb: impl AsyncFnMut() -> Result<T, Error>) -> Result<T> {
    let tries = async {
        loop {
            match tokio::time::timeout(LIMIT / 20, verb()).await {
                Ok(Err(err)) if !err.is_retryable() => return Err(Failure::from(err)),
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(_) => {}
            }
        }
    };
    within(what, tries).await?
}

pub(crate) async fn line(engine: &MysqlEngine, key: &str) -> Result<Vec<Place>> {
    Ok(engine.line(&Filter::Key(Key::new(key)?)).await?)
}

/// How many keys there are that somebody wants, and how many places.
pub(crate) fn rows(server: &MariaDb) -> Result<(String, String)> {
    let mut rows = server.sql(
        "SET @none = REPEAT(CHAR(0), 16); SELECT COUNT(*) FROM tenure_lines WHERE many > 0 OR id <> @none;
         SELECT (SELECT COUNT(*) FROM tenure_places) + COUNT(*) FROM tenure_lines WHERE id <> @none",
    )?;
    let mut next = || rows.pop().and_then(|mut row| row.pop()).unwrap_or_default();
    let places = next();
    Ok((next(), places))
}

/// The key's hash, as it stands in statements.
pub(crate) fn hash(key: &str) -> Result<String> {
    let digest = Key::new(key)?.digest();
    Ok(format!("X'{}'", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// Sets the deadlines of all places of a key, wherever they stand.
pub(crate) fn deadlines(server: &MariaDb, key: &str, to: &str) -> Result {
    let h = hash(key)?;
    server.sql(&format!(
        "UPDATE tenure_lines SET deadline = {to} WHERE h = {h}; UPDATE tenure_places SET deadline = {to} WHERE h = {h}"
    ))?;
    Ok(())
}

/// Requires that an error is of this kind, says this, and had no effect.
pub(crate) fn says(err: &Error, kind: tenure_core::ErrorKind, text: &str) -> Result {
    ensure!(err.kind() == kind, "the error is {:?}, not {kind:?}: {err}", err.kind());
    ensure!(err.to_string().contains(text), "the error does not say `{text}`: {err}");
    ensure!(!err.may_have_applied(), "the error may have applied: {err}");
    Ok(())
}

/// Waits until some transaction waits for a row.
pub(crate) async fn until_waiting(server: &MariaDb) -> Result {
    let look = async {
        loop {
            let rows = server
                .sql("SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'")?;
            if rows[0][0] != "0" {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    };
    within("somebody waits", look).await?
}
