//! Writes that happen only while the lock is held.

use tenure_core::{ClaimId, Error, ErrorKind, Fence, Op, Result};

use crate::{ENGINE, EtcdEngine};

/// What a transaction compares to happen only while a lock is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAt {
    /// The place, as a key of the store.
    pub key: Vec<u8>,
    /// The revision at which it was created. The place is gone if it is another, or none.
    pub create_revision: i64,
}

impl EtcdEngine {
    /// Where the hold of this claim, with this fence, stands in the store. Nothing is asked.
    ///
    /// Put it into a transaction of your own, with any client of the same store, as a comparison of the key's create
    /// revision: the transaction then writes only if the lock is still held, whatever time has passed. A hold ends for
    /// nobody but its owner while its place is there, so there is nothing to lock and nothing to wait for.
    ///
    /// # Errors
    /// `Lost` if this engine has no such hold any more, or never had.
    pub fn held_at(&self, claim: ClaimId, fence: Fence) -> Result<HeldAt> {
        let place = self.sessions.known(claim).filter(|place| place.seq == fence.seq());
        let at = place.and_then(|place| {
            let create_revision = i64::try_from(place.seq.get()).ok()?;
            Some(HeldAt { key: self.sessions.names.place(&place.key, place.spot), create_revision })
        });
        let lost = || Error::new(ErrorKind::Lost, Op::Run, "there is no such hold").with_engine(ENGINE);
        at.ok_or_else(lost)
    }
}
