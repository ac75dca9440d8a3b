//! SQLite: the store that needs no server. A connection is a thread of its own, since SQLite blocks.

use std::{path::Path, thread, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, params_from_iter, types::Value as Cell};
use tenure::fence::{Ran, Record, Stamp, Value};
use tokio::sync::{mpsc, oneshot};

use super::sql::{Link, SqlStore};
use crate::trouble::{Result, Trouble};

/// How long SQLite itself waits for another process. Every step is short.
const BUSY: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A connection to one file.
#[derive(Debug)]
pub(crate) struct Sqlite {
    jobs: mpsc::UnboundedSender<Job>,
}

/// The shop in this file.
pub(super) fn connect(path: &str, sale: &str) -> Result<SqlStore<Sqlite>> {
    Ok(SqlStore::new(vec![Sqlite::open(Path::new(path))?], sale))
}

impl Sqlite {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opened = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY)?;
            // What is shown here is who may write, not what survives a power cut.
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;")?;
            Ok(connection)
        };
        let mut connection: Connection =
            opened().map_err(|err: rusqlite::Error| Trouble::internal("cannot open the store", err))?;
        let (jobs, mut inbox) = mpsc::unbounded_channel::<Job>();
        // Ends with its last sender. The queue is as long as there are tasks, which the host bounds.
        thread::spawn(move || {
            while let Some(job) = inbox.blocking_recv() {
                job(&mut connection);
            }
        });
        Ok(Self { jobs })
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| drop(reply.send(work(connection))));
        let gone = || Trouble::Unavailable("the store's thread has ended".into());
        self.jobs.send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?.map_err(trouble)
    }

    async fn batch(&self, sql: &'static str) -> Result<()> {
        self.call(move |connection| connection.execute_batch(sql)).await
    }
}

#[async_trait]
impl Link for Sqlite {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Ran> {
        let sql = sql.to_owned();
        let cells = values.iter().map(|value| match *value {
            Value::Int(number) => Cell::Integer(number),
            Value::Text(text) => Cell::Text(text.to_owned()),
            Value::Bytes(bytes) => Cell::Blob(bytes.to_vec()),
        });
        let cells: Vec<Cell> = cells.collect();
        self.call(move |connection| run(connection, &sql, cells)).await
    }

    async fn create(&mut self, tables: &[&str]) -> Result<()> {
        let fences = "CREATE TABLE IF NOT EXISTS fences (resource TEXT PRIMARY KEY, record TEXT NOT NULL)";
        for table in tables.iter().chain([&fences]) {
            self.run(table, &[]).await?;
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<()> {
        self.batch("BEGIN IMMEDIATE").await
    }

    async fn commit(&mut self) -> Result<()> {
        self.batch("COMMIT").await
    }

    async fn roll_back(&mut self) -> Result<()> {
        self.batch("ROLLBACK").await
    }

    async fn claim(&mut self, resource: &str, stamp: Stamp) -> Result<u64> {
        let record = self.record(resource).await?;
        let next = record.claim(&stamp).map_err(|_| Trouble::Refused)?;
        self.keep(resource, &next).await?;
        Ok(next.n())
    }

    async fn count_write(&mut self, resource: &str, stamp: Stamp, n: u64) -> Result<()> {
        let record = self.record(resource).await?;
        match record.write(&stamp, n).map_err(|_| Trouble::Refused)? {
            Some(next) => self.keep(resource, &next).await,
            None => Err(Trouble::Again("it was written before".into())),
        }
    }

    async fn forget(&mut self, resources: &str) -> Result<()> {
        let sql = "DELETE FROM fences WHERE substr(resource, 1, length(?)) = ?";
        self.run(sql, &[Value::Text(resources), Value::Text(resources)]).await.map(drop)
    }
}

/// SQLite has no dialect in `tenure::fence`: it keeps the record itself, and asks it, inside its transaction.
impl Sqlite {
    async fn record(&mut self, resource: &str) -> Result<Record> {
        let kept = self.run("SELECT record FROM fences WHERE resource = ?", &[Value::Text(resource)]).await?;
        kept.texts.first().map_or(Ok(Record::default()), |text| Ok(text.parse()?))
    }

    async fn keep(&mut self, resource: &str, record: &Record) -> Result<()> {
        let text = record.to_string();
        let keep = "INSERT INTO fences (resource, record) VALUES (?, ?) \
                    ON CONFLICT (resource) DO UPDATE SET record = excluded.record";
        self.run(keep, &[Value::Text(resource), Value::Text(&text)]).await.map(drop)
    }
}

fn run(connection: &Connection, sql: &str, cells: Vec<Cell>) -> rusqlite::Result<Ran> {
    let mut statement = connection.prepare_cached(sql)?;
    if statement.column_count() == 0 {
        let affected = statement.execute(params_from_iter(cells))? as u64;
        return Ok(Ran { texts: Vec::new(), affected });
    }
    let rows = statement.query_map(params_from_iter(cells), |row| row.get(0))?;
    Ok(Ran { texts: rows.collect::<Result<_, _>>()?, affected: 0 })
}

fn trouble(err: rusqlite::Error) -> Trouble {
    match err.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Again(err.to_string()),
        _ => Trouble::internal("the store", err),
    }
}
