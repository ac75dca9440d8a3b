//! Locks in ZooKeeper: a line is a node for each key, a place an ephemeral sequential node under it.
//!
//! The name of a place's node carries the claim's id, its mode and its session, so that one look at the children of a
//! key is the whole line, and a place whose creation was never answered is found again and not taken twice. Its number, and
//! so the fence, is the number of the change that created it (czxid): it grows with every change of the whole store and survives
//! whatever the store does.
//!
//! **Waiting.** A waiter watches the nearest place it cannot hold beside, and no other, so that a release wakes only whom
//! it concerns. It looks at that place while it sets the watch: one that had gone before would never tell. When nobody else
//! was ahead, the news that it has gone is the news that the waiter holds, with no further trip.
//!
//! **Time.** A place lives with its session. How long that is certain to live is said by what the *leader* has answered;
//! see `beats`. A server that was cut off from the leader goes on answering pings, and the driver of another kind that believes
//! them holds a lock that others hold too: hence this crate speaks the protocol itself. A session that ends is followed by
//! another; holders are told, waiters take new places.
//!
//! **Evictions** are nodes of their own, which every session watches: a holder learns of its eviction at once, and of
//! a gentle one before anybody takes its place.

mod beats;
mod client;
mod dial;
mod ear;
mod engine;
mod evict;
mod facts;
mod link;
mod mine;
mod place;
mod session;
mod sessions;
mod show;
mod stand;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "plain.rs"]
mod tls;
mod trouble;
mod url;
mod wire;

pub use self::{
    client::{Entry, Put, ZookeeperClient},
    engine::ZookeeperEngine,
    facts::guarantees_of,
    url::{OPTIONS, ZookeeperOptions},
};

/// What errors and tables call this engine.
const ENGINE: &str = "zookeeper";
