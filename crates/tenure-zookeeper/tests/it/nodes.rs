//! What is kept in the servers, and for how long.

use std::time::Duration;

use tenure_core::{Claim, Engine, Mode, Ttl};
use tenure_testkit::{Result, ensure, ensure_eq, zookeeper::Zookeeper};

use crate::support::{claim, corner, hold, let_go, noticed, open, queue, refusal, turn, within};

/// A client that is dropped closes its sessions, and its places are gone at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_takes_its_places_along() -> Result {
    let url = corner("gone")?;
    let (here, there) = (open(&url).await?, open(&url).await?);
    let (held, next) = (claim("k", Mode::Exclusive)?, claim("k", Mode::Exclusive)?);
    hold(&here, &held).await?;
    let seat = queue(&there, &next).await?;
    drop(here);
    noticed(turn(&there, &next).await?, seat)?;
    let_go(&there, &next).await
}

/// Places of one ttl share a session, those of another have another; beyond some there are no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_for_each_ttl_but_not_for_very_many() -> Result {
    let server = Zookeeper::start(&tenure_testkit::zookeeper::ZookeeperOptions::default())?;
    let engine = open(&server.url()).await?;
    let mut held = Vec::new();
    for ttl in (5..25).flat_map(|secs| [secs, secs]) {
        let ttl = Ttl::new(Duration::from_secs(ttl))?;
        let claim = Claim { ttl, ..claim(&format!("k{}", held.len()), Mode::Exclusive)? };
        let grant = hold(&engine, &claim).await?;
        ensure!(
            grant.ttl.is_some_and(|granted| granted <= ttl.get()),
            "{ttl:?} was granted as {:?}",
            grant.ttl
        );
        held.push(claim);
    }
    ensure_eq!(server.connections()?, 8, "sessions");
    for claim in &held {
        let_go(&engine, claim).await?;
    }
    drop(engine);
    let gone = async {
        while server.connections().is_ok_and(|count| count > 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("it hangs up", gone).await
}

/// One node is one engine, whoever opens it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_is_known_by_its_node() -> Result {
    let url = corner("deep/er/and/deeper")?;
    let engine = open(&url).await?;
    let identity = engine.identity();
    ensure_eq!(open(&url).await?.identity(), identity, "the identity that another one reads");
    ensure!(open(&corner("other")?).await?.identity() != identity, "two nodes are one engine");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_there_or_somebody_else_is_said_to_be() -> Result {
    for (url, text) in [
        ("zookeeper://127.0.0.1:1", "127.0.0.1:1 does not serve"),
        ("zookeeper://no-such-host.invalid", "does not serve"),
    ] {
        let err = refusal(url).await?;
        ensure!(err.is_retryable() && err.to_string().contains(text), "{err}");
        ensure!(!err.may_have_applied(), "{err}");
    }
    Ok(())
}
