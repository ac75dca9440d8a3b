use std::future::Future;

use tenure_core::{BoxError, Error, ErrorKind, Op};

/// A connection or transaction of the program's own.
///
/// It is there for the drivers that have a feature. For another one, implement it: one method, which runs a statement.
pub trait Database: Send {
    /// Which SQL it speaks.
    const DIALECT: Dialect;

    /// Runs one statement with these values for its placeholders (`?` or `$1`, `$2`, …).
    ///
    /// # Behavior
    /// Gives the first column of each row that it selects, which is always a text, and how many rows it changed or
    /// found. Rows that an `UPDATE` finds and does not change may be counted or not.
    fn run(&mut self, sql: &str, values: &[Value<'_>]) -> impl Future<Output = Result<Ran, Trouble>> + Send;
}

/// Which SQL a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// MySQL and MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// A value for a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `BIGINT`
    Int(i64),
    /// Text.
    Text(&'a str),
    /// `VARBINARY` or `bytea`
    Bytes(&'a [u8]),
}

/// What a statement did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The first column of each row.
    pub texts: Vec<String>,
    /// How many rows it changed or found.
    pub affected: u64,
}

/// Why a statement failed.
#[derive(Debug)]
pub struct Trouble {
    /// The five characters that the standard has for it, if the database said so.
    pub state: Option<String>,
    /// The driver's own error.
    pub source: BoxError,
}

impl Trouble {
    /// The error that tells the caller what to do.
    pub(super) fn into_error(self, op: Op, table: &str) -> Error {
        let (kind, message) = match self.state.as_deref() {
            Some("42P01" | "42S02") => {
                let message = format!("the table `{table}` is not there; make it with `Sql::create_table`");
                (ErrorKind::Invalid, message)
            }
            Some("42501" | "28000" | "28P01") => (ErrorKind::Denied, "the database does not allow it".into()),
            Some(state) if state.starts_with("40") => (
                ErrorKind::Unavailable,
                "another transaction was faster; roll back and try this one again".into(),
            ),
            _ => (ErrorKind::Unavailable, "the database did not do it; roll back".into()),
        };
        Error::new(kind, op, message).with_source(self.source)
    }
}
