//! A connection of each driver, and plain SQL on it.

use std::sync::OnceLock;

use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use sqlx::{AssertSqlSafe, Connection, Row};
use tenure::fence::{Database, Sql};
use tenure_testkit::{mariadb::MariaDb, postgres::Postgres};
use tokio_postgres::SimpleQueryMessage;

/// What a test asks of a connection besides what is tested.
#[async_trait]
pub(crate) trait Link: Database + Sized + 'static {
    const NAME: &'static str;

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
    const NAME: &'static str = "sqlx on MariaDB";

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
    const NAME: &'static str = "sqlx on PostgreSQL";

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
    const NAME: &'static str = "mysql_async on MariaDB";

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
    const NAME: &'static str = "tokio-postgres";

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
