use std::pin::pin;

use futures_util::TryStreamExt;
use tokio_postgres::{
    Client, GenericClient, Transaction,
    types::{ToSql, Type},
};

use super::{Database, Dialect, Ran, Trouble, Value};

impl Database for Client {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
        run(self, sql, values).await.map_err(trouble)
    }
}

impl Database for Transaction<'_> {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
        run(self, sql, values).await.map_err(trouble)
    }
}

/// In one trip, without a statement that a pooler would have to remember.
async fn run(
    on: &(impl GenericClient + Sync),
    sql: &str,
    values: &[Value<'_>],
) -> Result<Ran, tokio_postgres::Error> {
    let values = values.iter().map(|value| -> (&(dyn ToSql + Sync), Type) {
        match value {
            Value::Int(number) => (number, Type::INT8),
            Value::Text(text) => (text, Type::TEXT),
            Value::Bytes(bytes) => (bytes, Type::BYTEA),
        }
    });
    let mut rows = pin!(on.query_typed_raw(sql, values.collect::<Vec<_>>()).await?);
    let mut ran = Ran::default();
    while let Some(row) = rows.try_next().await? {
        ran.texts.push(row.try_get(0)?);
    }
    ran.affected = rows.rows_affected().unwrap_or_default();
    Ok(ran)
}

fn trouble(err: tokio_postgres::Error) -> Trouble {
    Trouble { state: err.code().map(|state| state.code().to_owned()), source: err.into() }
}
