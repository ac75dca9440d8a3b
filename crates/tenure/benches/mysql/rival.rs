//! What the server itself offers: `GET_LOCK`, with a connection for each client, as it demands.

use sqlx::{Connection, MySqlConnection};
use tenure_testkit::mariadb::MariaDb;

pub(crate) struct Rival(MySqlConnection);

impl Rival {
    pub(crate) const NAME: &str = "GET_LOCK";
    pub(crate) const REQUESTS: &str = "statements";

    pub(crate) async fn open(url: &str, _task: usize) -> Self {
        Self(MySqlConnection::connect(url).await.unwrap())
    }

    pub(crate) async fn acquire(&mut self) {
        assert_eq!(self.ask("SELECT GET_LOCK('rival', 60)").await, Some(1));
    }

    pub(crate) async fn release(&mut self) {
        assert_eq!(self.ask("SELECT RELEASE_LOCK('rival')").await, Some(1));
    }

    async fn ask(&mut self, sql: &'static str) -> Option<i64> {
        sqlx::query_scalar(sql).fetch_one(&mut self.0).await.unwrap()
    }

    /// The statements that clients sent.
    pub(crate) fn requests(server: &MariaDb) -> f64 {
        let rows = server.sql("SHOW GLOBAL STATUS LIKE 'Questions'").unwrap();
        rows[0][1].parse().unwrap()
    }
}
