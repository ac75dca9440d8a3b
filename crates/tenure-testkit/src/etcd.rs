//! Private etcd servers: one alone, and three that agree.
//!
//! Whatever is `shared` is started once per test binary and must be left as it was found; a test that breaks its
//! server starts its own.

mod admin;
mod cluster;
mod server;
mod wires;

pub use admin::{Admin, base64};
pub use cluster::Cluster;
pub use server::{Etcd, EtcdOptions};

pub use crate::tls::{Certificates, certificates};

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    crate::programs::need(&[("etcd", "etcd-server"), ("openssl", "openssl")])
}
