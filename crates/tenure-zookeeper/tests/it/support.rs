use std::{sync::Arc, time::Duration};

use tenure_core::{ClaimId, EngineUrl, Error, Seat, Turn};
pub(crate) use tenure_testkit::own::{claim, hold, let_go, line, queue, turn, within};
use tenure_testkit::{Result, ensure, own, zookeeper::Zookeeper};
use tenure_zookeeper::{ZookeeperEngine, ZookeeperOptions};

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<ZookeeperEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = ZookeeperOptions::from_url(&mut url)?;
    url.no_more_options(tenure_zookeeper::OPTIONS)?;
    ZookeeperEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    own::refused(open(url).await)
}

/// A node of this test's own on the server that all share.
pub(crate) fn corner(name: &str) -> Result<String> {
    Ok(Zookeeper::shared()?.url().replace("/tenure", &format!("/{name}-{}", fresh())))
}

fn fresh() -> String {
    ClaimId::fresh().to_string()
}

/// The turn has come: the claim is told that it holds or, while something on its session is still unread, to ask.
pub(crate) fn noticed(turn: Turn, seat: Seat) -> Result {
    ensure!(turn == Turn::Holds(seat) || turn == Turn::Again, "{turn:?}");
    Ok(())
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
