//! A connection of each driver, and plain SQL on it.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use sqlx::{AssertSqlSafe, Connection, Row};
use tenure::fence::{Database, Sql};
use tenure_testkit::{
    mariadb::{LOOK_AGAIN, MariaDb},
    postgres::Postgres,
};
use tokio_postgres::SimpleQueryMessage;

use crate::bed::LIMIT;

/// What a test asks of a connection besides what is tested.
#[async_trait]
pub(crate) trait Link: Database + Sized + 'static {
    /// A connection of its own.
    async fn open() -> Self;

    /// Does this and gives the first column of what it selects.
    async fn sql(&mut self, sql: &str) -> Result<Vec<String>, String>;

    async fn one(&mut self, sql: &str) -> String {
        self.sql(sql).await.unwrap().remove(0)
    }

    /// The server's number for this connection.
    async fn id(&mut self) -> String {
        self.one(if Self::IS_MYSQL { "SELECT CONNECTION_ID()" } else { "SELECT pg_backend_pid()" }).await
    }

    const IS_MYSQL: bool = matches!(Self::DIALECT, tenure::fence::Dialect::MySql);

    async fn begin(&mut self, level: &str) {
        if Self::IS_MYSQL {
            self.sql(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).await.unwrap();
            self.sql("BEGIN").await.unwrap();
        } else {
            self.sql(&format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        }
    }
}

/// Looks until somebody waits for a lock: the connection with this number, or whoever mentions this.
pub(crate) async fn until_somebody_waits<L: Link>(whose: Waiter<'_>) {
    let whose = match (whose, L::IS_MYSQL) {
        (Waiter::Connection(id), true) => format!("trx_mysql_thread_id = {id}"),
        (Waiter::Mentions(word), true) => format!("trx_query LIKE '%{word}%'"),
        (Waiter::Connection(id), false) => format!("pid = {id}"),
        (Waiter::Mentions(word), false) => format!("query LIKE '%{word}%'"),
    };
    let all = if L::IS_MYSQL {
        "information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    } else {
        "pg_stat_activity WHERE wait_event_type = 'Lock'"
    };
    let (mut link, began) = (L::open().await, Instant::now());
    loop {
        // One at a time: whoever looks keeps the others from seeing anything new.
        static LOOK: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _alone = LOOK.lock().await;
        tokio::time::sleep(if L::IS_MYSQL { LOOK_AGAIN } else { Duration::from_millis(3) }).await;
        if link.one(&format!("SELECT COUNT(*) FROM {all} AND {whose}")).await != "0" {
            return;
        }
        assert!(began.elapsed() < LIMIT, "waited {LIMIT:?} in vain until somebody waits: {whose}");
    }
}

/// Who is waited for to wait.
#[derive(Clone, Copy)]
pub(crate) enum Waiter<'a> {
    Connection(&'a str),
    Mentions(&'a str),
}

/// What every connection finds there.
const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS counter (name VARCHAR(200) PRIMARY KEY, value BIGINT NOT NULL)";

pub(crate) fn mariadb() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let server = MariaDb::shared().unwrap();
        server.sql(TABLE).unwrap();
        server.sql(&Sql::new("x").unwrap().schema(tenure::fence::Dialect::MySql)).unwrap();
        server.url()
    })
}

pub(crate) fn postgres() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let server = Postgres::shared().unwrap();
        server.sql(TABLE).unwrap();
        server.sql(&Sql::new("x").unwrap().schema(tenure::fence::Dialect::Postgres)).unwrap();
        server.url()
    })
}

#[async_trait]
impl Link for sqlx::MySqlConnection {
    async fn open() -> Self {
        Self::connect(mariadb()).await.unwrap()
    }

    async fn sql(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(self).await;
        Ok(rows.map_err(|err| err.to_string())?.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect())
    }
}

#[async_trait]
impl Link for sqlx::PgConnection {
    async fn open() -> Self {
        Self::connect(postgres()).await.unwrap()
    }

    async fn sql(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let rows = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_all(self).await;
        Ok(rows.map_err(|err| err.to_string())?.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect())
    }
}

#[async_trait]
impl Link for mysql_async::Conn {
    async fn open() -> Self {
        Self::new(mysql_async::Opts::from_url(mariadb()).unwrap()).await.unwrap()
    }

    async fn sql(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let rows: Vec<mysql_async::Row> = self.query(sql).await.map_err(|err| err.to_string())?;
        Ok(rows.into_iter().map(|mut row| row.take(0).unwrap()).collect())
    }
}

#[async_trait]
impl Link for tokio_postgres::Client {
    async fn open() -> Self {
        let (client, connection) = tokio_postgres::connect(postgres(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn sql(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let answers = self.simple_query(sql).await.map_err(|err| format!("{err:?}"))?;
        let rows = answers.into_iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(rows.collect())
    }
}
