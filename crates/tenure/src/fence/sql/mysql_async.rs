use mysql_async::{Conn, Params, Row, Transaction, prelude::Queryable};

use super::{Database, Dialect, Ran, Trouble, Value};

impl Database for Conn {
    const DIALECT: Dialect = Dialect::MySql;

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
        run(self, sql, values).await
    }
}

impl Database for Transaction<'_> {
    const DIALECT: Dialect = Dialect::MySql;

    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
        run(self, sql, values).await
    }
}

async fn run(on: &mut impl Queryable, sql: &str, values: &[Value<'_>]) -> Result<Ran, Trouble> {
    let values = values.iter().map(|value| match *value {
        Value::Int(number) => mysql_async::Value::Int(number),
        Value::Text(text) => mysql_async::Value::Bytes(text.into()),
        Value::Bytes(bytes) => mysql_async::Value::Bytes(bytes.into()),
    });
    let values = values.collect::<Vec<_>>();
    let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
    let result = on.exec_iter(sql, values).await.map_err(trouble)?;
    let affected = result.affected_rows();
    let rows = result.collect_and_drop::<Row>().await;
    let texts = rows.map_err(trouble)?.into_iter().filter_map(|mut row| row.take_opt::<String, _>(0)?.ok());
    Ok(Ran { texts: texts.collect(), affected })
}

fn trouble(err: mysql_async::Error) -> Trouble {
    let state = match &err {
        mysql_async::Error::Server(err) => Some(err.state.clone()),
        _ => None,
    };
    Trouble { state, source: err.into() }
}
