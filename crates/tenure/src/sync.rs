//! The few primitives that lane and watchdog synchronise by. A test swaps this module for a scheduler that tries
//! other interleavings.

pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks, whatever a panicking thread left behind: everything under these locks is changed in single steps.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
