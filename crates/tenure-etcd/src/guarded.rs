//! Writes that happen only while the lock is held.

use tenure_core::{ClaimId, Error, Fence, Key, Result};

use crate::{names::Names, url::EtcdOptions};

/// What a transaction compares to happen only while a lock is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAt {
    /// The place, as a key of the store.
    pub key: Vec<u8>,
    /// The revision at which it was created. The place is gone if it is another, or none.
    pub create_revision: i64,
}

/// Where the hold with this fence stands in the store.
///
/// Put it into a transaction of your own, with any client of the same store, as a comparison of the key's create
/// revision: the transaction then writes only if the lock is still held, whatever time has passed. A hold ends for
/// nobody but its owner while its place is there, so there is nothing to lock and nothing to wait for.
///
/// # Errors
/// `Invalid` for a fence that no etcd gave.
pub fn holds(options: &EtcdOptions, key: &Key, claim: ClaimId, fence: Fence) -> Result<HeldAt> {
    let create_revision = i64::try_from(fence.seq().get())
        .map_err(|_| Error::invalid(format!("{fence:?} is no fence of this engine")))?;
    Ok(HeldAt { key: Names::new(&options.ns).place(key, claim), create_revision })
}
