//! Transactions that are committed only while the lock is held, where lock and data share a database.

use std::{sync::Arc, time::Duration};

use tenure::{
    Client, Engine, EngineUrl, ErrorKind, Evicted, Eviction, Guard, Settings, When, fence::StillHeld,
};
use tenure_mysql::{MysqlEngine, MysqlOptions};
use tenure_postgres::{PostgresEngine, PostgresOptions};

use crate::{
    bed::{fresh, within},
    links::{Link, Waiter, mariadb, postgres, until_somebody_waits},
    sites::{InRow, Row, Site},
};

macro_rules! on_every_driver {
    ($($rule:ident)+) => {$(
        mod $rule {
            on_every_driver! { @ $rule
                sqlx_mysql sqlx::MySqlConnection, mysql_async mysql_async::Conn,
                sqlx_postgres sqlx::PgConnection, tokio_postgres tokio_postgres::Client,
            }
        }
    )+};
    (@ $rule:ident $($name:ident $link:ty,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let bed = super::Bed::<$link>::new().await;
            crate::bed::within("the rule is tried", super::$rule(bed)).await;
        }
    )+};
}

on_every_driver! {
    who_holds_may_commit
    a_lock_that_ended_on_the_server_may_not
    an_evicted_holder_may_not
    nobody_gets_the_lock_between_the_answer_and_the_commit
    a_lock_that_is_handed_over_in_the_process_is_refused
    readers_may_commit_beside_each_other
}

/// Locks in tables of the test's own, a row, and a connection.
struct Bed<L> {
    table: String,
    url: String,
    still_held: StillHeld,
    site: InRow<L>,
    row: Row<L>,
}

impl<L: Link> Bed<L> {
    async fn new() -> Self {
        let table = fresh("held").replace('-', "_");
        let url = format!("{}?table={table}", if L::IS_MYSQL { mariadb() } else { postgres() });
        let site = InRow::new().await;
        let row = site.way().await;
        Self { table, still_held: StillHeld::from_url(&url).unwrap(), url, site, row }
    }

    async fn client(&self) -> Client {
        let mut url: EngineUrl = self.url.parse().unwrap();
        let engine: Arc<dyn Engine> = if L::IS_MYSQL {
            MysqlEngine::open(MysqlOptions::from_url(&mut url).unwrap()).await.unwrap()
        } else {
            PostgresEngine::open(PostgresOptions::from_url(&mut url).unwrap()).await.unwrap()
        };
        Client::new(engine, Settings::default()).unwrap()
    }

    /// Writes in a transaction that is committed if the lock is held.
    async fn write(&mut self, guard: &Guard, value: i64) -> tenure::Result<()> {
        self.row.link.sql("BEGIN").await.unwrap();
        self.row.set(value).await;
        let answer = self.still_held.check(&mut self.row.link, guard).await;
        self.row.end(answer).await
    }
}

async fn who_holds_may_commit<L: Link>(mut bed: Bed<L>) {
    let client = bed.client().await;
    let guard = client.mutex("counter").unwrap().fair().acquire().await.unwrap();
    for value in 1..3 {
        bed.write(&guard, value).await.unwrap();
        assert_eq!(bed.row.get().await, value);
    }
    guard.release().await.unwrap();
    let term = client.election("counter").unwrap().campaign("me").await.unwrap();
    bed.write(&term, 3).await.unwrap();
    client.close().await;
}

