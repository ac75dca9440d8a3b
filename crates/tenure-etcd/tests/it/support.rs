use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, EngineUrl, Error, Mode, Renewal, Seq};
use tenure_etcd::{EtcdEngine, EtcdOptions};
pub(crate) use tenure_testkit::own::{hold, let_go, line, says, wait, within};
use tenure_testkit::{Result, own};

/// Opens an engine by its URL.
pub(crate) async fn open(url: &str) -> Result<Arc<EtcdEngine>, Error> {
    let mut url: EngineUrl = url.parse()?;
    let options = EtcdOptions::from_url(&mut url)?;
    url.no_more_options(tenure_etcd::OPTIONS)?;
    EtcdEngine::open(options).await
}

/// The error that opening this URL gives.
pub(crate) async fn refusal(url: &str) -> Result<Error> {
    own::refused(open(url).await)
}

/// An exclusive claim that waits, with a lease of 30 seconds.
pub(crate) fn claim(key: &str) -> Result<Claim> {
    own::claim(key, Mode::Exclusive)
}

/// Whether a hold is renewed.
pub(crate) async fn renewed(engine: &Arc<EtcdEngine>, claim: &Claim, seq: Seq) -> Result<bool> {
    Ok(matches!(own::renew(engine, claim, seq).await?, Renewal::Renewed(_)))
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
