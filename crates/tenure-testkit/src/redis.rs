//! Private Redis servers: alone, five of them, a master with its sentinels, a cluster.
//!
//! Whatever is `shared` is started once per test binary and must be left as it was found; a test that breaks its
//! server starts its own.

mod admin;
mod cluster;
mod options;
mod sentinels;
mod server;

use std::{env, sync::OnceLock};

pub use admin::{Admin, Reply};
pub use cluster::{Cluster, SlotMove};
pub use options::{Persistence, RedisOptions, Role};
pub use sentinels::Sentinels;
pub use server::Redis;

pub use crate::tls::{Certificates, certificates};
use crate::{Failure, Result};

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    let path = env::var_os("PATH").unwrap_or_default();
    for program in ["redis-server", "redis-sentinel", "openssl"] {
        if !env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
            // On Debian each of them is in the package of its name.
            return Err(format!("`{program}` is not installed; run: apt-get install {program}"));
        }
    }
    Ok(())
}

/// Starts five independent servers, the members of a quorum.
///
/// # Errors
/// If one does not start.
pub fn five(options: &RedisOptions) -> Result<[Redis; 5]> {
    several(&[(); 5].map(|()| options.clone()))
}

/// Five independent servers without persistence that the tests of one binary share.
///
/// # Errors
/// If one did not start.
pub fn shared_five() -> Result<&'static [Redis; 5]> {
    static FIVE: OnceLock<Result<[Redis; 5]>> = OnceLock::new();
    FIVE.get_or_init(|| five(&RedisOptions::default())).as_ref().map_err(Clone::clone)
}

/// Starts servers beside each other and waits for all of them.
fn several<const N: usize>(options: &[RedisOptions; N]) -> Result<[Redis; N]> {
    let servers = options.iter().map(|options| Redis::launch(options.clone())).collect::<Result<Vec<_>>>()?;
    servers.iter().try_for_each(Redis::wait_ready)?;
    servers.try_into().map_err(|_| Failure::of_the_trial("a server for each set of options"))
}
