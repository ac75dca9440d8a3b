//! One counter on each resource, to which several holders have a way of their own.

use std::{marker::PhantomData, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use tempfile::TempDir;
use tenure::{
    Record, Result, Stamp,
    fence::{Etcd, EtcdClient, File, Memory, Redis, Sql, Written, Zookeeper, ZookeeperClient},
};

use crate::{bed::fresh, links::Link};

/// A counter that starts at 0.
#[async_trait]
pub(crate) trait Site: Sized + Send + Sync {
    /// How much work a test with many steps may make of it: the disk is slow.
    const STEPS: usize;
    type Way: Way;

    async fn new() -> Self;
    /// A way to it, as another process would have.
    async fn way(&self) -> Self::Way;
}

#[async_trait]
pub(crate) trait Way: Send {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64>;
    async fn read(&mut self, stamp: Stamp) -> Result<i64>;
    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written>;
    async fn record(&mut self) -> Record;
    /// The value, as somebody sees it who asks for no leave.
    async fn peek(&mut self) -> i64;
}

pub(crate) struct InMemory(Arc<Memory<i64>>);

#[async_trait]
impl Site for InMemory {
    const STEPS: usize = 200;
    type Way = (Arc<Memory<i64>>, ());

    async fn new() -> Self {
        Self(Arc::new(Memory::new(0)))
    }

    async fn way(&self) -> Self::Way {
        (self.0.clone(), ())
    }
}

#[async_trait]
impl Way for (Arc<Memory<i64>>, ()) {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.0.claim(stamp)
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        self.0.read(stamp)
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.0.write(stamp, n, value)
    }

    async fn record(&mut self) -> Record {
        self.0.record()
    }

    async fn peek(&mut self) -> i64 {
        // Whoever wrote last may read as long as nobody else wrote.
        let record = self.0.record();
        match Stamp::new(record.writer(), record.claim_id(), tenure::Mode::Shared) {
            Ok(writer) => self.0.read(writer).unwrap(),
            Err(_) => 0,
        }
    }
}

pub(crate) struct InFile(TempDir);

#[async_trait]
impl Site for InFile {
    const STEPS: usize = 40;
    type Way = (File, PathBuf);

    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("counter"), "0").unwrap();
        Self(dir)
    }

    async fn way(&self) -> Self::Way {
        let path = self.0.path().join("counter");
        (File::new(&path), path)
    }
}

#[async_trait]
impl Way for (File, PathBuf) {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.0.claim(stamp).await
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        let bytes = self.0.read(stamp).await?.unwrap();
        Ok(String::from_utf8(bytes).unwrap().parse().unwrap())
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.0.write(stamp, n, value.to_string()).await
    }

    async fn record(&mut self) -> Record {
        self.0.record().await.unwrap()
    }

    async fn peek(&mut self) -> i64 {
        std::fs::read_to_string(&self.1).unwrap().parse().unwrap()
    }
}

pub(crate) struct InRedis(String);

#[async_trait]
impl Site for InRedis {
    const STEPS: usize = 200;
    type Way = (Redis, String, redis::aio::MultiplexedConnection);

    async fn new() -> Self {
        Self(fresh("counter"))
    }

    async fn way(&self) -> Self::Way {
        (Redis::new(self.0.as_str()).unwrap(), self.0.clone(), crate::redis::connection().await)
    }
}

#[async_trait]
impl Way for (Redis, String, redis::aio::MultiplexedConnection) {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.0.claim(&mut self.2, stamp).await
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        Ok(self.0.read::<_, Option<i64>>(&mut self.2, stamp).await?.unwrap_or(0))
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.0.write(&mut self.2, stamp, n, value).await
    }

    async fn record(&mut self) -> Record {
        self.0.record(&mut self.2).await.unwrap()
    }

    async fn peek(&mut self) -> i64 {
        let value: Option<i64> = redis::cmd("GET").arg(&self.1).query_async(&mut self.2).await.unwrap();
        value.unwrap_or(0)
    }
}

fn number(bytes: Option<Vec<u8>>) -> i64 {
    bytes.map_or(0, |bytes| String::from_utf8(bytes).unwrap().parse().unwrap())
}

pub(crate) struct InEtcd(String);

#[async_trait]
impl Site for InEtcd {
    const STEPS: usize = 60;
    type Way = (Etcd, String, EtcdClient);

    async fn new() -> Self {
        Self(fresh("counter"))
    }

