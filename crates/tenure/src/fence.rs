//! Fenced data: resources that refuse whoever was overtaken.
//!
//! A lock that can expire cannot call back a packet that is already under way; the resource it goes to can refuse it.
//! For that it keeps a [`Record`] beside its data, and every holder shows its [`Stamp`]: [`Guard::stamp`] gives it.
//!
//! 1. **claim**, before the first read. From here on every earlier holder is refused.
//! 2. **read**, and think.
//! 3. **write**, with a number that counts 1, 2, 3 under this claim.
//!
//! A check on writes alone is not enough: the old holder reads and is stopped, the new one reads the same, the old one
//! writes (its fence is still the largest that the resource has seen), the new one writes over it.
//!
//! # Read, change, write back
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! use tenure::{ErrorKind, fence::{Memory, Written}};
//!
//! let client = tenure::connect("memory:").await?;
//! let balance = Memory::new(100);
//!
//! let guard = client.mutex("account/7")?.acquire().await?;
//! let stamp = guard.stamp();
//! let n = balance.claim(stamp)?; // the number of this holder's last write: 0
//! let seen = balance.read(stamp)?;
//! assert_eq!(balance.write(stamp, n + 1, seen - 30)?, Written::Now);
//! # let old = stamp;
//! guard.release().await?;
//!
//! // The next holder claims. What the first one still has on its way is refused.
//! let guard = client.mutex("account/7")?.acquire().await?;
//! balance.claim(guard.stamp())?;
//! let late = balance.write(old, n + 2, 0).unwrap_err();
//! assert_eq!(late.kind(), ErrorKind::Refused);
//! # Ok(()) }
//! ```
//!
//! # Resources
//! - [`Memory`], a value of this process; [`File`], a file that is replaced whole.
#![cfg_attr(
    feature = "fence-redis",
    doc = "- [`Redis`], a key on a Redis server, through the program's own connection (feature `fence-redis`)."
)]
//! - [`Sql`], rows of a MySQL, MariaDB or PostgreSQL database, inside the program's own transaction, so that data and
//!   record are committed together. The driver is the program's own: features `fence-sqlx-mysql`,
//!   `fence-sqlx-postgres`, `fence-mysql-async`, `fence-tokio-postgres`; another one implements [`Database`].
#![cfg_attr(
    feature = "etcd",
    doc = "- [`Etcd`], a key of etcd, through a bare client that comes with the engine (feature `etcd`)."
)]
#![cfg_attr(
    feature = "zookeeper",
    doc = "- [`Zookeeper`], a node of ZooKeeper, likewise (feature `zookeeper`)."
)]
//! - Anything else that can change two things in one step keeps a [`Record`] and asks it.
//!
//! # What to know
//! - One record belongs to one lock: fences of different keys do not compare.
//! - Work on several resources claims at all of them, always in the same order, before it reads any.
//! - A hold that [hands over](crate::Mutex) to another task of the process has a new fence: each claims for itself.
//! - A reply can be lost. Ask again with the same number: [`Written::Before`] says that it had been done. Who retries a
//!   *different* change under the same number must look at that answer.
//! - A [`Semaphore`](crate::Semaphore) has no stamp: several hold rightfully at once, and no resource can tell them
//!   from those who were overtaken.
//! - When a fence goes back, because an engine that is not graded Fenced forgot what it gave, the rightful holder is
//!   refused too, until its engine's numbers are above [`Record::mark`]. That is the safe side.

#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod memory;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod pair;
#[cfg(feature = "fence-redis")]
mod redis;
mod sql;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use tenure_core::{Record, Refusal, Stamp, Why};

#[cfg(feature = "etcd")]
pub use tenure_etcd::EtcdClient;
#[cfg(feature = "zookeeper")]
pub use tenure_zookeeper::ZookeeperClient;

#[cfg(feature = "etcd")]
pub use self::etcd::Etcd;
#[cfg(feature = "fence-redis")]
pub use self::redis::Redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use self::sql::StillHeld;
#[cfg(feature = "zookeeper")]
pub use self::zookeeper::Zookeeper;
pub use self::{
    file::File,
    memory::Memory,
    sql::{Database, Dialect, Ran, Sql, Trouble, Value},
};
#[cfg(doc)]
use crate::Guard;

/// Whether a write was done by this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "what was done before was not done by this call"]
pub enum Written {
    /// By this call.
    Now,
    /// By an earlier call with the same number, whose reply was lost: this one changed nothing.
    Before,
}
