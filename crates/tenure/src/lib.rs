//! Distributed locks that stay correct, on the engine you already run.
//!
//! A lock is a *place in a line*, kept alive by a lease or a session, with a number, the [`Fence`], that the
//! protected resource can check. [`connect`] opens an engine by its URL; [`Client`] makes [`Mutex`], [`RwLock`],
//! [`Semaphore`], [`Multi`] and [`Election`] on it; each gives a [`Guard`] that knows how long it is safe.
//!
//! # Stop two hosts from running one job
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! let client = tenure::connect("memory:").await?;
//! let nightly = client.mutex("reports/nightly")?;
//!
//! match nightly.try_acquire().await? {
//!     Some(guard) => {
//!         // Show the fence to whatever you write to: it refuses whoever was overtaken.
//!         println!("running under fence {}", guard.fence());
//!         guard.release().await?;
//!     }
//!     None => println!("another host is at it"),
//! }
//! # Ok(()) }
//! ```
//!
//! # Work that stops when the lock is lost
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! # let client = tenure::connect("memory:").await?;
//! let total = client
//!     .mutex("ledger")?
//!     .run(|held| async move {
//!         // Dropped at its next await if the lock is lost.
//!         held.fence().get() % 2 + 40
//!     })
//!     .await?;
//! # assert!(total >= 40);
//! # Ok(()) }
//! ```
//!
//! # Data that refuses whoever was overtaken
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! # let client = tenure::connect("memory:").await?;
//! use tenure::fence::{Memory, Written};
//!
//! let balance = Memory::new(100); // or rows of a database, a key of Redis, a file: see `fence`
//! let guard = client.mutex("account/7")?.acquire().await?;
//! let n = balance.claim(guard.stamp())?; // before the first read
//! let seen = balance.read(guard.stamp())?;
//! assert_eq!(balance.write(guard.stamp(), n + 1, seen - 30)?, Written::Now);
//! # Ok(()) }
//! ```
//!
//! Threads without a runtime find the same in [`blocking`].

mod acquire;
pub mod blocking;
mod cleaner;
mod client;
mod connect;
mod duration;
mod election;
pub mod fence;
mod guard;
mod hold;
mod lane;
mod multi;
mod mutex;
mod observe;
mod owner;
mod quorum;
mod rwlock;
mod semaphore;
mod settings;
mod sync;
mod tasks;
mod terms;
pub mod versioned;
mod watchdog;

pub use tenure_core::{
    Applied, BootClock, Claim, ClaimId, Clock, Crash, Engine, EngineUrl, Error, ErrorKind, Evicted, Eviction,
    Fact, Failover, Fence, Fences, Filter, Floors, Grade, Guarantees, Key, Mode, Modes, Moment, Note, Op,
    Order, Place, Reach, Record, Refusal, Released, Result, Seq, Stamp, Standing, Ttl, Wake, When, line,
};

pub use self::{
    client::Client,
    connect::connect,
    duration::parse_duration,
    election::{Election, Leader, Leadership, Observation},
    guard::{Guard, Loss, Witness},
    multi::{Multi, MultiGuard},
    mutex::Mutex,
    owner::Owner,
    quorum::{Member, OpenMember, Quorum, QuorumSettings},
    rwlock::{RwLock, WriteGuard},
    semaphore::{Permit, Semaphore},
    settings::Settings,
    tasks::{Around, Task},
};

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[derive(Debug)]
pub struct Readme;

/// The examples of the page about fences, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fencing.md")]
#[derive(Debug)]
pub struct Fencing;
