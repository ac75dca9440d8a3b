use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tenure_core::ClaimId;

use crate::link::Link;

/// Attempts without an answer so far, and the connection that each was sent on.
///
/// A server does what comes on one connection in order. So a release that follows an attempt on the same connection
/// frees what the attempt took, though nobody heard the answer, and need not leave a grave for an attempt that may come
/// later. A claim is in here until it is answered or released.
#[derive(Debug, Default)]
pub(crate) struct Sent(Mutex<HashMap<ClaimId, Way>>);

#[derive(Debug)]
enum Way {
    One(Weak<Link>),
    Several,
}

impl Sent {
    /// An attempt is about to be sent on this connection.
    pub(crate) fn on(&self, id: ClaimId, link: &Arc<Link>) {
        match self.ways().entry(id) {
            Entry::Vacant(first) => {
                first.insert(Way::One(Arc::downgrade(link)));
            }
            Entry::Occupied(before) if before.get().is(link) => {}
            Entry::Occupied(mut before) => drop(before.insert(Way::Several)),
        }
    }

    /// The newest attempt was answered on this connection, hence all before it that were sent there.
    pub(crate) fn answered(&self, id: ClaimId, link: &Arc<Link>) {
        if let Entry::Occupied(way) = self.ways().entry(id)
            && way.get().is(link)
        {
            way.remove();
        }
    }

    /// Nothing was sent after all, or the claim is released.
    pub(crate) fn forget(&self, id: ClaimId) {
        self.ways().remove(&id);
    }

    /// Whether all attempts that may be under way come before what is sent on this connection now.
    pub(crate) fn all_before(&self, id: ClaimId, link: &Arc<Link>) -> bool {
        self.ways().get(&id).is_some_and(|way| way.is(link))
    }

    fn ways(&self) -> MutexGuard<'_, HashMap<ClaimId, Way>> {
        // It is changed in single steps, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    fn is(&self, link: &Arc<Link>) -> bool {
        match self {
            Self::One(way) => std::ptr::eq(way.as_ptr(), Arc::as_ptr(link)),
            Self::Several => false,
        }
    }
}
