//! Private MariaDB servers.
//!
//! Whatever is `shared` is started once per test binary and must be left as it was found; a test that breaks its
//! server starts its own.

mod options;
mod server;
mod template;

pub use options::MariaDbOptions;
pub use server::MariaDb;

use crate::{Result, programs::need};

/// The database that every server has, empty.
pub const DATABASE: &str = "tenure";

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    need(&[
        ("mariadbd", "mariadb-server"),
        ("mariadb-install-db", "mariadb-server"),
        ("mariadb", "mariadb-client"),
        ("openssl", "openssl"),
    ])
}
