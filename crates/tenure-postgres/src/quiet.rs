//! Which keys were alone when they were last given back, so that the shortest way to take and leave them is tried first.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// So many keys are remembered, each in a place that others may want too.
const KEYS: usize = 1024;

/// A guess, and a bounded one: who is wrong about a key asks the server once more, and nothing else.
#[derive(Debug)]
pub(crate) struct Quiet {
    hasher: RandomState,
    keys: Box<[AtomicU64]>,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { hasher: RandomState::new(), keys: (0..KEYS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Quiet {
    /// Whether nobody else was there when this client last gave the key back.
    pub(crate) fn was(&self, key: &str) -> bool {
        let (place, mark) = self.place(key);
        place.load(Ordering::Relaxed) == mark
    }

    /// Remembers whether anybody else was there.
    pub(crate) fn note(&self, key: &str, quiet: bool) {
        let (place, mark) = self.place(key);
        if quiet {
            place.store(mark, Ordering::Relaxed);
        } else {
            // The place may be another key's by now.
            let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, key: &str) -> (&AtomicU64, u64) {
        let mark = self.hasher.hash_one(key).max(1);
        (&self.keys[mark as usize % KEYS], mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_quiet_until_it_is_not() {
        let quiet = Quiet::default();
        assert!(!quiet.was("a"));
        quiet.note("a", true);
        assert!(quiet.was("a") && !quiet.was("b"));
        quiet.note("b", false);
        assert!(quiet.was("a"));
        quiet.note("a", false);
        assert!(!quiet.was("a"));
    }

    #[test]
    fn many_keys_need_no_more_room() {
        let quiet = Quiet::default();
        (0..10 * KEYS).for_each(|key| quiet.note(&key.to_string(), true));
        let known = (0..10 * KEYS).filter(|key| quiet.was(&key.to_string())).count();
        assert!(known > 0 && known <= KEYS, "{known}");
    }
}
