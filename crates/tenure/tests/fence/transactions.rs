//! Records inside the program's own transactions: rollback, races, isolation levels.

use tenure::{
    ErrorKind, Result, Stamp,
    fence::{Dialect, Sql, Written},
};
use tokio::task::JoinHandle;

use crate::{
    bed::{BEFORE, NOW, by, fresh, reader, why, within, writer},
    links::{Link, Waiter, until_somebody_waits},
    sites::{InRow, Row, Site, Way},
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
            crate::bed::within("the rule is tried", super::$rule::<$link>()).await;
        }
    )+};
}

on_every_driver! {
    what_is_rolled_back_leaves_nothing
    a_transaction_that_may_have_been_committed_is_not_done_twice
    a_later_holder_waits_for_the_commit_and_sees_it
    an_earlier_holder_waits_for_the_commit_and_is_refused
    what_is_read_after_the_claim_is_the_latest
    who_comes_first_to_a_new_resource_makes_its_record
    readers_do_not_wait_for_each_other
    without_a_transaction_the_record_holds_too
    a_table_that_is_missing_is_said
    the_table_can_be_another_one
}

async fn row<L: Link>() -> (InRow<L>, Row<L>) {
    let site = InRow::new().await;
    let way = site.way().await;
    (site, way)
}

async fn what_is_rolled_back_leaves_nothing<L: Link>() {
    let (_, mut row) = row::<L>().await;
    row.claim(writer(4)).await.unwrap();
    let before = row.record().await;
    row.link.sql("BEGIN").await.unwrap();
    assert_eq!(row.sql.claim(&mut row.link, writer(5)).await.unwrap(), 0);
    assert_eq!(row.sql.write(&mut row.link, writer(5), 1).await.unwrap(), NOW);
    row.set(7).await;
    row.link.sql("ROLLBACK").await.unwrap();
    assert_eq!((row.record().await, row.get().await), (before, 0));
    assert_eq!(row.write(writer(4), 1, 1).await.unwrap(), NOW, "nobody was shut out");
}

/// The answer to a commit was lost. The program does it all again, under the same number.
async fn a_transaction_that_may_have_been_committed_is_not_done_twice<L: Link>() {
    let (_, mut row) = row::<L>().await;
    for (before, answer) in [(0, NOW), (1, BEFORE), (1, BEFORE)] {
        row.link.sql("BEGIN").await.unwrap();
        assert_eq!(row.sql.claim(&mut row.link, writer(5)).await.unwrap(), before);
        let value = row.get().await;
        let written = row.sql.write(&mut row.link, writer(5), 1).await.unwrap();
        assert_eq!(written, answer);
        if written == Written::Now {
            row.set(value + 1).await;
        }
        row.link.sql("COMMIT").await.unwrap();
    }
    assert_eq!((row.get().await, row.record().await.n()), (1, 1));
}

/// Starts to claim in a transaction of its own, and waits until the server makes it wait.
async fn waits<L: Link>(mut row: Row<L>, stamp: Stamp) -> JoinHandle<(Row<L>, Result<u64>)> {
    let id = row.link.id().await;
    let waiting = tokio::spawn(async move {
        row.link.sql("BEGIN").await.unwrap();
        let answer = row.sql.claim(&mut row.link, stamp).await;
        (row, answer)
    });
    until_somebody_waits::<L>(Waiter::Connection(&id)).await;
    assert!(!waiting.is_finished());
    waiting
}

async fn a_later_holder_waits_for_the_commit_and_sees_it<L: Link>() {
    let (site, mut old) = row::<L>().await;
    old.claim(writer(4)).await.unwrap();
    old.link.sql("BEGIN").await.unwrap();
    old.sql.claim(&mut old.link, writer(5)).await.unwrap();
    let new = waits(site.way().await, writer(6)).await;
    assert_eq!(old.sql.write(&mut old.link, writer(5), 1).await.unwrap(), NOW);
    old.set(1).await;
    old.link.sql("COMMIT").await.unwrap();
    let (mut new, answer) = within("the claim is done", new).await.unwrap();
    assert_eq!(answer.unwrap(), 0);
    assert_eq!(new.get().await, 1, "what was committed before the claim is not seen");
    assert_eq!(new.sql.write(&mut new.link, writer(6), 1).await.unwrap(), NOW);
    new.link.sql("COMMIT").await.unwrap();
    assert_eq!(why(old.write(writer(5), 2, 9).await), by(6));
}

async fn an_earlier_holder_waits_for_the_commit_and_is_refused<L: Link>() {
    let (site, mut new) = row::<L>().await;
    new.claim(writer(4)).await.unwrap();
    new.link.sql("BEGIN").await.unwrap();
    new.sql.claim(&mut new.link, writer(6)).await.unwrap();
    let old = waits(site.way().await, writer(5)).await;
    new.link.sql("COMMIT").await.unwrap();
    let (mut old, answer) = within("the claim is answered", old).await.unwrap();
    assert_eq!(why(answer), by(6));
    old.link.sql("ROLLBACK").await.unwrap();
}

