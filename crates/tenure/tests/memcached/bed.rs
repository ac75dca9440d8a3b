//! What the tests stand on: that of Redis, with another server.

#[path = "../redis/bed.rs"]
#[allow(dead_code, reason = "what is about Redis is not for these tests")]
mod common;

use tenure_testkit::{
    memcached::{Memcached, MemcachedOptions},
    proxy::Proxy,
};

pub(crate) use self::common::{
    Work, client, empties, forgets, gets, grows_to, millis, renewed_since, runs_down_to, secs, told, waits,
    within,
};

/// A server of the test's own, to be broken.
pub(crate) fn server(args: &[&str]) -> Memcached {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    Memcached::start(MemcachedOptions { args, ..MemcachedOptions::default() }).unwrap()
}

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    let server = Memcached::shared().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let broken = format!("memcached://{}", proxy.addr());
    (proxy, [broken, server.url()])
}
