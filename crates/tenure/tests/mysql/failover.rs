//! A replica takes over behind an address that stays the same. It learns of locks after they were granted.

use std::time::Instant;

use tenure::{Grade, Loss};
use tenure_testkit::{mariadb::MariaDb, proxy::Proxy};

use crate::bed::{
    LIMIT, client, empties, eventually, gets, renewed_since, secs, server, url_at, waits, within,
};

/// Two servers, the second a replica of the first, and the address that leads to the first.
struct Pair {
    primary: MariaDb,
    replica: MariaDb,
    proxy: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let settings = |id| {
            [
                "log-bin".to_owned(),
                "sync_binlog=1".to_owned(),
                "log_slave_updates=ON".to_owned(),
                format!("server_id={id}"),
            ]
        };
        let start = |id| server(&settings(id).each_ref().map(String::as_str));
        let (primary, replica) = (start(1), start(2));
        replica
            .sql(&format!(
                "SET GLOBAL read_only = 1;
                 CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root',
                   MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos;
                 START SLAVE",
                primary.port()
            ))
            .unwrap();
        let connected = async || match primary.sql("SHOW GLOBAL STATUS LIKE 'Slaves_connected'") {
            Ok(rows) if rows[0][1] == "1" => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually("the replica is connected", LIMIT, connected).await;
        let proxy = Proxy::start(primary.addr()).unwrap();
        Self { primary, replica, proxy }
    }

    /// Waits until the replica has all that the primary has.
    async fn same(&self) {
        let written = self.primary.sql("SELECT @@GLOBAL.gtid_binlog_pos").unwrap();
        let wait = format!("SELECT MASTER_GTID_WAIT('{}', 10)", written[0][0]);
        assert_eq!(self.replica.sql(&wait).unwrap(), [["0"]], "the replica did not catch up");
    }

    fn fail_over(&self) {
        self.primary.kill().unwrap();
        self.replica.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").unwrap();
        self.proxy.retarget(self.replica.addr()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_replica_had_learned_goes_on_there() {
    let pair = Pair::start().await;
    let (ttl, url) = (secs(10), url_at(pair.proxy.addr()));
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    assert_eq!(here.guarantees().grade, Grade::Leased, "with a replica that learns late");
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    pair.same().await;
    pair.fail_over();
    renewed_since(&held, ttl, Instant::now()).await;
    assert!(!waiting.is_finished(), "two hold the lock");
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence, "{} after {fence}", next.fence());
    next.release().await.unwrap();
    empties(&there, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_replica_had_not_learned_is_lost_and_the_holder_is_told() {
    let pair = Pair::start().await;
    let (ttl, url) = (secs(10), url_at(pair.proxy.addr()));
    let client = client(&url, ttl).await;
    pair.same().await;
    pair.replica.sql("STOP SLAVE").unwrap();
    let held = client.mutex("k").unwrap().acquire().await.unwrap();
    pair.fail_over();
    assert_eq!(within("the holder is told", held.lost()).await, Loss::Gone);
    let fence = held.fence();
    drop(held);
    // The clock keeps fences apart, though the number that was drawn is forgotten.
    let next = within("it is free", client.mutex("k").unwrap().acquire()).await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&client, "k").await;
}

/// A primary that has become a replica refuses, and nobody believes what it said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_demoted_is_left() {
    let pair = Pair::start().await;
    // Root may write to a replica; those who use locks must not.
    pair.primary.add_user("app", "hunter2").unwrap();
    pair.primary.sql("GRANT ALL ON tenure.* TO app").unwrap();
    pair.same().await;
    let (ttl, url) = (secs(10), url_at(pair.proxy.addr()).replace("root@", "app:hunter2@"));
    let client = client(&url, ttl).await;
    let held = client.mutex("k").unwrap().acquire().await.unwrap();
    pair.same().await;
    pair.primary.sql("SET GLOBAL read_only = 1").unwrap();
    pair.same().await;
    pair.replica.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").unwrap();
    // Connections to the old one stay as they are; only new ones lead elsewhere.
    pair.proxy.retarget(pair.replica.addr()).unwrap();
    renewed_since(&held, ttl, Instant::now()).await;
    held.release().await.unwrap();
    empties(&client, "k").await;
}
