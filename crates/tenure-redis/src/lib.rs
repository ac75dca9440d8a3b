//! Locks in Redis: one server, Sentinel, Cluster.
//!
//! A line is one hash, changed by one script per verb (`src/lua`), so every verb is one round trip and atomic, and
//! eviction or expiry takes all of a line or nothing. Time is the server's alone. A release tells exactly the
//! processes that now hold, in the same step that removes the place: hand-off takes one trip.
//!
//! **Why a push may be believed.** A waiting place has a lease of its own. A push names the place's number and the
//! server's life; the library acts on it only if both are those of its newest acknowledged attempt, and counts the
//! hold from when *that attempt* was sent. That place was alive until at least then plus the ttl; places ahead only
//! leave, so once at the front it stays there; and only its owner, its lease or an operator removes it. A message
//! that is lost, late, doubled, from another life of the server or for a place that has lapsed therefore costs an
//! attempt at most. Connections do not outlive their server: a new one starts with an attempt.
//!
//! **Numbers** are a hybrid clock: above every number drawn before (one mark per server, or per slot of a cluster),
//! and not below the server's time in microseconds, so that a server that lost its memory goes on above. Nothing is
//! kept per key once its line is empty. Along a line they rise, mark or not, so that a number tells in which part of a
//! long line its place stands (`src/lua/order.lua`).

mod address;
mod cluster;
mod conn;
mod engine;
mod facts;
mod link;
mod links;
mod names;
mod news;
mod reader;
mod resp;
mod script;
mod sent;
mod sentinel;
mod slot;
mod trouble;
mod url;
mod wire;
mod words;

pub use self::{
    engine::RedisEngine,
    facts::Kind,
    facts::guarantees_of,
    url::{Eviction, OPTIONS, RedisOptions, Topology},
};

/// What errors and tables call this engine.
const ENGINE: &str = "redis";
