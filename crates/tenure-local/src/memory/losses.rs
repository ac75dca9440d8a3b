use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tenure_core::{ClaimId, Seq};
use tokio::sync::Notify;

/// What one client must be told: the places that an operator took from it.
#[derive(Debug, Default)]
pub(super) struct Losses {
    state: Mutex<State>,
    /// How many ids are refused, so that the hot path needs no lock to learn that none is.
    refused: AtomicUsize,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    untold: Vec<(ClaimId, Seq)>,
    /// Evicted ids whose owner has not let go yet: another attempt would silently queue again.
    refused: HashSet<ClaimId>,
}

impl Losses {
    pub(super) fn tell(&self, id: ClaimId, seq: Seq) {
        let mut state = self.lock();
        state.untold.push((id, seq));
        state.refused.insert(id);
        self.refused.store(state.refused.len(), Ordering::Release);
        drop(state);
        self.news.notify_one();
    }

    pub(super) async fn next(&self) -> Vec<(ClaimId, Seq)> {
        loop {
            let untold = std::mem::take(&mut self.lock().untold);
            if !untold.is_empty() {
                return untold;
            }
            self.news.notified().await;
        }
    }

    pub(super) fn evicted(&self, id: ClaimId) -> bool {
        self.refused.load(Ordering::Acquire) > 0 && self.lock().refused.contains(&id)
    }

    pub(super) fn forget(&self, id: ClaimId) {
        if self.refused.load(Ordering::Acquire) > 0 {
            let mut state = self.lock();
            state.refused.remove(&id);
            self.refused.store(state.refused.len(), Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
