//! Locks in MySQL and MariaDB: a lease table by the server's clock.
//!
//! Every verb is one transaction, sent whole as one text of several statements (`src/sql`): one round trip, no
//! stored routine, and no row stays locked while a client thinks. Values stand in it as numbers and hexadecimal
//! literals only. A verb locks the key's own row first, then reads the clock, removes what has lapsed, looks at the
//! line, and draws a number last; so the places of a key have numbers in the order in which they are committed.
//!
//! A claim that is alone on its key stands in that row itself, so that to take and to release it is one statement each
//! (`src/alone.rs`). Where somebody else came meanwhile, such a release takes a second round trip; so does an attempt
//! that finds that it is not alone. A line in which somebody was met last time is joined and left in few statements
//! (`src/crowd.rs`), with the same reservation.
//!
//! **Numbers** are a hybrid clock: above every number drawn before and not below the server's time in microseconds.
//! The largest so far stands in the key's row. Rows of keys that nobody wants are removed after a minute, some at a
//! time; their largest numbers outlive them in 256 rows, one for each group of keys.
//!
//! **A life of the server** is who it is and the second it was started. A line written in another life may carry
//! another clock's deadlines: the first verb gives each of its places a whole lease.
//!
//! **Waiters** block in the server, on connections that do nothing else (`src/waits.rs`), until the one ahead has let
//! go of a user-level lock named after it (`GET_LOCK`), and learn in the same round trip whether they hold. Where these
//! locks do not work (Galera, poolers), or by `wake=poll`, they ask again, with growing pauses.

mod alone;
mod answer;
mod bell;
mod crowd;
mod engine;
mod facts;
mod guarded;
mod link;
mod links;
mod renew;
mod script;
mod show;
mod trouble;
mod url;
mod verbs;
mod waits;
mod words;

pub use self::{
    engine::MysqlEngine,
    facts::{Kind, guarantees_of},
    guarded::StillHeld,
    script::schema,
    url::{MysqlOptions, OPTIONS},
};

/// What errors and tables call this engine.
const ENGINE: &str = "mysql";
