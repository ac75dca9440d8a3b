//! Private ZooKeeper servers: one alone, and an ensemble of three whose members can be cut off from each other.
//!
//! What is `shared` is started once per test binary and must be left as it was found; a test that breaks its server
//! starts its own.

mod ensemble;
mod options;
mod server;

use std::path::Path;

pub use ensemble::Ensemble;
pub use options::ZookeeperOptions;
pub use server::{Role, Zookeeper};

use crate::{
    Result,
    programs::{missing, need},
};

/// Where Debian keeps what is written in Java.
const JARS: &str = "/usr/share/java";

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    need(&[("java", "default-jre-headless"), ("openssl", "openssl")])?;
    for (jar, package) in [("zookeeper.jar", "zookeeper"), ("slf4j-simple.jar", "libslf4j-java")] {
        if !Path::new(JARS).join(jar).is_file() {
            return Err(missing(jar, package));
        }
    }
    Ok(())
}
