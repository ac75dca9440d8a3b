//! Private PostgreSQL servers.
//!
//! Whatever is `shared` is started once per test binary and must be left as it was found; a test that breaks its
//! server starts its own.

mod family;
mod options;
mod probe;
mod server;
mod template;

use std::{fs, path::PathBuf};

pub use options::PostgresOptions;
pub(crate) use probe::probe;
pub use server::Postgres;
pub(crate) use server::{ADMIN, session};
pub(crate) use template::USER;

use crate::{
    Result,
    programs::{find, missing, need},
};

/// The database that every server has, empty.
pub const DATABASE: &str = "tenure";

/// Where Debian keeps the programs, in a directory for each version.
const HOME: &str = "/usr/lib/postgresql";

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    programs()?;
    need(&[("openssl", "openssl")])
}

/// The directory of the programs: of the newest version, or of whatever is on the search path.
///
/// The `psql` that Debian has on the search path looks for the right one first, which takes longer than the right one.
fn programs() -> Result<PathBuf, String> {
    let complete = |dir: &PathBuf| ["postgres", "initdb", "psql"].iter().all(|name| dir.join(name).is_file());
    let versions = fs::read_dir(HOME).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, dir)| complete(dir))
        .max();
    let on_path = || find("postgres")?.parent().map(PathBuf::from).filter(complete);
    newest.map(|(_, dir)| dir).or_else(on_path).ok_or_else(|| missing("postgres", "postgresql"))
}
