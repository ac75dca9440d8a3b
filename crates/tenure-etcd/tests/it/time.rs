//! From when a promise counts.

use std::time::Duration;

use tenure_core::Engine;
use tenure_testkit::{
    Result, ensure,
    etcd::Etcd,
    proxy::{Proxy, Way},
};

use crate::support::{claim, hold, open, renewed};

/// A lease that was kept alive by an answer that came late counts from before it was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_promises_no_more_than_one_in_time() -> Result {
    const LATE: Duration = Duration::from_millis(600);
    let proxy = Proxy::start(Etcd::shared()?.addr())?;
    let engine = open(&format!("etcd://{}?ns=late", proxy.addr())).await?;
    let held = claim("held")?;
    let seq = hold(&engine, &held).await?.seat.seq;
    proxy.delay(Way::Down, LATE)?;
    ensure!(renewed(&engine, &held, seq).await?, "the hold is lost");
    proxy.heal()?;
    // Nothing has kept the lease alive since: what is left of it is what is promised.
    let other = claim("other")?;
    let left = hold(&engine, &other).await?.ttl.unwrap_or_default();
    ensure!(left <= other.ttl.get() - LATE, "{left:?} were promised of {:?}", other.ttl);
    ensure!(left > other.ttl.get() / 2, "only {left:?} were promised of {:?}", other.ttl);
    // The same for who waits, and for the lease's first time.
    let fresh = open(&format!("etcd://{}?ns=late", proxy.addr())).await?;
    proxy.delay(Way::Down, LATE)?;
    let left = fresh.attempt(&claim("fresh")?).await?;
    ensure!(
        matches!(left, tenure_core::Attempt::Granted(grant) if grant.ttl.is_some_and(|ttl| ttl <= other.ttl.get())),
        "the first grant is {left:?}"
    );
    proxy.heal()?;
    let left = hold(&fresh, &claim("then")?).await?.ttl.unwrap_or_default();
    ensure!(left <= other.ttl.get() - LATE, "{left:?} were promised of {:?}", other.ttl);
    Ok(())
}
