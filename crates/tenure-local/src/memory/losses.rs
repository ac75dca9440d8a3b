use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenure_core::{ClaimId, Seq};

/// What one client must be told: the places that an operator took from it.
#[derive(Debug, Default)]
pub(super) struct Losses {
    untold: tenure_core::Losses,
    /// Evicted ids whose owner has not let go yet: another attempt would silently queue again.
    refused: Mutex<HashSet<ClaimId>>,
    /// How many ids are refused, so that the hot path needs no lock to learn that none is.
    many: AtomicUsize,
}

impl Losses {
    pub(super) fn tell(&self, id: ClaimId, seq: Seq) {
        let mut refused = self.refused();
        refused.insert(id);
        self.many.store(refused.len(), Ordering::Release);
        drop(refused);
        self.untold.tell([(id, seq)]);
    }

    pub(super) async fn next(&self) -> Vec<(ClaimId, Seq)> {
        self.untold.next().await
    }

    pub(super) fn evicted(&self, id: ClaimId) -> bool {
        self.many.load(Ordering::Acquire) > 0 && self.refused().contains(&id)
    }

    pub(super) fn forget(&self, id: ClaimId) {
        if self.many.load(Ordering::Acquire) > 0 {
            let mut refused = self.refused();
            refused.remove(&id);
            self.many.store(refused.len(), Ordering::Release);
        }
    }

    fn refused(&self) -> MutexGuard<'_, HashSet<ClaimId>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
