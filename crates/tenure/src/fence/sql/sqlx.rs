use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Either, Executor, Row};

use super::{Database, Dialect, Ran, Trouble, Value};

macro_rules! database {
    ($connection:ty, $dialect:expr) => {
        impl Database for $connection {
            const DIALECT: Dialect = $dialect;

            async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
                // The texts are this module's own; what comes from outside is in the values, and the table's name is
                // allow-listed.
                let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
                for value in values {
                    query = match *value {
                        Value::Int(number) => query.bind(number),
                        Value::Text(text) => query.bind(text.to_owned()),
                        Value::Bytes(bytes) => query.bind(bytes.to_owned()),
                    };
                }
                let mut ran = Ran::default();
                let mut steps = Executor::fetch_many(self, query);
                while let Some(step) = steps.try_next().await.map_err(trouble)? {
                    match step {
                        Either::Left(done) => ran.affected += done.rows_affected(),
                        Either::Right(row) => ran.texts.push(row.try_get_unchecked(0).map_err(trouble)?),
                    }
                }
                Ok(ran)
            }
        }
    };
}

#[cfg(feature = "fence-sqlx-mysql")]
database!(sqlx::MySqlConnection, Dialect::MySql);
#[cfg(feature = "fence-sqlx-postgres")]
database!(sqlx::PgConnection, Dialect::Postgres);

fn trouble(err: sqlx::Error) -> Trouble {
    let state = err.as_database_error().and_then(|err| err.code()).map(|code| code.into_owned());
    Trouble { state, source: err.into() }
}
