//! What this engine remembers of its own claims, and the news about them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Held, Losses, Seq};
use tokio::sync::Notify;

use super::{presence::Letter, record::Nonce};

#[derive(Debug, Default)]
pub(super) struct Book {
    claims: Mutex<HashMap<ClaimId, Entry>>,
    losses: Losses,
}

#[derive(Debug)]
struct Entry {
    seq: Seq,
    /// What the key's last number was raised to on behalf of this claim.
    raised: Seq,
    /// The count of evictions when its place was last looked at.
    looked: u64,
    holds: bool,
    again: bool,
    lost: bool,
    /// Whose death lets it try again.
    behind: Vec<Nonce>,
    news: Option<Arc<Notify>>,
}

/// What a waiter should do.
#[derive(Debug)]
pub(super) enum News {
    Again,
    Holds(Seq),
    Wait(Arc<Notify>),
}

impl Book {
    /// Notes a claim's place. Under the lock of the line, so that no news of it comes before.
    pub(super) fn enter(&self, id: ClaimId, seq: Seq, evictions: u64, behind: Vec<Nonce>) {
        let mut claims = self.lock();
        let fresh = Entry {
            seq,
            raised: seq,
            looked: evictions,
            holds: false,
            again: false,
            lost: false,
            behind: Vec::new(),
            news: None,
        };
        let entry = claims.entry(id).or_insert(fresh);
        if entry.seq != seq {
            // A new place: what was heard of the old one does not count.
            (entry.seq, entry.raised, entry.looked, entry.holds, entry.lost) =
                (seq, seq, evictions, false, false);
        }
        entry.again = false;
        entry.behind = behind;
    }

    pub(super) fn strike(&self, id: ClaimId) {
        if let Some(entry) = self.lock().remove(&id) {
            self.losses.withdraw(id);
            if let Some(news) = entry.news {
                news.notify_one();
            }
        }
    }

    pub(super) fn news(&self, id: ClaimId) -> News {
        let mut claims = self.lock();
        let Some(entry) = claims.get_mut(&id) else { return News::Again };
        if entry.holds {
            News::Holds(entry.seq)
        } else if std::mem::take(&mut entry.again) {
            News::Again
        } else {
            News::Wait(entry.news.get_or_insert_default().clone())
        }
    }

    /// Whether a hold is there, if that is known without looking into its line: it was looked at after the last
    /// eviction, and its key's last number is not below the floor.
    pub(super) fn knows(&self, hold: &Held<'_>, evictions: u64) -> Option<bool> {
        let claims = self.lock();
        let entry = claims.get(&hold.claim.id)?;
        if entry.seq != hold.seq || entry.lost {
            return Some(false);
        }
        (entry.looked == evictions && entry.raised >= hold.claim.floor).then_some(true)
    }

    /// The hold's place was looked at, and found with its key's last number at or above the floor.
    pub(super) fn looked(&self, hold: &Held<'_>, evictions: u64) {
        if let Some(entry) = self.lock().get_mut(&hold.claim.id) {
            entry.looked = evictions;
            entry.raised = entry.raised.max(hold.claim.floor);
        }
    }

    pub(super) fn hear(&self, letter: Letter) {
        let (Letter::Holds(id, seq) | Letter::Evicted(id, seq)) = letter;
        let mut claims = self.lock();
        let Some(entry) = claims.get_mut(&id).filter(|entry| entry.seq == seq) else { return };
        match letter {
            Letter::Holds(..) => entry.holds = true,
            Letter::Evicted(..) => {
                entry.holds = false;
                entry.again = true;
                if !std::mem::replace(&mut entry.lost, true) {
                    self.losses.tell([(id, seq)]);
                }
            }
        }
        if let Some(news) = claims.get(&id).and_then(|entry| entry.news.as_ref()) {
            news.notify_one();
        }
    }

    pub(super) fn hear_death(&self, of: &Nonce) {
        for entry in self.lock().values_mut().filter(|entry| entry.behind.contains(of)) {
            entry.again = true;
            if let Some(news) = &entry.news {
                news.notify_one();
            }
        }
    }

    pub(super) fn is_awaited(&self, nonce: &Nonce) -> bool {
        self.lock().values().any(|entry| entry.behind.contains(nonce))
    }

    pub(super) async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.losses.next().await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimId, Entry>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
