//! Locks in MySQL and MariaDB: a lease table by the server's clock.
//!
//! Every verb is one transaction, sent whole as one text of several statements (`src/sql`): one round trip, no
//! stored routine, and no row stays locked while a client thinks. Values stand in it as numbers and hexadecimal
//! literals only. A verb locks the key's own row first, then reads the clock, removes what has lapsed, looks at the
//! line, and draws a number last; so the places of a key have numbers in the order in which they are committed.
//!
//! **Numbers** are a hybrid clock: above every number drawn before and not below the server's time in microseconds.
//! The largest so far stands in a row that outlives the keys, one for each of 256 groups of them, so that it does not
//! make all locks of a database wait for each other.
//!
//! **A life of the server** is who it is and the second it was started. A line written in another life may carry
//! another clock's deadlines: the first verb gives each of its places a whole lease.
//!
//! Waiters ask again, with growing pauses: these servers tell no client that a row has changed, and a connection that
//! blocks in the server for each waiter (`GET_LOCK`) is not used.

mod answer;
mod engine;
mod facts;
mod guarded;
mod link;
mod links;
mod script;
mod trouble;
mod url;

pub use self::{
    engine::MysqlEngine,
    facts::{Kind, guarantees_of},
    guarded::StillHeld,
    script::schema,
    url::{MysqlOptions, OPTIONS},
};

/// What errors and tables call this engine.
const ENGINE: &str = "mysql";
