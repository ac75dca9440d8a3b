//! What PostgreSQL itself offers: `pg_advisory_lock`, with a connection for each client, as it demands.

use tenure_testkit::postgres::Postgres;
use tokio_postgres::{Client, NoTls, Statement};

pub(crate) struct Rival {
    client: Client,
    lock: Statement,
    free: Statement,
}

impl Rival {
    pub(crate) const NAME: &str = "pg_advisory_lock";
    pub(crate) const REQUESTS: &str = "transactions";

    pub(crate) async fn open(url: &str, _task: usize) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let lock = client.prepare("SELECT pg_advisory_lock(1)").await.unwrap();
        let free = client.prepare("SELECT pg_advisory_unlock(1)").await.unwrap();
        Self { client, lock, free }
    }

    pub(crate) async fn acquire(&mut self) {
        self.client.execute(&self.lock, &[]).await.unwrap();
    }

    pub(crate) async fn release(&mut self) {
        self.client.execute(&self.free, &[]).await.unwrap();
    }

    /// The transactions of the database; a session tells of them from time to time, and when it ends.
    pub(crate) fn requests(server: &Postgres) -> f64 {
        let rows = server
            .sql("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
            .unwrap();
        rows[0][0].parse().unwrap()
    }
}
