//! What the Redis store and the Redis cache share.

use redis::{AsyncCommands, RedisError, aio::MultiplexedConnection};

use crate::trouble::{Result, Trouble};

pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    // The driver's own message would quote the URL.
    let client = redis::Client::open(url).map_err(|_| {
        Trouble::Usage("the URL is none of a Redis server: redis://[user:password@]host/0".into())
    })?;
    client.get_multiplexed_async_connection().await.map_err(trouble)
}

/// Removes the keys that start so. A sale has as many as buyers at most.
pub(crate) async fn forget(on: &MultiplexedConnection, prefix: &str) -> Result<()> {
    let pattern = format!("{}*", prefix.replace(['[', ']', '*', '?', '\\'], "?"));
    let (mut scan, mut on) = (0_u64, on.clone());
    loop {
        let mut call = redis::cmd("SCAN");
        call.arg(scan).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
        let (next, keys): (u64, Vec<String>) = call.query_async(&mut on).await.map_err(trouble)?;
        if !keys.is_empty() {
            let _: () = on.unlink(keys).await.map_err(trouble)?;
        }
        if next == 0 {
            return Ok(());
        }
        scan = next;
    }
}

pub(crate) fn trouble(err: RedisError) -> Trouble {
    Trouble::unavailable("Redis", err)
}
