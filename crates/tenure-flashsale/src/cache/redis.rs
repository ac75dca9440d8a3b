//! Redis as the cache.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use redis::{AsyncCommands, Script, aio::MultiplexedConnection};

use super::Cache;
use crate::{
    redis_link::{self, trouble},
    trouble::Result,
    wire::Answer,
};

static TAKE_ONE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 'already' end \
         if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 'out' end \
         redis.call('DECR', KEYS[1]) redis.call('SADD', KEYS[2], ARGV[1]) return 'ordered'",
    )
});

pub(super) struct RedisCache {
    on: MultiplexedConnection,
    prefix: String,
}

impl std::fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisCache").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl RedisCache {
    pub(super) async fn connect(url: &str, sale: &str) -> Result<Self> {
        let prefix = format!("tenure-sale:{{{sale}}}:cache:");
        Ok(Self { on: redis_link::connect(url).await?, prefix })
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

#[async_trait]
impl Cache for RedisCache {
    async fn set_nx(&self, key: &str, value: &str) -> Result<bool> {
        self.on.clone().set_nx(self.key(key), value).await.map_err(trouble)
    }

    async fn set_nx_px(&self, key: &str, value: &str, lease: Duration) -> Result<bool> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(key)).arg(value).arg("NX").arg("PX").arg(millis(lease));
        let done: Option<String> = set.query_async(&mut self.on.clone()).await.map_err(trouble)?;
        Ok(done.is_some())
    }

    async fn expire(&self, key: &str, lease: Duration) -> Result<()> {
        self.on.clone().pexpire(self.key(key), millis(lease)).await.map_err(trouble)
    }

    async fn get(&self, key: &str) -> Result<Option<String>> {
        self.on.clone().get(self.key(key)).await.map_err(trouble)
    }

    async fn get_set(&self, key: &str, value: &str) -> Result<Option<String>> {
        self.on.clone().getset(self.key(key), value).await.map_err(trouble)
    }

    async fn del(&self, key: &str) -> Result<()> {
        self.on.clone().del(self.key(key)).await.map_err(trouble)
    }

    async fn put(&self, key: &str, number: i64) -> Result<()> {
        self.on.clone().set(self.key(key), number).await.map_err(trouble)
    }

    async fn take_one(&self, key: &str, buyer: u32) -> Result<Answer> {
        let mut call = TAKE_ONE.key(self.key(key));
        call.key(self.key("takers")).arg(buyer);
        let answer: String = call.invoke_async(&mut self.on.clone()).await.map_err(trouble)?;
        Ok(match answer.as_str() {
            "already" => Answer::AlreadyBought,
            "out" => Answer::SoldOut,
            _ => Answer::Ordered,
        })
    }

    async fn clear(&self) -> Result<()> {
        redis_link::forget(&self.on, &self.prefix).await
    }
}

fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}
