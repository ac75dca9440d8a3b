mod database;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod held;
#[cfg(feature = "fence-mysql-async")]
mod mysql_async;
#[cfg(any(feature = "fence-sqlx-mysql", feature = "fence-sqlx-postgres"))]
mod sqlx;
mod statements;
#[cfg(feature = "fence-tokio-postgres")]
mod tokio_postgres;

use tenure_core::{Error, ErrorKind, Op, Record, Refusal, Result, Stamp};

pub use self::database::{Database, Dialect, Ran, Trouble, Value};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use self::held::StillHeld;
use self::statements::{Kept, Statements};
use super::Written;

/// The longest name of a resource, in bytes.
const MAX_NAME: usize = 255;

/// Rows of a SQL database that only those may change who have not been overtaken.
///
/// The record is a row of the table `tenure_fence`. What it protects are rows of the program's own, and the program
/// changes them itself, **in the same transaction**: data and record are committed together, or not at all.
///
/// - [`claim`](Self::claim) is the *first* statement of the transaction. It locks the record's row, so that others wait
///   for the commit. What is read after it is the latest, in every isolation level. A transaction that has read before
///   it claims is told so (`Invalid`), where its reads could be old: on MySQL and MariaDB in REPEATABLE READ. PostgreSQL
///   answers 40001 above READ COMMITTED when somebody was faster; then, as always there, the transaction is tried again.
/// - [`write`](Self::write) counts a write, then the program does it. [`Written::Before`]: it was committed by an
///   earlier try whose answer was lost, and must not be done again.
/// - Holders that only read claim in a transaction of their own, and begin each later one with [`read`](Self::read):
///   they do not wait for each other then.
///
/// # Examples
/// With `sqlx`, inside a transaction that the program began:
/// ```
/// # #[cfg(feature = "fence-sqlx-postgres")]
/// # async fn withdraw(guard: &tenure::Guard, pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::fence::{Sql, Written};
///
/// let account = Sql::new("account/7")?;
/// let mut tx = pool.begin().await?;
/// let n = account.claim(&mut *tx, guard.stamp()).await?; // before the first read
/// let balance: i64 = sqlx::query_scalar("SELECT balance FROM account WHERE id = 7").fetch_one(&mut *tx).await?;
/// if account.write(&mut *tx, guard.stamp(), n + 1).await? == Written::Now {
///     sqlx::query("UPDATE account SET balance = $1 WHERE id = 7").bind(balance - 30).execute(&mut *tx).await?;
/// }
/// tx.commit().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Sql {
    resource: String,
    table: String,
}

impl Sql {
    /// The resource of this name, with its record in the table `tenure_fence`.
    ///
    /// # Errors
    /// `Invalid` unless the name has 1 to 255 bytes and no control characters.
    pub fn new(resource: impl Into<String>) -> Result<Self> {
        let resource = resource.into();
        if !(1..=MAX_NAME).contains(&resource.len()) || resource.contains(char::is_control) {
            let message =
                format!("the name of a resource has 1 to {MAX_NAME} bytes and no control characters");
            return Err(Error::invalid(message));
        }
        Ok(Self { resource, table: "tenure_fence".into() })
    }

