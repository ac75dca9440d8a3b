//! A standby takes over: behind an address that stays the same, or as another host of the URL.

use std::time::Instant;

use tenure::{ErrorKind, Failover, Grade, Loss};
use tenure_testkit::postgres::{Postgres, PostgresOptions};

use crate::bed::{
    LIMIT, client, empties, eventually, gets, renewed_since, secs, server, told, value, waits, way_to,
};

/// A server and one that copies it; a commit waits for the copy if that is asked for.
async fn pair(synchronous: bool) -> (Postgres, Postgres) {
    let primary = server(&[]);
    let standby = primary.standby(PostgresOptions::default()).unwrap();
    let streams = async || match &*value(&primary, "SELECT count(*) FROM pg_stat_replication") {
        "1" => Ok(()),
        other => Err(format!("{other} standbys")),
    };
    eventually("the standby streams", LIMIT, streams).await;
    if synchronous {
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
        primary.sql("SELECT pg_reload_conf()").unwrap();
        let waits = async || match &*value(&primary, "SELECT sync_state FROM pg_stat_replication") {
            "sync" => Ok(()),
            other => Err(other.to_owned()),
        };
        eventually("commits wait for the standby", LIMIT, waits).await;
    }
    (primary, standby)
}

fn take_over(primary: &Postgres, standby: &Postgres) {
    primary.kill().unwrap();
    assert_eq!(value(standby, "SELECT pg_promote()"), "t");
}

/// With a synchronous standby nothing is forgotten: the holder goes on, the waiter keeps its place, fences rise.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_synchronous_standby_takes_over_with_all_locks() {
    for several in [false, true] {
        let (primary, standby) = pair(true).await;
        let (proxy, [through, _]) = way_to(&primary);
        let hosts = format!("{},{}", primary.addr(), standby.addr());
        let url = if several { primary.url().replace(&primary.addr().to_string(), &hosts) } else { through };
        let ttl = secs(12);
        let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
        let promised = here.guarantees();
        assert_eq!((promised.grade, promised.failover), (Grade::Fenced, Failover::Keeps));
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        take_over(&primary, &standby);
        proxy.retarget(standby.addr()).unwrap();
        proxy.reset().unwrap();
        renewed_since(&held, ttl, Instant::now()).await;
        assert!(!waiting.is_finished());
        let fence = held.fence();
        held.release().await.unwrap();
        let next = gets(waiting).await;
        assert!(next.fence() > fence, "the fences went back");
        next.release().await.unwrap();
        empties(&here, "k").await;
    }
}

/// A standby that learns of locks later is graded so. What it missed, the holder is told by its next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_standby_that_lags_may_forget_and_says_so() {
    let (primary, standby) = pair(false).await;
    let (proxy, [url, _]) = way_to(&primary);
    let ttl = secs(12);
    let here = client(&url, ttl).await;
    assert_eq!((here.guarantees().grade, here.guarantees().failover), (Grade::Leased, Failover::MayForget));
    // It hears nothing more, as if it were behind.
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    standby.sql("SELECT pg_reload_conf()").unwrap();
    let alone = async || match &*value(&primary, "SELECT count(*) FROM pg_stat_replication") {
        "0" => Ok(()),
        other => Err(format!("{other} standbys")),
    };
    eventually("the standby hears nothing", LIMIT, alone).await;
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    take_over(&primary, &standby);
    proxy.retarget(standby.addr()).unwrap();
    proxy.reset().unwrap();
    assert_eq!(told(&held, ttl).await, Loss::Gone);
    drop(held);
    here.mutex("k").unwrap().acquire().await.unwrap().release().await.unwrap();
    empties(&here, "k").await;
}

/// A standby grants nothing, and is not taken for a server that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_alone_is_refused() {
    let (primary, standby) = pair(false).await;
    let open = async |url: &str| {
        let options = tenure_postgres::PostgresOptions::from_url(&mut url.parse().unwrap()).unwrap();
        tenure_postgres::PostgresEngine::open(options).await
    };
    let err = open(&standby.url()).await.err().unwrap();
    assert_eq!(err.kind(), ErrorKind::Invalid, "{err}");
    assert!(err.to_string().contains("is a standby"), "{err}");
    // The order in which they are named does not matter.
    let hosts = format!("{},{}", standby.addr(), primary.addr());
    open(&primary.url().replace(&primary.addr().to_string(), &hosts)).await.unwrap();
}
