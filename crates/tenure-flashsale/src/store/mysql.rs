//! MySQL and MariaDB as the shop's store.

use async_trait::async_trait;
use mysql_async::{Conn, OptsBuilder, prelude::Queryable};
use tenure::{
    EngineUrl,
    fence::{Database, Ran, Sql, Stamp, Value},
};
use tenure_core::Address;

use super::{
    CONNECTIONS,
    sql::{Link, SqlStore},
};
use crate::trouble::{Result, Trouble};

/// A connection to MySQL.
#[derive(Debug)]
pub(crate) struct Mysql(Conn);

/// The shop in this database.
pub(super) async fn connect(url: &EngineUrl, sale: &str) -> Result<SqlStore<Mysql>> {
    let [host] = url.hosts() else {
        return Err(Trouble::Usage("the store's URL names one host: mysql://user@host/database".into()));
    };
    let Address { host, port } = Address::parse(host, 3306)?;
    let opts = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(port)
        .user(url.user())
        .pass(url.password())
        .db_name(Some(url.path().trim_start_matches('/')))
        .setup(vec!["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"]);
    let mut links = Vec::new();
    for _ in 0..CONNECTIONS {
        links.push(Mysql(Conn::new(opts.clone()).await.map_err(trouble)?));
    }
    Ok(SqlStore::new(links, sale))
}

#[async_trait]
impl Link for Mysql {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran> {
        Database::run(&mut self.0, sql, values).await.map_err(refused)
    }

    async fn create(&mut self, tables: &[&str]) -> Result<()> {
        for table in tables {
            self.0.query_drop(*table).await.map_err(trouble)?;
        }
        Ok(Sql::new("sale")?.create_table(&mut self.0).await?)
    }

    async fn begin(&mut self) -> Result<()> {
        self.0.query_drop("BEGIN").await.map_err(trouble)
    }

    async fn commit(&mut self) -> Result<()> {
        self.0.query_drop("COMMIT").await.map_err(trouble)
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.0.query_drop("ROLLBACK").await.map_err(trouble)
    }

    async fn claim(&mut self, resource: &str, stamp: Stamp) -> Result<u64> {
        Ok(Sql::new(resource)?.claim(&mut self.0, stamp).await?)
    }

    async fn count_write(&mut self, resource: &str, stamp: Stamp, n: u64) -> Result<()> {
        Ok(Sql::new(resource)?.write(&mut self.0, stamp, n).await.map(drop)?)
    }

    async fn forget(&mut self, resources: &str) -> Result<()> {
        let sql = "DELETE FROM tenure_fence WHERE LEFT(resource, CHAR_LENGTH(?)) = ?";
        self.run(sql, &[Value::Text(resources), Value::Text(resources)]).await.map(drop)
    }
}

fn refused(trouble: tenure::fence::Trouble) -> Trouble {
    match trouble.state.as_deref() {
        // 23000 is a unique key here: another transaction was faster with the same row.
        Some(state) if state.starts_with("40") || state == "23000" => {
            Trouble::Again(trouble.source.to_string())
        }
        _ => Trouble::unavailable("the store", trouble.source),
    }
}

fn trouble(err: mysql_async::Error) -> Trouble {
    Trouble::unavailable("the store", err)
}
