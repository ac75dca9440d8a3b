//! From when a promise counts.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::future::{Either, select};
use tenure_core::{Engine, Evicted, Eviction, Renewal, When};
use tenure_testkit::{
    Failure, Result, ensure, ensure_eq,
    etcd::{Etcd, EtcdOptions},
    own,
    proxy::{Flow, Proxy, Way},
};

use crate::support::{claim, eventually, hold, open, renewed};

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

/// A holder that is renewed while an operator is about to evict it gently, and then hears nothing more, is followed by nobody
/// before its time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gently_evicted_place_outlives_what_its_holder_was_promised() -> Result {
    evicted_during_a_renewal(false).await
}

/// Nor if the operator dies as soon as it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_so_if_the_operator_dies() -> Result {
    evicted_during_a_renewal(true).await
}

async fn evicted_during_a_renewal(operator_dies: bool) -> Result {
    let server = Etcd::start(EtcdOptions::default())?;
    let (admin, proxy) = (server.admin(), Proxy::start(server.addr())?);
    let holder = open(&server.url()).await?;
    let operator = open(&format!("etcd://{}", proxy.addr())).await?;
    let held = own::brief("k", Duration::from_secs(15))?;
    let seq = hold(&holder, &held).await?.seat.seq;
    let kept_by = || admin.lease_of("tenure/line/k#");
    let first = kept_by()?;
    // By then what is left of the lease is less than a renewal gives.
    eventually("some of the lease is over", async || Ok(admin.seconds_left(&first)? < 14)).await?;
    let eviction = Eviction { key: held.key.clone(), id: held.id, seq, when: When::Gently };
    proxy.delay(Way::Down, Duration::from_millis(200))?;
    let renewal = async {
        eventually("there is a lease to move the place to", async || Ok(admin.leases()?.len() > 1)).await?;
        proxy.flow(Way::Down, Flow::Hold)?;
        // The later the renewal, the longer it promises.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        let answer = own::renew(&holder, &held, seq).await?;
        proxy.flow(Way::Down, Flow::Forward)?;
        eventually("the place is moved", async || Ok(kept_by()? != first)).await?;
        match answer {
            Renewal::Renewed(Some(left)) => Ok(asked + left),
            answer => Err(Failure::new(format!("the renewal is {answer:?}"))),
        }
    };
    let promised = match select(operator.evict(&eviction), pin!(renewal)).await {
        Either::Left((evicted, _)) => {
            return Err(Failure::new(format!("it was evicted before it was renewed: {evicted:?}")));
        }
        Either::Right((promised, evict)) => {
            if operator_dies {
                drop(evict);
            } else {
                ensure_eq!(evict.await?, Evicted::Stopped, "the eviction");
            }
            promised?
        }
    };
    // What the server says is rounded down: when it changes, it is exact.
    let last = kept_by()?;
    let left = admin.seconds_left(&last)?;
    eventually("a second passes", async || Ok(admin.seconds_left(&last)? < left)).await?;
    let ends = Instant::now() + Duration::from_secs(left.unsigned_abs());
    ensure!(ends >= promised, "the place ends {:?} too early", promised - ends);
    let whole = Instant::now() + held.ttl.get();
    ensure!(operator_dies || ends <= whole, "the place ends {:?} later than it must", ends - whole);
    Ok(())
}
