use std::{sync::Arc, time::Duration};

use tenure_core::{Attempt, Claim, Engine, EngineUrl, Error, Grant, Mode};
use tenure_memcached::MemcachedEngine;
pub(crate) use tenure_testkit::own::{LIMIT, brief, hold, let_go, line, renew, says, wait, within};
use tenure_testkit::{
    Result,
    memcached::{Memcached, MemcachedOptions},
    own,
};

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
    own::claim(key, Mode::Exclusive)
}

/// Attempts until the claim holds. When the ones ahead leave is not known here, so it asks again and again.
pub(crate) async fn until_held(engine: &Arc<MemcachedEngine>, claim: &Claim) -> Result<Grant> {
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

/// How many items of ours a server has, besides who it is and what it was tried with.
pub(crate) fn items(server: &Memcached) -> Result<usize> {
    let ours = |item: &&String| item.starts_with("tenure:line:") || item.starts_with("tenure:lease:");
    Ok(server.items()?.iter().filter(ours).count())
}
