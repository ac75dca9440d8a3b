//! What this client knows of its own claims: where they stand and in which session.
//!
//! A claim is written down before anything is sent for it, so that a release finds whatever an attempt may have left, and
//! one that finds nothing here has nothing to free.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Losses, Mode, Seq};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    place::{Spot, name},
    session::Session,
};

/// Of so many released claims an attempt that is still on its way is refused.
const MOST_BURIED: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Mine {
    state: Mutex<State>,
    losses: Losses,
}

#[derive(Debug, Default)]
struct State {
    claims: HashMap<ClaimId, Arc<Own>>,
    buried: HashSet<ClaimId>,
    burials: VecDeque<ClaimId>,
}

/// A claim of this client.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) session: Arc<Session>,
    /// One verb at a time asks for it: two attempts beside each other would take two places.
    pub(crate) gate: AsyncMutex<()>,
    facts: Mutex<Facts>,
}

#[derive(Debug)]
pub(crate) struct Facts {
    /// As it was first asked for; weaker since, if it was downgraded.
    pub(crate) mode: Mode,
    pub(crate) place: Option<Stood>,
    /// A place may have been taken that we were not told of.
    pub(crate) in_doubt: bool,
    /// There is a mark beside its node that says so.
    pub(crate) downgraded: bool,
    /// It was asked for as exclusive and is shared now.
    pub(crate) was_exclusive: bool,
    pub(crate) evicted: bool,
    /// Who stood before it when it was last seen.
    pub(crate) ahead: Vec<Spot>,
}

/// The place that a claim has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stood {
    /// The number that ends the name of its node; the rest of it is known from the claim and not kept.
    pub(crate) rank: i32,
    pub(crate) seq: Seq,
}

impl Own {
    /// The name of the node at which this claim, which is its own, stands.
    pub(crate) fn node(&self, id: ClaimId) -> Option<String> {
        let facts = self.facts();
        // A holder that has become a reader keeps its node, and so its name.
        let mode = if facts.was_exclusive { Mode::Exclusive } else { facts.mode };
        facts.place.map(|place| name(id, mode, self.session.id(), place.rank))
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mine {
    pub(crate) fn find(&self, id: ClaimId) -> Option<Arc<Own>> {
        self.lock().claims.get(&id).cloned()
    }

    /// Writes a claim down; the one that is there already, if it was.
    pub(crate) fn insert(&self, id: ClaimId, mode: Mode, session: Arc<Session>) -> Arc<Own> {
        let own = || {
            let facts = Facts {
                mode,
                place: None,
                in_doubt: false,
                downgraded: false,
                was_exclusive: false,
                evicted: false,
                ahead: Vec::new(),
            };
            Arc::new(Own { session, gate: AsyncMutex::default(), facts: Mutex::new(facts) })
        };
        self.lock().claims.entry(id).or_insert_with(own).clone()
    }

    /// Strikes a claim out that has no place any more.
    pub(crate) fn forget(&self, id: ClaimId) {
        self.lock().claims.remove(&id);
    }

    /// Remembers that attempts of this claim which are still on their way come too late.
    pub(crate) fn bury(&self, id: ClaimId) {
        let mut state = self.lock();
        if state.buried.insert(id) {
            state.burials.push_back(id);
            if state.burials.len() > MOST_BURIED
                && let Some(oldest) = state.burials.pop_front()
            {
                state.buried.remove(&oldest);
            }
        }
    }

    pub(crate) fn is_buried(&self, id: ClaimId) -> bool {
        self.lock().buried.contains(&id)
    }

    /// An operator has written down these claims, ours and others'.
    pub(crate) fn evicted(&self, graves: &[String]) {
        if graves.is_empty() {
            return;
        }
        let state = self.lock();
        for id in graves.iter().filter_map(|name| name.parse::<ClaimId>().ok()) {
            let Some(own) = state.claims.get(&id) else { continue };
            let mut facts = own.facts();
            if !std::mem::replace(&mut facts.evicted, true)
                && let Some(place) = &facts.place
            {
                self.losses.tell([(id, place.seq)]);
            }
        }
    }

    /// A session has ended, and with it its places.
    pub(crate) fn ended(&self, session: i64) {
        // Each may be the last to know its session, which is closed then; not under the lock.
        let gone: Vec<_> = self.lock().claims.extract_if(|_, own| own.session.id() == session).collect();
        let seq = |own: &Own| own.facts().place.as_ref().map(|place| place.seq);
        self.losses.tell(gone.iter().filter_map(|(id, own)| Some((*id, seq(own)?))));
    }

    /// Resolves with the places that are gone.
    pub(crate) async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.losses.next().await
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
