//! What an engine guesses of keys that it has met before.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// So many keys are remembered, each in a place that others may want too.
const KEYS: usize = 4096;

/// Of which keys something was true when they were last met. A guess, and a bounded one: it forgets a key when another
/// needs its place, so whoever acts on it must be able to be wrong at the cost of one more trip.
pub struct Hunch {
    hasher: RandomState,
    keys: Box<[AtomicU64]>,
}

impl Hunch {
    /// Whether it was last noted of this key, as far as is remembered.
    #[must_use]
    pub fn of(&self, key: impl Hash) -> bool {
        let (place, mark) = self.place(key);
        place.load(Ordering::Relaxed) == mark
    }

    /// Notes whether it is so.
    pub fn note(&self, key: impl Hash, so: bool) {
        let (place, mark) = self.place(key);
        if so {
            place.store(mark, Ordering::Relaxed);
        } else {
            // The place may be another key's by now.
            let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn place(&self, key: impl Hash) -> (&AtomicU64, u64) {
        let mark = self.hasher.hash_one(key).max(1);
        (&self.keys[mark as usize % KEYS], mark)
    }
}

impl Default for Hunch {
    fn default() -> Self {
        Self { hasher: RandomState::new(), keys: (0..KEYS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl fmt::Debug for Hunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hunch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_so_until_it_is_not() {
        let hunch = Hunch::default();
        assert!(!hunch.of("a"));
        hunch.note("a", true);
        assert!(hunch.of("a") && !hunch.of("b"));
        hunch.note("b", false);
        assert!(hunch.of("a"));
        hunch.note("a", false);
        assert!(!hunch.of("a"));
    }

    #[test]
    fn many_keys_need_no_more_room() {
        let hunch = Hunch::default();
        (0..10 * KEYS).for_each(|key| hunch.note(key, true));
        let known = (0..10 * KEYS).filter(|key| hunch.of(key)).count();
        assert!(known > 0 && known <= KEYS, "{known}");
    }
}
