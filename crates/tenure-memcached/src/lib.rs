//! Locks in memcached, by meta commands alone: **Advisory**, since a restart or a full memory forgets them.
//!
//! A line is one item, changed by compare-and-swap only. Each place in it has a *lease item* of its own, which its
//! owner touches to live on and nobody ever makes anew: one item for all would have one expiry for all, and waiters
//! would keep a dead holder alive. A place whose lease item is gone is dead for good, so whoever finds that may take
//! it out of the line.
//!
//! **Why two cannot hold while nothing is forgotten.** A claim holds only if it stands at the front of the line as
//! the item has it, and its own lease item lives. Places ahead leave only by their owner, an operator, or after their
//! lease item was seen gone; that is final, since every place names a lease item that never existed before. Whoever
//! takes a place out swaps the very item that was looked at.
//!
//! **Numbers** are the server's own: when it started, in microseconds, plus the unique number that it gives to every
//! change (`cas`). Both only rise while a server lives; the next life starts later, and above, unless the clock was
//! set back or there were more than a million changes a second. So nothing is kept for a key that nobody wants.

mod attempt;
mod commands;
mod engine;
mod facts;
mod line;
mod link;
mod links;
mod names;
mod operator;
mod release;
mod renew;
mod reply;
mod seats;
mod trouble;
mod url;

pub use self::{
    engine::MemcachedEngine,
    facts::guarantees,
    url::{MemcachedOptions, OPTIONS},
};

/// What errors and tables call this engine.
const ENGINE: &str = "memcached";
