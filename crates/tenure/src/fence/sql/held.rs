use tenure_core::{EngineUrl, Error, Op, Result};

use super::{Database, Dialect, Value};
use crate::{Guard, Loss, guard::lost_error};

/// The question whether a lock is still held, inside a transaction of the same database that keeps the lock: *commit
/// this only if the lock is still mine*.
///
/// For data that lies beside the lock this needs no record and no numbers. Ask it last, and commit at once: from the
/// answer to the end of the transaction nobody else is granted the lock, but it is not renewed either.
///
/// The answer proves that the lock was held without a break from when it was granted. What the transaction read
/// under it is current, if the transaction began after that.
///
/// # Examples
/// ```no_run
/// # #[cfg(all(feature = "postgres", feature = "fence-sqlx-postgres"))]
/// # async fn doc(client: tenure::Client, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::fence::StillHeld;
///
/// let still_held = StillHeld::from_url("postgres://app@db/shop")?; // the URL of the lock's engine
/// let guard = client.mutex("account/7")?.fair().acquire().await?;
/// let mut tx = pool.begin().await?;
/// sqlx::query("UPDATE account SET balance = balance - 30 WHERE id = 7").execute(&mut *tx).await?;
/// still_held.check(&mut *tx, &guard).await?; // else roll back
/// tx.commit().await?;
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct StillHeld {
    tables: Tables,
}

/// Where the engine keeps its lines.
#[derive(Clone, Debug)]
enum Tables {
    #[cfg(feature = "mysql")]
    MySql { database: String, table: String },
    #[cfg(feature = "postgres")]
    Postgres { question: String },
}

impl StillHeld {
    /// For locks of the engine with this URL. Nothing is opened.
    ///
    /// # Errors
    /// `Invalid` if the URL is wrong; `Unsupported` if it is not that of a database, or its feature (`mysql`,
    /// `postgres`) is off.
    pub fn from_url(url: &str) -> Result<Self> {
        let engine: EngineUrl = url.parse()?;
        match engine.scheme() {
            #[cfg(feature = "mysql")]
            "mysql" | "mariadb" => {
                let mut engine = engine;
                let database = engine.path().trim_matches('/').to_owned();
                let table = engine.option("table").unwrap_or_else(|| "tenure".into());
                tenure_mysql::MysqlOptions::from_url(&mut url.parse()?)?;
                Ok(Self { tables: Tables::MySql { database, table } })
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let options = tenure_postgres::PostgresOptions::from_url(&mut url.parse()?)?;
                // As text, like every answer that is asked for here.
                let question = format!("SELECT ({})::text", tenure_postgres::holds(&options));
                Ok(Self { tables: Tables::Postgres { question } })
            }
            scheme => {
                let message =
                    format!("`{scheme}:` keeps no locks in a database of yours; use `fence::Sql` instead");
                Err(Error::unsupported(Op::Run, message))
            }
        }
    }

    /// Makes sure that the lock is held, and stays so until the transaction ends.
    ///
    /// # Errors
    /// `Lost` if it is not: roll back. `Invalid` for a lock that the tasks of this process hand to each other, which the
    /// database knows nothing of: make it with [`fair`](crate::Mutex::fair). `Unavailable` if the database did not
    /// answer: its own error is the source.
    /// # Cancel safety
    /// Roll back; with `mysql_async` drop the connection.
    pub async fn check<D: Database>(&self, on: &mut D, guard: &Guard) -> Result<()> {
        let named = |err: Error| err.in_op(Op::Run).with_key(guard.key());
        guard.check()?;
        if guard.tenancy().is_in_lane() {
            let message = "tasks of one process may hand this lock to each other without the database; \
                           make it with `.fair()`";
            return Err(named(Error::invalid(message)));
        }
        let ran = match &self.tables {
            #[cfg(feature = "mysql")]
            Tables::MySql { database, table } => {
                self.speaks(D::DIALECT, Dialect::MySql).map_err(named)?;
                let hold = guard.tenancy().hold();
                let hold = tenure_core::Held { claim: &hold.claim, seq: hold.seq };
                let question = tenure_mysql::StillHeld::new(database, table, hold).map_err(named)?;
                let seq = i64::try_from(question.seq()).unwrap_or(i64::MAX);
                let values = [Value::Bytes(question.key()), Value::Bytes(question.id()), Value::Int(seq)];
                // As text, like every answer that is asked for here.
                let sql = question.sql().replacen("COUNT(*)", "CAST(COUNT(*) AS CHAR)", 1);
                on.run(&sql, &values).await
            }
            #[cfg(feature = "postgres")]
            Tables::Postgres { question } => {
                self.speaks(D::DIALECT, Dialect::Postgres).map_err(named)?;
                let id = guard.claim_id().to_string();
                let fence = i64::try_from(guard.fence().get()).unwrap_or(i64::MAX);
                let values =
                    [Value::Bytes(guard.key().as_str().as_bytes()), Value::Text(&id), Value::Int(fence)];
                on.run(question, &values).await
            }
        };
        let ran = ran.map_err(|trouble| named(trouble.into_error(Op::Run, "of the lock")))?;
        match ran.texts.first().map(String::as_str) {
            Some("1" | "true") => Ok(()),
            _ => Err(named(lost_error(Loss::Gone, Op::Run))),
        }
    }

    fn speaks(&self, spoken: Dialect, wanted: Dialect) -> Result<()> {
        if spoken == wanted {
            return Ok(());
        }
        Err(Error::invalid(format!("the lock is in {wanted:?}, and this is a connection to {spoken:?}")))
    }
}
