use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, EngineUrl, Error, Key, Mode};
use tenure_mysql::{MysqlEngine, MysqlOptions};
pub(crate) use tenure_testkit::own::{claim, hold, let_go, line, renew, says, wait, within};
use tenure_testkit::{
    Failure, Result,
    mariadb::{MariaDb, MariaDbOptions},
    own,
};

/// How long a try may take that is made again.
const TRY: Duration = Duration::from_millis(500);

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<MysqlEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = MysqlOptions::from_url(&mut url)?;
    url.no_more_options(&[])?;
    MysqlEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    own::refused(open(url).await)
}

/// A server of this test's own with some settings.
pub(crate) fn server(settings: &[&str]) -> Result<MariaDb> {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    MariaDb::start(MariaDbOptions { settings, ..MariaDbOptions::default() })
}

pub(crate) fn exclusive(key: &str) -> Result<Claim> {
    claim(key, Mode::Exclusive)
}

/// Repeats a verb until the server is there again.
pub(crate) async fn again<T>(what: &str, mut verb: impl AsyncFnMut() -> Result<T, Error>) -> Result<T> {
    let tries = async {
        loop {
            match tokio::time::timeout(TRY, verb()).await {
                Ok(Err(err)) if !err.is_retryable() => return Err(Failure::from(err)),
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                Err(_) => {}
            }
        }
    };
    within(what, tries).await?
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
