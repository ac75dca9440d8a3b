//! Locks in PostgreSQL: a lease table, and a function of the database for each verb.
//!
//! A line has a row for each place. Every verb is one message and one transaction: it locks the key, by an advisory
//! lock that ends with the transaction, and only then draws a number, reads the clock and looks at the line. (A number
//! that is drawn first can be committed second: two holders. A row for each key to lock would do as well, and cost a
//! third of the verb.) Time is the server's alone. A release tells exactly the
//! processes that now hold (`NOTIFY` in its transaction), so that hand-off takes one trip; why such a push may be
//! believed is said in `tenure-redis`, and is the same here.
//!
//! Where the session at the other end may be lent to others, nothing of a verb is left in it: no prepared statement, no
//! setting, no lock. So it works behind a pooler that lends connections for a transaction, where only the pushes are
//! lost: that is found out when it is opened, and waiters then ask again by themselves.
//!
//! **Two connections.** Attempts may wait for a key, at most for a part of their ttl, and have a connection
//! of their own. Renewals have the other: a renewal waits for nobody. A release uses the first while that has
//! nothing to do, else the second, and if it has to wait there it goes over to the first.
//!
//! **Guarded writes.** A transaction of the caller's own, in the same database, can ask whether the lock is still held
//! and keep everybody else from being granted it until that transaction ends: see [`holds`].
//!
//! **Numbers** come from one sequence for all keys, which never leads back, whatever happens to the rows.

mod answer;
mod arg;
mod engine;
mod facts;
mod identity;
mod limits;
mod link;
mod links;
mod look;
mod news;
mod schema;
mod sweep;
mod text;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "plain.rs"]
mod tls;
mod trouble;
mod url;
mod wire;

pub use self::{
    engine::PostgresEngine,
    facts::{Kind, guarantees_of},
    schema::{holds, schema},
    url::{OPTIONS, PostgresOptions},
};

/// What errors and tables call this engine.
const ENGINE: &str = "postgres";