/// In every isolation level. Who reads before the claim either reads anew after it, or is told.
async fn what_is_read_after_the_claim_is_the_latest<L: Link>() {
    let levels = if L::IS_MYSQL {
        &["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][..]
    } else {
        &["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][..]
    };
    for level in levels {
        for claimed_before in [false, true] {
            let (site, mut other) = row::<L>().await;
            let mut row = site.way().await;
            if claimed_before {
                other.claim(writer(4)).await.unwrap();
            }
            // The claim first.
            row.link.begin(level).await;
            row.sql.claim(&mut row.link, writer(5)).await.unwrap();
            assert_eq!(row.get().await, 0);
            assert_eq!(row.sql.write(&mut row.link, writer(5), 1).await.unwrap(), NOW, "{level}");
            row.set(1).await;
            row.link.sql("COMMIT").await.unwrap();

            // A look at something else first, which may be when the transaction's view of the world begins.
            row.link.begin(level).await;
            row.link.sql("SELECT COUNT(*) FROM counter WHERE name = 'nobody'").await.unwrap();
            other.claim(writer(6)).await.unwrap();
            assert_eq!(other.write(writer(6), 1, 2).await.unwrap(), NOW);
            let answer = row.sql.claim(&mut row.link, writer(7)).await;
            let kind = match (*level, L::IS_MYSQL) {
                ("REPEATABLE READ", true) => Some(ErrorKind::Invalid),
                ("REPEATABLE READ" | "SERIALIZABLE", false) => Some(ErrorKind::Unavailable),
                _ => None,
            };
            match answer {
                Ok(_) => assert_eq!((row.get().await, kind), (2, None), "{level}: an old value, or no error"),
                Err(err) => assert_eq!(Some(err.kind()), kind, "{level}: {err}"),
            }
            row.link.sql("ROLLBACK").await.unwrap();
            assert_eq!(row.record().await.mark(), writer(6).fence(), "{level}");

            // The same for one that only reads.
            row.claim(reader(8)).await.unwrap();
            row.link.begin(level).await;
            row.sql.read(&mut row.link, reader(8)).await.unwrap();
            assert_eq!(row.get().await, 2, "{level}");
            row.link.sql("COMMIT").await.unwrap();
        }
    }
}

/// Two claim at once where nobody has claimed. Neither fails for it.
async fn who_comes_first_to_a_new_resource_makes_its_record<L: Link>() {
    for _ in 0..6 {
        let (site, mut one) = row::<L>().await;
        let mut other = site.way().await;
        let (first, second) = tokio::join!(one.claim(writer(5)), other.claim(writer(6)));
        assert_eq!(second.unwrap(), 0);
        if first.is_err() {
            assert_eq!(why(first), by(6));
        }
        assert_eq!(one.record().await.mark(), writer(6).fence());
    }
}

async fn readers_do_not_wait_for_each_other<L: Link>() {
    let (site, mut one) = row::<L>().await;
    let mut other = site.way().await;
    one.claim(reader(5)).await.unwrap();
    other.claim(reader(6)).await.unwrap();
    for (row, stamp) in [(&mut one, reader(5)), (&mut other, reader(6))] {
        row.link.sql("BEGIN").await.unwrap();
        within("it reads beside the other", row.sql.read(&mut row.link, stamp)).await.unwrap();
    }
    // A writer waits for both: what they read stays until they are done.
    let new = waits(site.way().await, writer(7)).await;
    one.link.sql("COMMIT").await.unwrap();
    assert!(!new.is_finished());
    other.link.sql("COMMIT").await.unwrap();
    let (mut new, answer) = within("the writer claims", new).await.unwrap();
    assert_eq!(answer.unwrap(), 0);
    new.link.sql("COMMIT").await.unwrap();
    assert_eq!(why(one.read(reader(5)).await), by(7));
}

async fn without_a_transaction_the_record_holds_too<L: Link>() {
    let (_, mut row) = row::<L>().await;
    assert_eq!(row.sql.claim(&mut row.link, writer(5)).await.unwrap(), 0);
    assert_eq!(row.sql.write(&mut row.link, writer(5), 1).await.unwrap(), NOW);
    assert_eq!(row.sql.claim(&mut row.link, writer(5)).await.unwrap(), 1);
    assert_eq!(row.sql.claim(&mut row.link, writer(6)).await.unwrap(), 0);
    assert_eq!(why(row.sql.write(&mut row.link, writer(5), 2).await), by(6));
}

async fn a_table_that_is_missing_is_said<L: Link>() {
    let mut link = L::open().await;
    let sql = Sql::new("x").unwrap().in_table("nowhere_to_be_found").unwrap();
    for err in [
        sql.claim(&mut link, writer(5)).await.unwrap_err(),
        sql.write(&mut link, writer(5), 1).await.unwrap_err(),
        sql.read(&mut link, reader(5)).await.unwrap_err(),
    ] {
        assert_eq!(err.kind(), ErrorKind::Invalid, "{err}");
        assert!(
            err.to_string().contains("nowhere_to_be_found") && err.to_string().contains("create_table"),
            "{err}"
        );
    }
}

async fn the_table_can_be_another_one<L: Link>() {
    let mut link = L::open().await;
    let schema = if L::IS_MYSQL { "tenure" } else { "public" };
    let table = format!("{schema}.{}", fresh("fences").replace('-', "_"));
    let sql = Sql::new("x'; --").unwrap().in_table(&table).unwrap();
    for _ in 0..2 {
        sql.create_table(&mut link).await.unwrap();
    }
    assert_eq!(sql.claim(&mut link, writer(5)).await.unwrap(), 0);
    assert_eq!(sql.write(&mut link, writer(5), 1).await.unwrap(), NOW);
    assert_eq!(link.one(&format!("SELECT n FROM {table}")).await, "1");
    assert!(sql.schema(if L::IS_MYSQL { Dialect::MySql } else { Dialect::Postgres }).contains(&table));
}

/// Each driver's own transaction takes the place of a connection.
mod own_transactions {
    use mysql_async::TxOpts;
    use sqlx::Connection;

    use super::*;

    async fn withdraw<D: tenure::fence::Database>(on: &mut D, name: &str, stamp: Stamp) -> Result<Written> {
        let sql = Sql::new(name)?;
        let n = sql.claim(on, stamp).await?;
        sql.read(on, stamp).await?;
        sql.write(on, stamp, n + 1).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlx_mysql() {
        let (name, mut link) = (fresh("own"), sqlx::MySqlConnection::open().await);
        let mut tx = Connection::begin(&mut link).await.unwrap();
        assert_eq!(withdraw(&mut *tx, &name, writer(5)).await.unwrap(), NOW);
        tx.commit().await.unwrap();
        let mut tx = Connection::begin(&mut link).await.unwrap();
        assert_eq!(withdraw(&mut *tx, &name, writer(6)).await.unwrap(), NOW);
        drop(tx); // rolls back
        assert_eq!(Sql::new(name).unwrap().record(&mut link).await.unwrap().writer(), writer(5).fence());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sqlx_postgres() {
        let (name, mut link) = (fresh("own"), sqlx::PgConnection::open().await);
        let mut tx = Connection::begin(&mut link).await.unwrap();
        assert_eq!(withdraw(&mut *tx, &name, writer(5)).await.unwrap(), NOW);
        tx.commit().await.unwrap();
        let mut tx = Connection::begin(&mut link).await.unwrap();
        assert_eq!(withdraw(&mut *tx, &name, writer(6)).await.unwrap(), NOW);
        drop(tx);
        assert_eq!(Sql::new(name).unwrap().record(&mut link).await.unwrap().writer(), writer(5).fence());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mysql_async() {
        let (name, mut link) = (fresh("own"), mysql_async::Conn::open().await);
        let mut tx = link.start_transaction(TxOpts::default()).await.unwrap();
        assert_eq!(withdraw(&mut tx, &name, writer(5)).await.unwrap(), NOW);
        tx.commit().await.unwrap();
        let mut tx = link.start_transaction(TxOpts::default()).await.unwrap();
        assert_eq!(withdraw(&mut tx, &name, writer(6)).await.unwrap(), NOW);
        drop(tx);
        assert_eq!(Sql::new(name).unwrap().record(&mut link).await.unwrap().writer(), writer(5).fence());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn tokio_postgres() {
        let (name, mut link) = (fresh("own"), tokio_postgres::Client::open().await);
        let mut tx = link.transaction().await.unwrap();
        assert_eq!(withdraw(&mut tx, &name, writer(5)).await.unwrap(), NOW);
        tx.commit().await.unwrap();
        let mut tx = link.transaction().await.unwrap();
        assert_eq!(withdraw(&mut tx, &name, writer(6)).await.unwrap(), NOW);
        drop(tx);
        assert_eq!(Sql::new(name).unwrap().record(&mut link).await.unwrap().writer(), writer(5).fence());
    }
}

/// MariaDB can be told to refuse what changed since a transaction's first read. Then that is the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_old_views_itself_is_passed_on() {
    let (site, mut other) = row::<mysql_async::Conn>().await;
    let mut row = site.way().await;
    row.link.sql("SET innodb_snapshot_isolation = ON").await.unwrap();
    other.claim(writer(4)).await.unwrap();
    row.link.begin("REPEATABLE READ").await;
    row.link.sql("SELECT COUNT(*) FROM counter WHERE name = 'nobody'").await.unwrap();
    other.claim(writer(5)).await.unwrap();
    let err = row.sql.claim(&mut row.link, writer(6)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
    row.link.sql("ROLLBACK").await.unwrap();
    row.claim(writer(6)).await.unwrap();
}