    async fn way(&self) -> Self::Way {
        let server = tenure_testkit::etcd::Etcd::shared().unwrap();
        (Etcd::new(self.0.as_str()), self.0.clone(), EtcdClient::connect(&server.url()).await.unwrap())
    }
}

#[async_trait]
impl Way for (Etcd, String, EtcdClient) {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.0.claim(&self.2, stamp).await
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        Ok(number(self.0.read(&self.2, stamp).await?))
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.0.write(&self.2, stamp, n, value.to_string().as_bytes()).await
    }

    async fn record(&mut self) -> Record {
        self.0.record(&self.2).await.unwrap()
    }

    async fn peek(&mut self) -> i64 {
        let mut found = self.2.get(&[self.1.as_bytes()]).await.unwrap();
        number(found.remove(0).map(|entry| entry.value))
    }
}

pub(crate) struct InZookeeper(String);

#[async_trait]
impl Site for InZookeeper {
    const STEPS: usize = 60;
    type Way = (Zookeeper, String, ZookeeperClient);

    async fn new() -> Self {
        Self(format!("/{}", fresh("counter")))
    }

    async fn way(&self) -> Self::Way {
        let server = tenure_testkit::zookeeper::Zookeeper::shared().unwrap();
        let client = ZookeeperClient::connect(&server.url()).await.unwrap();
        (Zookeeper::new(self.0.as_str()), self.0.clone(), client)
    }
}

#[async_trait]
impl Way for (Zookeeper, String, ZookeeperClient) {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.0.claim(&self.2, stamp).await
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        Ok(number(self.0.read(&self.2, stamp).await?))
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.0.write(&self.2, stamp, n, value.to_string().as_bytes()).await
    }

    async fn record(&mut self) -> Record {
        self.0.record(&self.2).await.unwrap()
    }

    async fn peek(&mut self) -> i64 {
        let mut found = self.2.get(&[&self.1]).await.unwrap();
        number(found.remove(0).map(|entry| entry.data))
    }
}

/// A row of a database. Each step is a transaction of its own.
pub(crate) struct InRow<L>(String, PhantomData<fn() -> L>);

#[async_trait]
impl<L: Link> Site for InRow<L> {
    const STEPS: usize = 40;
    type Way = Row<L>;

    async fn new() -> Self {
        let name = fresh("counter");
        L::open().await.sql(&format!("INSERT INTO counter VALUES ('{name}', 0)")).await.unwrap();
        Self(name, PhantomData)
    }

    async fn way(&self) -> Row<L> {
        Row { name: self.0.clone(), sql: Sql::new(self.0.as_str()).unwrap(), link: L::open().await }
    }
}

/// A row and its record, through one connection.
pub(crate) struct Row<L> {
    name: String,
    pub(crate) sql: Sql,
    pub(crate) link: L,
}

impl<L: Link> Row<L> {
    pub(crate) async fn get(&mut self) -> i64 {
        self.link
            .one(&format!("SELECT value FROM counter WHERE name = '{}'", self.name))
            .await
            .parse()
            .unwrap()
    }

    pub(crate) async fn set(&mut self, value: i64) {
        let sql = format!("UPDATE counter SET value = {value} WHERE name = '{}'", self.name);
        self.link.sql(&sql).await.unwrap();
    }

    /// Ends the transaction, by the answer.
    pub(crate) async fn end<T>(&mut self, answer: Result<T>) -> Result<T> {
        self.link.sql(if answer.is_ok() { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        answer
    }
}

#[async_trait]
impl<L: Link> Way for Row<L> {
    async fn claim(&mut self, stamp: Stamp) -> Result<u64> {
        self.link.sql("BEGIN").await.unwrap();
        let answer = self.sql.claim(&mut self.link, stamp).await;
        self.end(answer).await
    }

    async fn read(&mut self, stamp: Stamp) -> Result<i64> {
        self.link.sql("BEGIN").await.unwrap();
        let answer = match self.sql.read(&mut self.link, stamp).await {
            Ok(()) => Ok(self.get().await),
            Err(err) => Err(err),
        };
        self.end(answer).await
    }

    async fn write(&mut self, stamp: Stamp, n: u64, value: i64) -> Result<Written> {
        self.link.sql("BEGIN").await.unwrap();
        let answer = self.sql.write(&mut self.link, stamp, n).await;
        if matches!(answer, Ok(Written::Now)) {
            self.set(value).await;
        }
        self.end(answer).await
    }

    async fn record(&mut self) -> Record {
        self.sql.record(&mut self.link).await.unwrap()
    }

    async fn peek(&mut self) -> i64 {
        self.get().await
    }
}
