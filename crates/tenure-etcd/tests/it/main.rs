//! etcd as its servers, its operators and its own transactions see it.

#![cfg(target_os = "linux")]

mod cost;
mod differential;
mod graves;
mod guarded;
mod links;
mod operators;
mod rights;
mod storm;
mod support;
mod time;
mod tls;
mod turns;
