//! What a lock is compared with: the engine's cheapest round trip, and its cheapest durable write.

use mysql_async::prelude::Queryable;
use tenure::{Client, Filter, Key};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{Result, place::url};

/// A connection beside that of the locks, as bare as the engine allows. Where that would take a driver of its own, the
/// line of a key that nobody wants is read instead: one read by the locks' own connection.
pub(crate) enum Noop {
    Redis(redis::aio::MultiplexedConnection),
    Mysql(mysql_async::Conn),
    Postgres(tokio_postgres::Client),
    Memcached(TcpStream),
    Line(Client, Filter),
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS tenure_peer_write (id INT PRIMARY KEY, n BIGINT NOT NULL)";
const WRITE: &str = "UPDATE tenure_peer_write SET n = n + 1 WHERE id = 1";

impl Noop {
    pub(crate) async fn open(engine: &str, client: &Client) -> Result<Self> {
        let bare = url(engine)?.split('?').next().unwrap_or_default().to_owned();
        Ok(match engine {
            "redis" => Self::Redis(redis::Client::open(bare)?.get_multiplexed_async_connection().await?),
            "mysql" => {
                let mut conn = mysql_async::Conn::from_url(bare).await?;
                conn.query_drop(TABLE).await?;
                conn.query_drop("INSERT IGNORE INTO tenure_peer_write VALUES (1, 0)").await?;
                Self::Mysql(conn)
            }
            "postgres" => {
                let (conn, task) = tokio_postgres::connect(&bare, tokio_postgres::NoTls).await?;
                tokio::spawn(task);
                conn.batch_execute(TABLE).await?;
                conn.batch_execute("INSERT INTO tenure_peer_write VALUES (1, 0) ON CONFLICT DO NOTHING")
                    .await?;
                Self::Postgres(conn)
            }
            "memcached" => {
                let stream = TcpStream::connect(bare.trim_start_matches("memcached://")).await?;
                stream.set_nodelay(true)?;
                Self::Memcached(stream)
            }
            _ => Self::Line(client.clone(), Filter::Key(Key::new("nobody wants this")?)),
        })
    }

    pub(crate) async fn once(&mut self) -> Result {
        match self {
            Self::Redis(conn) => redis::cmd("PING").query_async::<()>(conn).await?,
            Self::Mysql(conn) => conn.exec_drop("SELECT 1", ()).await?,
            Self::Postgres(conn) => conn.batch_execute("SELECT 1").await?,
            Self::Memcached(stream) => {
                stream.write_all(b"mn\r\n").await?;
                stream.read_exact(&mut [0; 4]).await?;
            }
            Self::Line(client, filter) => {
                client.line(filter).await?;
            }
        }
        Ok(())
    }

    /// Whether there is one.
    pub(crate) async fn write(&mut self) -> Result<bool> {
        match self {
            Self::Mysql(conn) => conn.exec_drop(WRITE, ()).await?,
            Self::Postgres(conn) => conn.batch_execute(WRITE).await?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
