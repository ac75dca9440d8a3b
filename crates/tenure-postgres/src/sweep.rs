//! The slow walk over all keys that removes what the dead have left on keys that nobody asks for any more.
//!
//! There is no task for it: every so many releases it takes one small step.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

/// How many releases there are between two steps.
const EVERY: u32 = 64;
/// How many keys one step looks at: more than are released in between, so that the walk gets around.
pub(crate) const STEP: i16 = 256;

#[derive(Debug, Default)]
pub(crate) struct Sweep {
    releases: AtomicU32,
    after: Mutex<Vec<u8>>,
}

impl Sweep {
    /// Where to start, if it is time for a step. The first release of a client is.
    pub(crate) fn due(&self) -> Option<Vec<u8>> {
        let count = self.releases.fetch_add(1, Ordering::Relaxed);
        count.is_multiple_of(EVERY).then(|| self.after.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The next step starts here.
    pub(crate) fn went_to(&self, key: Vec<u8>) {
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }
}
