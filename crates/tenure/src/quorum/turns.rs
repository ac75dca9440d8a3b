//! Tells waiters of this process that a place was freed here. Those of other processes find out by asking.

use std::{collections::HashMap, sync::Arc};

use tenure_core::{Key, Moment};
use tokio::sync::Notify;

use crate::sync::{Mutex, lock};

/// Who waits for which key. One waiter is woken for each release, and a reader that got in wakes the next.
///
/// A key is known from the first time that somebody found it busy, so that a release between the attempt and the wait
/// is not missed; it is forgotten when nobody has come back to it for a ttl.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Keys>);

#[derive(Debug, Default)]
struct Keys {
    waited_for: HashMap<Key, (Arc<Notify>, Moment)>,
    sweep_at: usize,
}

impl Turns {
    /// Somebody found the key busy at this moment and may wait for it until then.
    pub(super) fn busy(&self, key: &Key, now: Moment, until: Moment) -> Arc<Notify> {
        let mut keys = lock(&self.0);
        if keys.waited_for.len() >= keys.sweep_at.max(64) {
            keys.waited_for.retain(|_, (news, until)| Arc::strong_count(news) > 1 || now < *until);
            keys.sweep_at = 2 * keys.waited_for.len();
        }
        if let Some((news, known)) = keys.waited_for.get_mut(key) {
            *known = until.max(*known);
            return news.clone();
        }
        let news = Arc::<Notify>::default();
        keys.waited_for.insert(key.clone(), (news.clone(), until));
        news
    }

    /// The key may be free for one more.
    pub(super) fn next(&self, key: &Key) {
        if let Some((news, _)) = lock(&self.0).waited_for.get(key) {
            news.notify_one();
        }
    }
}
