//! Tests the private servers and the proxy that other tests stand on: `cargo test -p tenure-testkit --test servers`.

#[cfg(target_os = "linux")]
#[path = "servers/process.rs"]
mod process;
#[cfg(target_os = "linux")]
#[path = "servers/proxy.rs"]
mod proxy;
#[cfg(target_os = "linux")]
#[path = "servers/redis.rs"]
mod redis;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use libtest_mimic::{Arguments, Trial, run};
    use tenure_testkit::{servers::Found, trials};

    if let Some(code) = process::run_if_asked() {
        return code;
    }
    let all = match tenure_testkit::redis::installed() {
        Ok(()) => [("process", process::TESTS), ("redis", redis::TESTS), ("proxy", proxy::TESTS)]
            .into_iter()
            .flat_map(|(area, tests)| {
                tests.iter().map(move |&(name, test)| (format!("{area}::{name}"), test))
            })
            .map(|(name, test)| Trial::test(name, move || Ok(test()?)))
            .collect(),
        Err(reason) => trials(vec![Found::Missing { name: "redis", reason }]),
    };
    let mut args = Arguments::from_args();
    // They wait for servers far more than they compute.
    args.test_threads.get_or_insert(8);
    run(&args, all).exit_code()
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