/// The server forgot the hold, or its lease ended there, and the holder does not know.
async fn a_lock_that_ended_on_the_server_may_not<L: Link>(mut bed: Bed<L>) {
    let client = bed.client().await;
    let guard = client.mutex("counter").unwrap().fair().acquire().await.unwrap();
    let (id, table) = (guard.claim_id(), bed.table.clone());
    let place = if L::IS_MYSQL { format!("UNHEX('{id}')") } else { format!("'{id}'::uuid") };
    let mut admin = L::open().await;
    // MySQL keeps who is alone on a key in the row of that key.
    let home = if L::IS_MYSQL { "lines" } else { "places" };
    admin.sql(&format!("UPDATE {table}_{home} SET deadline = 1 WHERE id = {place}")).await.unwrap();
    assert!(guard.check().is_ok(), "the holder does not know");
    let err = bed.write(&guard, 1).await.unwrap_err();
    assert_eq!((err.kind(), err.key().unwrap().as_str()), (ErrorKind::Lost, "counter"), "{err}");
    assert_eq!(bed.row.get().await, 0, "what was rolled back is there");
    admin.sql(&format!("DELETE FROM {table}_{home} WHERE id = {place}")).await.unwrap();
    assert_eq!(bed.write(&guard, 1).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(bed.row.get().await, 0);
}

async fn an_evicted_holder_may_not<L: Link>(mut bed: Bed<L>) {
    let (client, operator) = (bed.client().await, bed.client().await);
    for when in [When::Gently, When::Now] {
        let key = fresh("counter");
        let guard = client.mutex(key.as_str()).unwrap().fair().acquire().await.unwrap();
        let eviction =
            Eviction { key: guard.key().clone(), id: guard.claim_id(), seq: guard.fence().seq(), when };
        assert_ne!(operator.evict(&eviction).await.unwrap(), Evicted::Gone);
        assert_eq!(bed.write(&guard, 1).await.unwrap_err().kind(), ErrorKind::Lost, "{when:?}");
        assert_eq!(bed.row.get().await, 0);
    }
}

/// The lease ends after the answer and before the commit. The next holder is granted the lock after the commit, and
/// sees it.
async fn nobody_gets_the_lock_between_the_answer_and_the_commit<L: Link>(mut bed: Bed<L>) {
    let (client, next) = (bed.client().await, bed.client().await);
    let mut after = bed.site.way().await;
    let lease = Duration::from_millis(400);
    let guard = client.mutex("counter").unwrap().fixed_lease(lease).acquire().await.unwrap();
    bed.row.link.sql("BEGIN").await.unwrap();
    bed.row.set(1).await;
    bed.still_held.check(&mut bed.row.link, &guard).await.unwrap();
    let waiting = tokio::spawn(async move {
        let guard = next.mutex("counter").unwrap().fair().acquire().await.unwrap();
        (after.get().await, guard)
    });
    within("the lease is over", guard.lost()).await;
    until_somebody_waits::<L>(Waiter::Mentions(&bed.table)).await;
    assert!(!waiting.is_finished(), "granted inside the transaction");
    bed.row.link.sql("COMMIT").await.unwrap();
    let (seen, _guard) = within("the next one holds", waiting).await.unwrap();
    assert_eq!(seen, 1);
    assert_eq!(bed.write(&guard, 2).await.unwrap_err().kind(), ErrorKind::Lost);
}

/// A hand-over is nothing that the database knows of, so such a lock cannot be asked about there.
async fn a_lock_that_is_handed_over_in_the_process_is_refused<L: Link>(mut bed: Bed<L>) {
    let client = bed.client().await;
    let guard = client.mutex("counter").unwrap().acquire().await.unwrap();
    let err = bed.write(&guard, 1).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Invalid);
    assert!(err.to_string().contains(".fair()"), "{err}");
}

async fn readers_may_commit_beside_each_other<L: Link>(mut bed: Bed<L>) {
    let (one, other) = (bed.client().await, bed.client().await);
    let readers =
        [one.rwlock("k").unwrap().read().await.unwrap(), other.rwlock("k").unwrap().read().await.unwrap()];
    for guard in &readers {
        bed.write(guard, 1).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_database_is_refused() {
    let mut bed = Bed::<sqlx::PgConnection>::new().await;
    let guard = bed.client().await.mutex("k").unwrap().fair().acquire().await.unwrap();
    bed.still_held = StillHeld::from_url(mariadb()).unwrap();
    assert_eq!(bed.write(&guard, 1).await.unwrap_err().kind(), ErrorKind::Invalid);
    for url in ["memory:", "redis://localhost", "file:/tmp"] {
        assert_eq!(StillHeld::from_url(url).unwrap_err().kind(), ErrorKind::Unsupported, "{url}");
    }
    for url in ["mysql://localhost", "postgres://localhost", "mysql://u@h/d?table=a-b"] {
        assert_eq!(StillHeld::from_url(url).unwrap_err().kind(), ErrorKind::Invalid, "{url}");
    }
}
