//! What a session hears besides answers: that a watched node has changed or gone.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};

use crate::wire::Change;

#[derive(Debug)]
pub(crate) struct Ear {
    /// Who waits for which node.
    watches: Mutex<HashMap<String, Vec<oneshot::Sender<Change>>>>,
    /// The newest change that a server of this session had seen.
    seen: AtomicI64,
    /// Where evictions are written down.
    graves: String,
    /// How often evictions were said to be written down, and which of these words was the last before they were read.
    told: AtomicU64,
    read: AtomicU64,
    /// Somebody should read it.
    news: Notify,
}

impl Ear {
    pub(crate) fn new(graves: String) -> Self {
        Self {
            watches: Mutex::default(),
            seen: AtomicI64::new(0),
            graves,
            told: AtomicU64::new(1),
            read: AtomicU64::new(0),
            news: Notify::new(),
        }
    }

    /// Resolves when this node is told to have changed, provided that a watch is set on it afterwards.
    pub(crate) fn watch(&self, path: &str) -> oneshot::Receiver<Change> {
        let (tell, told) = oneshot::channel();
        let mut watches = self.lock();
        let waiting = watches.entry(path.to_owned()).or_default();
        waiting.retain(|other| !other.is_closed());
        waiting.push(tell);
        told
    }

    /// Forgets whoever has stopped waiting for this node.
    pub(crate) fn forget(&self, path: &str) {
        let mut watches = self.lock();
        if let Some(waiting) = watches.get_mut(path) {
            waiting.retain(|other| !other.is_closed());
            if waiting.is_empty() {
                watches.remove(path);
            }
        }
    }

    pub(crate) fn event(&self, change: Change, path: &str) {
        if path == self.graves {
            // Marked here, before any later event is told: who then hears that the one ahead has gone must not
            // believe that it holds before it is known whether its own place was taken.
            self.told.fetch_add(1, Ordering::AcqRel);
            self.news.notify_one();
            return;
        }
        for waiting in self.lock().remove(path).into_iter().flatten() {
            let _ = waiting.send(change);
        }
    }

    /// No watch outlives its connection, so everybody looks again.
    pub(crate) fn deafen(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
        for waiting in std::mem::take(&mut *self.lock()).into_values().flatten() {
            let _ = waiting.send(Change::Other);
        }
    }

    /// Resolves when an eviction was written down.
    pub(crate) async fn evictions(&self) {
        self.news.notified().await;
    }

    /// What was told so far: asked before the evictions are read.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// The evictions were read, and whom they concern was marked, after this was told.
    pub(crate) fn has_read(&self, told: u64) {
        self.read.fetch_max(told, Ordering::AcqRel);
    }

    /// Whether there may be an eviction that this session has not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.read.load(Ordering::Acquire) < self.told()
    }

    pub(crate) fn saw(&self, change: i64) {
        self.seen.fetch_max(change, Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> i64 {
        self.seen.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<oneshot::Sender<Change>>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_is_told_once_and_the_silent_are_forgotten() {
        let ear = Ear::new("/g".into());
        let (mut one, mut two) = (ear.watch("/a"), ear.watch("/a"));
        drop(ear.watch("/a"));
        ear.event(Change::Gone, "/b");
        assert!(one.try_recv().is_err());
        ear.event(Change::Gone, "/a");
        assert_eq!((one.try_recv(), two.try_recv()), (Ok(Change::Gone), Ok(Change::Gone)));
        let mut three = ear.watch("/a");
        ear.deafen();
        assert_eq!(three.try_recv(), Ok(Change::Other));
        drop(ear.watch("/c"));
        ear.forget("/c");
        assert!(ear.lock().is_empty());
    }

    #[test]
    fn an_eviction_is_unread_until_it_is_read() {
        let ear = Ear::new("/g".into());
        assert!(ear.has_unread(), "nothing was read yet");
        ear.has_read(ear.told());
        assert!(!ear.has_unread());
        let before = ear.told();
        ear.event(Change::Other, "/g");
        ear.has_read(before);
        assert!(ear.has_unread(), "what was told while it was read is not read");
        ear.has_read(ear.told());
        ear.deafen();
        assert!(ear.has_unread());
    }
}
