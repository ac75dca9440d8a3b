//! Fenced data on every resource, through every driver, on real servers that are started once.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod differential;
mod files;
mod guarded;
mod links;
mod redis;
mod rules;
mod sites;
mod transactions;
mod versions;
