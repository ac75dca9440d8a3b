//! Redis as the shop's store: a hash for the shelf, a list of receipts, and a script for each step.

use std::sync::LazyLock;

use async_trait::async_trait;
use redis::{AsyncCommands, Script, aio::MultiplexedConnection};
use tenure::fence::{self, Stamp};

use super::{Change, Receipt, Shelf, Store};
use crate::{
    redis_link::{self, trouble},
    trouble::{Result, Trouble},
    wire::Answer,
};

/// What is done to sell one: `KEYS` are shelf, receipts and buyers, `ARGV` the receipt, the buyer, and what is left.
const PUT: &str = "redis.call('HSET', KEYS[1], 'stock', ARGV[3]) redis.call('HINCRBY', KEYS[1], 'version', 1) \
                   redis.call('RPUSH', KEYS[2], ARGV[1]) redis.call('SADD', KEYS[3], ARGV[2])";
/// The same for who takes one, if there is one.
const TAKE: &str = "if tonumber(redis.call('HGET', KEYS[1], 'stock')) >= 1 then \
                    redis.call('HINCRBY', KEYS[1], 'stock', -1) redis.call('HINCRBY', KEYS[1], 'version', 1) \
                    redis.call('RPUSH', KEYS[2], ARGV[1]) redis.call('SADD', KEYS[3], ARGV[2]) end";

static PUT_IF: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "if redis.call('HGET', KEYS[1], 'version') ~= ARGV[4] then return 0 end {PUT} return 1"
    ))
});
static PUT_NOW: LazyLock<Script> = LazyLock::new(|| Script::new(PUT));
static TAKE_ONCE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "if redis.call('SISMEMBER', KEYS[3], ARGV[2]) == 1 then return 'already' end \
         if tonumber(redis.call('HGET', KEYS[1], 'stock')) < 1 then return 'out' end {TAKE} return 'ordered'"
    ))
});
static TAKE_NOW: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE));

/// The shop on a Redis server.
pub(crate) struct RedisStore {
    on: MultiplexedConnection,
    keys: [String; 3],
    prefix: String,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

pub(super) async fn connect(url: &str, sale: &str) -> Result<RedisStore> {
    let prefix = format!("tenure-sale:{{{sale}}}");
    let keys = ["shelf", "receipts", "buyers"].map(|name| format!("{prefix}:{name}"));
    Ok(RedisStore { on: redis_link::connect(url).await?, keys, prefix })
}

impl RedisStore {
    /// A script on the three keys, with the receipt and the buyer as its first arguments.
    async fn sell<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        receipt: &Receipt,
        args: &[i64],
    ) -> Result<T> {
        let mut call = script.key(&self.keys[0]);
        call.key(&self.keys[1]).key(&self.keys[2]).arg(receipt.to_string()).arg(receipt.buyer).arg(args);
        call.invoke_async(&mut self.on.clone()).await.map_err(trouble)
    }

    fn fence(&self, resource: &str) -> fence::Redis {
        fence::Redis::with_record(&self.keys[0], format!("{}:fence:{resource}", self.prefix))
    }

    async fn field(&self, name: &str) -> Result<i64> {
        self.on.clone().hget(&self.keys[0], name).await.map_err(trouble)
    }

    async fn set(&self, name: &str, number: i64) -> Result<()> {
        self.on.clone().hset(&self.keys[0], name, number).await.map_err(trouble)
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn open(&self, stock: i64) -> Result<()> {
        let fields = [("stock", stock), ("version", 0), ("price", Receipt::PRICE), ("tax", Receipt::TAX)];
        self.on.clone().hset_multiple(&self.keys[0], &fields).await.map_err(trouble)
    }

    async fn look(&self, buyer: Option<u32>) -> Result<Shelf> {
        let mut ask = redis::pipe();
        ask.atomic().hmget(&self.keys[0], &["stock", "version"]);
        ask.sismember(&self.keys[2], buyer.map_or(-1, i64::from));
        let (shelf, bought): (Vec<Option<i64>>, bool) =
            ask.query_async(&mut self.on.clone()).await.map_err(trouble)?;
        match shelf[..] {
            [Some(left), Some(version)] => Ok(Shelf { left, version, bought }),
            _ => Err(Trouble::Unavailable("the sale is not in the store any more".into())),
        }
    }

    async fn put(&self, left: i64, receipt: &Receipt) -> Result<()> {
        self.sell(&PUT_NOW, receipt, &[left]).await
    }

    async fn put_if(&self, version: i64, left: i64, receipt: &Receipt) -> Result<bool> {
        self.sell(&PUT_IF, receipt, &[left, version]).await
    }

    async fn take(&self, receipt: &Receipt) -> Result<Answer> {
        let answer: String = self.sell(&TAKE_ONCE, receipt, &[]).await?;
        Ok(match answer.as_str() {
            "already" => Answer::AlreadyBought,
            "out" => Answer::SoldOut,
            _ => Answer::Ordered,
        })
    }

    async fn append(&self, receipt: &Receipt) -> Result<()> {
        self.sell(&TAKE_NOW, receipt, &[]).await
    }

    async fn claim(&self, resource: &str, stamp: Stamp, buyer: u32) -> Result<(u64, Shelf)> {
        let n = self.fence(resource).claim(&mut self.on.clone(), stamp).await?;
        Ok((n, self.look(Some(buyer)).await?))
    }

    async fn write(
        &self,
        resource: &str,
        stamp: Stamp,
        n: u64,
        change: Change,
        receipt: &Receipt,
    ) -> Result<Answer> {
        let keys = self.keys.each_ref().map(String::as_str);
        let (text, buyer) = (receipt.to_string(), receipt.buyer.to_string());
        let (lua, left) = match change {
            Change::Put(left) => (PUT, left.to_string()),
            Change::Take => (TAKE, String::new()),
        };
        let mut on = self.on.clone();
        let args = [text, buyer, left];
        let _ = self.fence(resource).write_with(&mut on, stamp, n, lua, &keys, &args).await?;
        // The script tells what it wrote by writing it.
        match change {
            Change::Put(_) => Ok(Answer::Ordered),
            Change::Take if self.look(Some(receipt.buyer)).await?.bought => Ok(Answer::Ordered),
            Change::Take => Ok(Answer::SoldOut),
        }
    }

    async fn price(&self) -> Result<i64> {
        self.field("price").await
    }

    async fn tax(&self) -> Result<i64> {
        self.field("tax").await
    }

    async fn set_price(&self, price: i64) -> Result<()> {
        self.set("price", price).await
    }

    async fn set_tax(&self, tax: i64) -> Result<()> {
        self.set("tax", tax).await
    }

    async fn ledger(&self) -> Result<Vec<Receipt>> {
        let all: Vec<String> = self.on.clone().lrange(&self.keys[1], 0, -1).await.map_err(trouble)?;
        all.iter().map(|text| Receipt::parse(text)).collect()
    }

    async fn clear(&self) -> Result<()> {
        redis_link::forget(&self.on, &self.prefix).await
    }
}
