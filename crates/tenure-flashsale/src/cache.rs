//! The cache where the homemade locks of the field are, and the counter: a Redis server, or a file that answers like one.

mod embedded;
mod redis;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use tenure::EngineUrl;

use crate::{
    trouble::{Result, Trouble},
    wire::Answer,
};

/// The commands that the homemade locks are made of. Each is atomic; what is made of them is not.
#[async_trait]
pub(crate) trait Cache: std::fmt::Debug + Send + Sync {
    /// `SETNX`: whether the key was free.
    async fn set_nx(&self, key: &str, value: &str) -> Result<bool>;
    /// `SET key value NX PX lease`.
    async fn set_nx_px(&self, key: &str, value: &str, lease: Duration) -> Result<bool>;
    /// `PEXPIRE`.
    async fn expire(&self, key: &str, lease: Duration) -> Result<()>;
    /// `GET`.
    async fn get(&self, key: &str) -> Result<Option<String>>;
    /// `GETSET`.
    async fn get_set(&self, key: &str, value: &str) -> Result<Option<String>>;
    /// `DEL`.
    async fn del(&self, key: &str) -> Result<()>;
    /// `SET` of a number.
    async fn put(&self, key: &str, number: i64) -> Result<()>;
    /// Takes one of a number for this buyer, if the buyer has none and the number is not zero.
    async fn take_one(&self, key: &str, buyer: u32) -> Result<Answer>;
    /// Removes what this sale left.
    async fn clear(&self) -> Result<()>;
}

/// Opens the cache at this URL for one sale.
pub(crate) async fn connect(text: &str, sale: &str) -> Result<Arc<dyn Cache>> {
    let url: EngineUrl = text.parse()?;
    match url.scheme() {
        "sqlite" => Ok(Arc::new(embedded::Embedded::open(url.path()).await?)),
        "redis" => Ok(Arc::new(redis::RedisCache::connect(text, sale).await?)),
        other => Err(Trouble::Usage(format!("there is no cache called `{other}:`"))),
    }
}

/// What time this host believes it is, in milliseconds.
pub(crate) fn wall_clock(skew: Duration) -> u128 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a lock by the clients' clocks is what one of the wrong ways is"
    )]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (now.unwrap_or_default() + skew).as_millis()
}
