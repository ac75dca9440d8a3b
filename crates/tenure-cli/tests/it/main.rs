//! The promises of the `tenure` command, asked of the real binary on the file engine.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod background;
mod bed;
mod busy;
mod docs;
mod doctor;
mod engine;
mod etcd;
mod explain;
mod forward;
mod inspect;
mod job;
mod killed;
mod lease;
mod lost;
mod memcached;
mod print;
mod process;
mod redis;
mod remote;
mod report;
mod secrets;
mod shared;
mod sql;
mod terminal;
mod times;
mod tty;
mod usage;
mod wait;
mod zookeeper;