    /// The same with its record in another table, which may be that of another schema: `app.tenure_fence`.
    ///
    /// # Errors
    /// `Invalid` unless the name is made of letters, digits and underscores, at most 48 in each part.
    pub fn in_table(self, table: &str) -> Result<Self> {
        let is_name = |part: &str| {
            part.len() <= 48
                && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if table.split('.').count() > 2 || !table.split('.').all(is_name) {
            let message =
                "the table is `name` or `schema.name`, of letters, digits and underscores, at most 48 each";
            return Err(Error::invalid(message));
        }
        Ok(Self { table: table.to_owned(), ..self })
    }

    /// The statement that makes the table, for a migration.
    #[must_use]
    pub fn schema(&self, dialect: Dialect) -> String {
        Statements::new(dialect, &self.table).create()
    }

    /// Makes the table, if it is not there. Not inside a transaction: MySQL would commit it.
    ///
    /// # Errors
    /// `Denied` if the database does not allow it, `Unavailable` if it does not answer.
    pub async fn create_table<D: Database>(&self, on: &mut D) -> Result<()> {
        self.run(on, Op::Claim, &self.schema(D::DIALECT), &[]).await.map(drop)
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here. `Invalid` if the transaction read before it claimed, or the table is not
    /// there. `Unavailable` if the database did not do it: its own error is the source. The transaction is then to be
    /// rolled back.
    /// # Cancel safety
    /// Roll back; with `mysql_async` drop the connection, whose next answer would be that of the question left behind.
    pub async fn claim<D: Database>(&self, on: &mut D, stamp: Stamp) -> Result<u64> {
        let sql = Statements::new(D::DIALECT, &self.table);
        let record = self.locked(on, &sql, Op::Claim).await?;
        let next = record.claim(&stamp).map_err(|refusal| refusal.into_error(Op::Claim))?;
        if next != record && !self.swap(on, &sql, Op::Claim, &record, &next).await? {
            return Err(raced(Op::Claim));
        }
        Ok(next.n())
    }

    /// Makes sure that this holder, which has claimed, may read, and goes on to be allowed to until the transaction
    /// ends.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed; others as [`claim`](Self::claim).
    /// # Cancel safety
    /// As [`claim`](Self::claim).
    pub async fn read<D: Database>(&self, on: &mut D, stamp: Stamp) -> Result<()> {
        let sql = Statements::new(D::DIALECT, &self.table);
        let kept = self.kept(on, Op::Read, &sql.look_shared()).await?.unwrap_or_default();
        kept.fresh(Op::Read)?.read(&stamp).map_err(|refusal| refusal.into_error(Op::Read))
    }

    /// Counts the `n`th write of this holder, which the program does after it in the same transaction.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write: roll back.
    /// `Invalid` for a shared hold; others as [`claim`](Self::claim).
    /// # Cancel safety
    /// As [`claim`](Self::claim).
    pub async fn write<D: Database>(&self, on: &mut D, stamp: Stamp, n: u64) -> Result<Written> {
        let sql = Statements::new(D::DIALECT, &self.table);
        let refused = |refusal: Refusal| refusal.into_error(Op::Write);
        // What the record must be for this to be the next write, if it can be one at all.
        let before = n.checked_sub(1).and_then(|before| {
            Record::from_parts(stamp.fence(), stamp.claim_id(), before, stamp.fence()).ok()
        });
        if let Some(before) = before
            && let Some(next) = before.write(&stamp, n).map_err(refused)?
            && self.swap(on, &sql, Op::Write, &before, &next).await?
        {
            return Ok(Written::Now);
        }
        let kept = self.kept(on, Op::Write, &sql.look()).await?.unwrap_or_default();
        match kept.record.write(&stamp, n).map_err(refused)? {
            None => Ok(Written::Before),
            Some(_) => Err(raced(Op::Write)),
        }
    }

    /// What the resource has seen, for people. Waits for whoever has claimed in a transaction that is still open.
    ///
    /// # Errors
    /// `Unavailable` if the database does not answer.
    pub async fn record<D: Database>(&self, on: &mut D) -> Result<Record> {
        let sql = Statements::new(D::DIALECT, &self.table);
        Ok(self.kept(on, Op::Read, &sql.look_shared()).await?.unwrap_or_default().record)
    }

    /// The record, with its row locked until the transaction ends. The row is made if there is none.
    async fn locked<D: Database>(&self, on: &mut D, sql: &Statements<'_>, op: Op) -> Result<Record> {
        // MySQL would lock the gap where the row is missing, for two at once, and neither could make it.
        if D::DIALECT == Dialect::Postgres
            && let Some(kept) = self.kept(on, op, &sql.look()).await?
        {
            return kept.fresh(op);
        }
        self.run(on, op, &sql.make(), &[Value::Text(&self.resource)]).await?;
        let kept = self.kept(on, op, &sql.look()).await?;
        kept.ok_or_else(|| raced(op))?.fresh(op)
    }

    async fn kept<D: Database>(&self, on: &mut D, op: Op, look: &str) -> Result<Option<Kept>> {
        let resource = Value::Text(&self.resource);
        let values = [resource, resource];
        let values = if D::DIALECT == Dialect::MySql { &values[..] } else { &values[..1] };
        self.run(on, op, look, values).await?.texts.first().map(|text| Kept::parse(text)).transpose()
    }

    /// Puts one record in the place of another, and says whether that was there.
    async fn swap<D: Database>(
        &self,
        on: &mut D,
        sql: &Statements<'_>,
        op: Op,
        from: &Record,
        to: &Record,
    ) -> Result<bool> {
        let ids = [to.claim_id().to_string(), from.claim_id().to_string()];
        let values = |record: &Record, id| {
            let number = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
            [number(record.writer().get()), Value::Text(id), number(record.n()), number(record.mark().get())]
        };
        let [to, from] = [values(to, &ids[0]), values(from, &ids[1])];
        let values = [&to[..], &[Value::Text(&self.resource)], &from[..]].concat();
        // Both ways of counting agree, since the two records differ: rows that were found, and rows that were changed.
        Ok(self.run(on, op, &sql.swap(), &values).await?.affected == 1)
    }

    async fn run<D: Database>(&self, on: &mut D, op: Op, sql: &str, values: &[Value<'_>]) -> Result<Ran> {
        on.run(sql, values).await.map_err(|trouble| trouble.into_error(op, &self.table))
    }
}

/// The record changed between two statements that belong together.
fn raced(op: Op) -> Error {
    let message = "the record changed meanwhile; do this inside a transaction";
    Error::new(ErrorKind::Unavailable, op, message).not_applied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_allow_listed() {
        for name in ["", "a\nb", "a\0", &"é".repeat(128)] {
            assert_eq!(Sql::new(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
        assert!(Sql::new("'; DROP TABLE account; --").is_ok(), "it is a value, not a part of the statement");
        let sql = Sql::new("x").unwrap();
        for table in ["", "a.b.c", "a b", "a`", "a\"", "1a", ".a", "a.", "tenure-fence", &"a".repeat(49)] {
            assert!(sql.clone().in_table(table).is_err(), "{table}");
        }
        assert_eq!(sql.in_table("app.fences").unwrap().table, "app.fences");
    }
}
