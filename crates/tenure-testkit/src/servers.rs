//! The stores that the suite runs against, one file each.

#[cfg(target_os = "linux")]
mod etcd;
#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod memcached;
mod memory;
#[cfg(target_os = "linux")]
mod mysql;
#[cfg(target_os = "linux")]
mod postgres;
mod quorum;
#[cfg(target_os = "linux")]
mod redis;
#[cfg(target_os = "linux")]
mod store;
#[cfg(target_os = "linux")]
mod zookeeper;

use std::sync::Arc;

use tenure_core::{Engine, Error, Result};

use crate::Site;

/// What became of the search for an engine's server.
#[derive(Debug)]
pub enum Found {
    /// It can be used.
    Ready(Site),
    /// It is not installed.
    Missing {
        /// The engine's name.
        name: &'static str,
        /// What to install.
        reason: String,
    },
}

/// Every engine of the project.
#[must_use]
pub fn all() -> Vec<Found> {
    vec![
        memory::site(),
        quorum::site(),
        #[cfg(target_os = "linux")]
        file::site(),
        #[cfg(target_os = "linux")]
        memcached::single(),
        #[cfg(target_os = "linux")]
        memcached::three(),
        #[cfg(target_os = "linux")]
        memcached::restarted(),
        #[cfg(target_os = "linux")]
        mysql::site(),
        #[cfg(target_os = "linux")]
        postgres::single(),
        #[cfg(target_os = "linux")]
        postgres::pooled(),
        #[cfg(target_os = "linux")]
        redis::single(),
        #[cfg(target_os = "linux")]
        redis::cluster(),
        #[cfg(target_os = "linux")]
        redis::quorum(),
        #[cfg(target_os = "linux")]
        etcd::single(),
        #[cfg(target_os = "linux")]
        etcd::restarted(),
        #[cfg(target_os = "linux")]
        etcd::cluster(),
        #[cfg(target_os = "linux")]
        zookeeper::single(),
        #[cfg(target_os = "linux")]
        zookeeper::ensemble(),
        #[cfg(target_os = "linux")]
        zookeeper::restarted(),
    ]
}

/// Opens a store in a helper process, by the URL that its lab gave.
///
/// # Errors
/// If no file here knows the URL or the store cannot be opened.
pub async fn open(url: &str) -> Result<Arc<dyn Engine>> {
    match url.split_once(':') {
        #[cfg(target_os = "linux")]
        Some(("etcd", _)) => etcd::open(url).await,
        #[cfg(target_os = "linux")]
        Some(("file", dir)) => file::open_in(dir.into()).await,
        #[cfg(target_os = "linux")]
        Some(("memcached", _)) => memcached::open(url).await,
        #[cfg(target_os = "linux")]
        Some(("mysql", _)) => mysql::open(url).await,
        #[cfg(target_os = "linux")]
        Some(("postgres", _)) => postgres::open(url).await,
        #[cfg(target_os = "linux")]
        Some((scheme, _)) if scheme.starts_with("redis") || scheme.starts_with("quorum+redis") => {
            redis::open(url).await
        }
        #[cfg(target_os = "linux")]
        Some(("zookeeper", _)) => zookeeper::open(url).await,
        _ => Err(Error::invalid("a helper process cannot open this store")),
    }
}
