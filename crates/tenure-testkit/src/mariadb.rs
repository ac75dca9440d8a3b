//! Private MariaDB servers.
//!
//! Whatever is `shared` is started once per test binary and must be left as it was found; a test that breaks its
//! server starts its own.

mod options;
mod server;
mod template;

pub use options::MariaDbOptions;
pub use server::MariaDb;

use std::time::Duration;

use crate::{Result, programs::need};

/// The database that every server has, empty.
pub const DATABASE: &str = "tenure";

/// How long to leave `information_schema.INNODB_TRX` alone before each look: the server makes that table anew only if
/// nobody has looked at it for a tenth of a second, so that whoever looks more often sees the same for ever.
pub const LOOK_AGAIN: Duration = Duration::from_millis(110);

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
