//! A file that answers like a cache, for a sale without a server.

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::Cache;
use crate::{store::sqlite::Sqlite, trouble::Result, wire::Answer};

/// Milliseconds by the machine's clock, which all hosts share: the "server's" time. A key lives while its end is
/// later.
const ALIVE: &str = "(ends IS NULL OR ends > CAST(unixepoch('subsec') * 1000 AS INTEGER))";

#[derive(Debug)]
pub(super) struct Embedded(Sqlite);

impl Embedded {
    pub(super) async fn open(path: &str) -> Result<Self> {
        let file = Sqlite::open(Path::new(path))?;
        file.call(|on| {
            on.execute_batch(
                "CREATE TABLE IF NOT EXISTS cache (key TEXT PRIMARY KEY, value TEXT NOT NULL, ends INTEGER);
                 CREATE TABLE IF NOT EXISTS takers (buyer INTEGER PRIMARY KEY);",
            )
        })
        .await?;
        Ok(Self(file))
    }

    async fn set_if_free(&self, key: &str, value: &str, lease: Option<Duration>) -> Result<bool> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.0
            .call(move |on| {
                // Most ask in vain, and reading does not keep the others from writing.
                if get(on, &key)?.is_some() {
                    return Ok(false);
                }
                let sql = format!(
                    "INSERT INTO cache (key, value, ends) VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3)
                     ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends = excluded.ends WHERE NOT {ALIVE}"
                );
                Ok(on.prepare_cached(&sql)?.execute(params![key, value, lease.map(millis)])? == 1)
            })
            .await
    }
}

fn get(on: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT value FROM cache WHERE key = ?1 AND {ALIVE}");
    on.prepare_cached(&sql)?.query_row([key], |row| row.get(0)).optional()
}

#[async_trait]
impl Cache for Embedded {
    async fn set_nx(&self, key: &str, value: &str) -> Result<bool> {
        self.set_if_free(key, value, None).await
    }

    async fn set_nx_px(&self, key: &str, value: &str, lease: Duration) -> Result<bool> {
        self.set_if_free(key, value, Some(lease)).await
    }

    async fn expire(&self, key: &str, lease: Duration) -> Result<()> {
        let key = key.to_owned();
        let sql = "UPDATE cache SET ends = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?2 WHERE key = ?1";
        self.0.call(move |on| on.execute(sql, params![key, millis(lease)]).map(drop)).await
    }

    async fn get(&self, key: &str) -> Result<Option<String>> {
        let key = key.to_owned();
        self.0.call(move |on| get(on, &key)).await
    }

    async fn get_set(&self, key: &str, value: &str) -> Result<Option<String>> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.0
            .call(move |on| {
                let step = on.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                let old = get(&step, &key)?;
                let set = "INSERT INTO cache (key, value) VALUES (?1, ?2)
                           ON CONFLICT (key) DO UPDATE SET value = excluded.value, ends = NULL";
                step.execute(set, params![key, value])?;
                step.commit().map(|()| old)
            })
            .await
    }

    async fn del(&self, key: &str) -> Result<()> {
        let key = key.to_owned();
        self.0.call(move |on| on.execute("DELETE FROM cache WHERE key = ?1", [key]).map(drop)).await
    }

    async fn put(&self, key: &str, number: i64) -> Result<()> {
        self.get_set(key, &number.to_string()).await.map(drop)
    }

    async fn take_one(&self, key: &str, buyer: u32) -> Result<Answer> {
        let key = key.to_owned();
        self.0
            .call(move |on| {
                let step = on.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                if step.execute("INSERT OR IGNORE INTO takers (buyer) VALUES (?1)", [buyer])? == 0 {
                    return Ok(Answer::AlreadyBought);
                }
                let take =
                    "UPDATE cache SET value = CAST(value AS INTEGER) - 1 WHERE key = ?1 AND CAST(value AS INTEGER) >= 1";
                // Without a commit, who got nothing is no taker.
                if step.execute(take, [key])? == 0 {
                    return Ok(Answer::SoldOut);
                }
                step.commit().map(|()| Answer::Ordered)
            })
            .await
    }

    async fn clear(&self) -> Result<()> {
        self.0.call(|on| on.execute_batch("DELETE FROM cache; DELETE FROM takers;")).await
    }
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_answers_like_a_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache").display().to_string();
        let cache = Embedded::open(&path).await.unwrap();
        assert!(cache.set_nx("k", "a").await.unwrap());
        assert!(!cache.set_nx("k", "b").await.unwrap());
        assert_eq!(cache.get_set("k", "c").await.unwrap().as_deref(), Some("a"));
        assert_eq!(cache.get("k").await.unwrap().as_deref(), Some("c"));
        cache.expire("k", Duration::ZERO).await.unwrap();
        assert_eq!(cache.get("k").await.unwrap(), None, "its end has come");
        assert!(cache.set_nx_px("k", "d", Duration::from_secs(60)).await.unwrap(), "and so it is free");
        assert!(!cache.set_nx_px("k", "e", Duration::from_secs(60)).await.unwrap());
        cache.del("k").await.unwrap();
        assert_eq!(cache.get("k").await.unwrap(), None);

        cache.put("stock", 1).await.unwrap();
        assert_eq!(cache.take_one("stock", 7).await.unwrap(), Answer::Ordered);
        assert_eq!(cache.take_one("stock", 7).await.unwrap(), Answer::AlreadyBought);
        assert_eq!(cache.take_one("stock", 8).await.unwrap(), Answer::SoldOut);
        assert_eq!(
            cache.take_one("stock", 8).await.unwrap(),
            Answer::SoldOut,
            "who got nothing has not bought"
        );
    }
}
