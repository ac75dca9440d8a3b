//! Tests the private servers and the proxy that other tests stand on: `cargo test -p tenure-testkit --test servers`.

#[cfg(target_os = "linux")]
#[path = "servers/mariadb.rs"]
mod mariadb;
#[cfg(target_os = "linux")]
#[path = "servers/memcached.rs"]
mod memcached;
#[cfg(target_os = "linux")]
#[path = "servers/pgbouncer.rs"]
mod pgbouncer;
#[cfg(target_os = "linux")]
#[path = "servers/postgres.rs"]
mod postgres;
#[cfg(target_os = "linux")]
#[path = "servers/process.rs"]
mod process;
#[cfg(target_os = "linux")]
#[path = "servers/proxy.rs"]
mod proxy;
#[cfg(target_os = "linux")]
#[path = "servers/redis.rs"]
mod redis;
#[cfg(target_os = "linux")]
#[path = "servers/tls.rs"]
mod tls;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use libtest_mimic::{Arguments, Trial, run};
    use tenure_testkit::{servers::Found, trials};

    if let Some(code) = process::run_if_asked().or_else(postgres::run_if_asked) {
        return code;
    }
    let redis = tenure_testkit::redis::installed();
    let all = [
        ("process", redis.clone(), process::TESTS),
        ("redis", redis.clone(), redis::TESTS),
        ("proxy", redis, proxy::TESTS),
        ("mariadb", tenure_testkit::mariadb::installed(), mariadb::TESTS),
        ("memcached", tenure_testkit::memcached::installed(), memcached::TESTS),
        ("postgres", tenure_testkit::postgres::installed(), postgres::TESTS),
        ("pgbouncer", tenure_testkit::pgbouncer::installed(), pgbouncer::TESTS),
    ];
    let all = all.into_iter().flat_map(|(name, installed, tests)| match installed {
        Ok(()) => tests
            .iter()
            .map(|&(test, run)| Trial::test(format!("{name}::{test}"), move || Ok(run()?)))
            .collect(),
        Err(reason) => trials(vec![Found::Missing { name, reason }]),
    });
    let mut args = Arguments::from_args();
    // They wait for servers far more than they compute.
    args.test_threads.get_or_insert(8);
    run(&args, all.collect()).exit_code()
}

/// A test and its name.
#[cfg(target_os = "linux")]
type Test = (&'static str, fn() -> tenure_testkit::Result);

/// The functions of these names as tests.
#[cfg(target_os = "linux")]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[crate::Test] = &[$((stringify!($name), $name)),+];
    };
}
#[cfg(target_os = "linux")]
use tests;

/// A server's clock goes where it is set, and stays there when the server comes back.
#[cfg(target_os = "linux")]
fn clock_is_set(
    now: impl Fn() -> tenure_testkit::Result<f64>,
    step: impl Fn(i64) -> tenure_testkit::Result,
    restart: impl Fn() -> tenure_testkit::Result,
) -> tenure_testkit::Result {
    let before = now()?;
    step(600_000)?;
    let ahead = now()? - before;
    tenure_testkit::ensure!((600.0..660.0).contains(&ahead), "it went {ahead} s");
    step(-1_200_000)?;
    let back = now()? - before;
    tenure_testkit::ensure!((-600.0..-540.0).contains(&back), "it went {back} s");
    restart()?;
    let again = now()? - before;
    tenure_testkit::ensure!((-600.0..-540.0).contains(&again), "after a restart it stood at {again} s");
    Ok(())
}
