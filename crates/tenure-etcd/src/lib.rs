//! Locks in etcd: a key for each place, kept by a lease, numbered by the revision that created it.
//!
//! A place is a key of its own with the claim's id in it, so two tasks of one client never share one by accident. What the
//! key is called belongs to the client and is used again (`spots.rs`). One transaction
//! takes it and reads the line, and the line says who holds. A waiter watches the nearest place that keeps it from
//! holding, from the revision after the one it saw, so that nothing is missed in between and nobody is woken in vain;
//! what it is told is a hint, and its own place is looked at again before it holds, unless nobody else can be ahead.
//!
//! **One lease for all.** All places of a client that asked for the same lease time are kept by one lease: its session,
//! which lives while the client does and has places. Beside it stands one key that the lease keeps too. A renewal is a
//! keep-alive *and* a read of that key through the leader, in one trip, and costs the same for one lock
//! or ten thousand: while the key is there the lease is, and while nobody has written it nobody was evicted. A server
//! that only believes to be the leader can answer the first, but not the second.
//!
//! **Numbers** are revisions: the store's own order of everything, which survives restarts and failovers.
//!
//! **Guarded writes.** A transaction of the caller's own can ask whether the lock is still held: see
//! [`EtcdEngine::held_at`].
//!
//! The protocol is spoken here directly (HTTP/2 by `h2`, messages by `prost` without a generator), since the usual
//! clients need `protoc` to be built, and hide that the connection behind them has become another.

mod attempt;
mod client;
mod engine;
mod facts;
mod grpc;
mod guarded;
mod link;
mod links;
mod look;
mod names;
mod pb;
mod place;
mod renew;
mod session;
mod sessions;
mod spots;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "plain.rs"]
mod tls;
mod trouble;
mod turn;
mod url;
mod words;

pub use self::{
    client::{Entry, EtcdClient},
    engine::EtcdEngine,
    facts::{Kind, guarantees_of},
    guarded::HeldAt,
    url::{EtcdOptions, OPTIONS},
};

/// What errors and tables call this engine.
const ENGINE: &str = "etcd";
