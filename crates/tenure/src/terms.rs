//! What all kinds of lock have in common: on which key, in what mode, on what terms.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tenure_core::{Key, Mode, Moment, Note, Patience, Result};
use tracing::Instrument;

use crate::{
    Client, acquire::Asking, client::Shared, guard::Tenancy, lane::Lane, observe::Outcome, watchdog::Upkeep,
};

#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) client: Client,
    pub(crate) key: Key,
    pub(crate) ttl: Duration,
    pub(crate) note: Note,
    pub(crate) order: Order,
    /// The lane of these terms, found once.
    lane: OnceLock<Arc<Lane>>,
}

/// In what order the tasks of a process come, and how long they may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// They share a place and hand the lock to each other.
    Lane,
    /// Each has a place of its own: strict order across all processes.
    Strict,
    /// As `Strict`, and the lease is not renewed.
    Fixed,
}

impl Terms {
    pub(crate) fn new(client: Client, key: Key, order: Order) -> Self {
        let (ttl, note) = (client.shared.settings.ttl, client.shared.note.clone());
        Self { client, key, ttl, note, order, lane: OnceLock::new() }
    }

    pub(crate) fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self.lane = OnceLock::new();
        self
    }

    pub(crate) fn with_label(mut self, label: &str) -> Self {
        self.note = self.note.with_label(label);
        self
    }

    pub(crate) fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The moment so long from now.
    pub(crate) fn within(&self, wait: Duration) -> Moment {
        self.client.shared.now() + wait
    }

    pub(crate) async fn acquire(&self, mode: Mode, deadline: Option<Moment>) -> Result<Tenancy> {
        let shared = &self.client.shared;
        let wait = Wait::begin(shared);
        let span =
            tracing::debug_span!("tenure.acquire", key = %self.key, %mode, engine = shared.guarantees.engine);
        let acquired = self.acquire_unobserved(mode, wait.began, deadline).instrument(span).await;
        match &acquired {
            Ok(tenancy) => wait.acquired(tenancy),
            Err(err) => wait.ended(Outcome::from(err)),
        }
        acquired
    }

    pub(crate) async fn try_acquire(&self, mode: Mode) -> Result<Option<Tenancy>> {
        let shared = &self.client.shared;
        let wait = Wait::begin(shared);
        let span = tracing::debug_span!("tenure.try_acquire", key = %self.key, %mode, engine = shared.guarantees.engine);
        let acquired = self.try_acquire_unobserved(mode, wait.began).instrument(span).await;
        match &acquired {
            Ok(Some(tenancy)) => wait.acquired(tenancy),
            Ok(None) => wait.ended(Outcome::Busy),
            Err(err) => wait.ended(Outcome::from(err)),
        }
        acquired
    }

    async fn acquire_unobserved(
        &self,
        mode: Mode,
        began: Moment,
        deadline: Option<Moment>,
    ) -> Result<Tenancy> {
        if let Some(lane) = self.lane(mode)? {
            let baton = lane.acquire(began, deadline).await?;
            return Tenancy::in_lane(self.client.shared.clone(), baton).ok_or_else(crate::lane::vanished);
        }
        match self.asking(mode, Patience::Queue, began)?.run(deadline).await? {
            Some(hold) => Ok(Tenancy::direct(self.client.shared.clone(), hold)),
            None => Err(crate::lane::vanished()),
        }
    }

    async fn try_acquire_unobserved(&self, mode: Mode, began: Moment) -> Result<Option<Tenancy>> {
        if let Some(lane) = self.lane(mode)? {
            let baton = lane.try_acquire(began).await?;
            return Ok(baton.and_then(|baton| Tenancy::in_lane(self.client.shared.clone(), baton)));
        }
        let hold = self.asking(mode, Patience::Try, began)?.run(None).await?;
        Ok(hold.map(|hold| Tenancy::direct(self.client.shared.clone(), hold)))
    }

    /// Refuses what can be refused before any I/O, then finds the lane if these terms have one.
    fn lane(&self, mode: Mode) -> Result<Option<&Arc<Lane>>> {
        let shared = &self.client.shared;
        shared.check(mode)?;
        if self.order != Order::Lane || mode != Mode::Exclusive || shared.settings.turns == 0 {
            return Ok(None);
        }
        if self.lane.get().is_none() {
            let ttl = shared.check_ttl(self.ttl)?;
            let _ = self.lane.set(Lane::of(shared, &self.key, ttl, &self.note));
        }
        Ok(self.lane.get())
    }

    fn asking(&self, mode: Mode, patience: Patience, began: Moment) -> Result<Asking> {
        let shared = &self.client.shared;
        let claim = shared.claim(&self.key, mode, patience, shared.check_ttl(self.ttl)?, &self.note);
        let upkeep = if self.order == Order::Fixed { Upkeep::Fixed } else { Upkeep::Renewed };
        Ok(Asking::new(shared.clone(), claim, upkeep, began))
    }
}

/// Counts a wait, however it ends.
struct Wait<'a> {
    shared: &'a Shared,
    began: Moment,
    /// `None` once it was counted.
    outcome: Option<Outcome>,
}

impl<'a> Wait<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.observer.waits();
        Self { shared, began: shared.now(), outcome: Some(Outcome::Cancelled) }
    }

    fn acquired(mut self, tenancy: &Tenancy) {
        self.outcome = None;
        self.shared.observer.waited(Outcome::Acquired, tenancy.since().since(self.began));
    }

    fn ended(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            self.shared.observer.waited(outcome, self.shared.now().since(self.began));
        }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("key", &self.key)
            .field("ttl", &self.ttl)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
