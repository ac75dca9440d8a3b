//! PostgreSQL as the shop's store.

use async_trait::async_trait;
use tenure::{
    EngineUrl,
    fence::{Database, Ran, Sql, Stamp, Value},
};
use tenure_core::Address;
use tokio_postgres::{Client, Config, NoTls};

use super::{
    CONNECTIONS,
    sql::{Link, SqlStore},
};
use crate::trouble::{Result, Trouble};

/// A connection to PostgreSQL.
#[derive(Debug)]
pub(crate) struct Postgres(Client);

/// The shop in this database.
pub(super) async fn connect(url: &EngineUrl, sale: &str) -> Result<SqlStore<Postgres>> {
    let mut config = Config::new();
    config.user(url.user().unwrap_or("postgres")).dbname(url.path().trim_start_matches('/'));
    if let Some(password) = url.password() {
        config.password(password);
    }
    for host in url.hosts() {
        let Address { host, port } = Address::parse(host, 5432)?;
        config.host(host).port(port);
    }
    let mut links = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, connection) = config.connect(NoTls).await.map_err(trouble)?;
        // Ends with its client.
        tokio::spawn(connection);
        links.push(Postgres(client));
    }
    Ok(SqlStore::new(links, sale))
}

#[async_trait]
impl Link for Postgres {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran> {
        Database::run(&mut self.0, &numbered(sql), values).await.map_err(refused)
    }

    async fn create(&mut self, tables: &[&str]) -> Result<()> {
        for table in tables {
            self.0.batch_execute(table).await.map_err(trouble)?;
        }
        Ok(Sql::new("sale")?.create_table(&mut self.0).await?)
    }

    async fn begin(&mut self) -> Result<()> {
        self.0.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(trouble)
    }

    async fn commit(&mut self) -> Result<()> {
        self.0.batch_execute("COMMIT").await.map_err(trouble)
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.0.batch_execute("ROLLBACK").await.map_err(trouble)
    }

    async fn claim(&mut self, resource: &str, stamp: Stamp) -> Result<u64> {
        Ok(Sql::new(resource)?.claim(&mut self.0, stamp).await?)
    }

    async fn count_write(&mut self, resource: &str, stamp: Stamp, n: u64) -> Result<()> {
        Ok(Sql::new(resource)?.write(&mut self.0, stamp, n).await.map(drop)?)
    }

    async fn forget(&mut self, resources: &str) -> Result<()> {
        let sql = "DELETE FROM tenure_fence WHERE starts_with(resource, ?)";
        self.run(sql, &[Value::Text(resources)]).await.map(drop)
    }
}

/// `$1`, `$2` for `?` and `?`.
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        numbered.push_str(&format!("${}{part}", number + 1));
    }
    numbered
}

fn refused(trouble: tenure::fence::Trouble) -> Trouble {
    match trouble.state.as_deref() {
        // A unique key: another transaction was faster with the same row.
        Some(state) if state.starts_with("40") || state == "23505" => {
            Trouble::Again(trouble.source.to_string())
        }
        _ => Trouble::unavailable("the store", trouble.source),
    }
}

fn trouble(err: tokio_postgres::Error) -> Trouble {
    Trouble::unavailable("the store", err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered() {
        assert_eq!(numbered("a = ? AND b = ?"), "a = $1 AND b = $2");
        assert_eq!(numbered("BEGIN"), "BEGIN");
    }
}
