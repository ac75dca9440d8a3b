//! A history, acquisition by acquisition.

use std::collections::HashMap;

use crate::history::{Event, Fault, Freed, History, KeyId, Nanos, OpId, Wanted, What, WorkerId};

/// Every acquisition of a history.
pub(super) struct Stays<'a> {
    pub(super) history: &'a History,
    /// In order of time.
    pub(super) events: Vec<&'a Event>,
    /// In the order in which they were asked for.
    pub(super) stays: Vec<Stay>,
    by_op: HashMap<OpId, usize>,
    died: HashMap<WorkerId, Nanos>,
}

/// One acquisition.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub(super) op: OpId,
    pub(super) worker: WorkerId,
    pub(super) key: KeyId,
    pub(super) mode: Wanted,
    pub(super) asked: Nanos,
    pub(super) patience: Nanos,
    pub(super) answer: Option<Answer>,
    /// The latest deadline that it knew of, or the last moment at which it looked and held: the later one. None if it has
    /// no lease.
    pub(super) safe: Option<Nanos>,
    /// When it looked last.
    pub(super) looked: Nanos,
    pub(super) lost: Option<Nanos>,
    pub(super) left: Option<Nanos>,
    pub(super) release_asked: Option<Nanos>,
    pub(super) released: Option<(Nanos, Freed)>,
    /// When its worker died, or the run ended.
    pub(super) last: Nanos,
    pub(super) died: bool,
}

/// What an acquisition was told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    Granted { at: Nanos, fence: Option<u64> },
    Not { at: Nanos },
    Failed { at: Nanos, maybe: bool },
}

impl Answer {
    pub(super) const fn at(&self) -> Nanos {
        match self {
            Self::Granted { at, .. } | Self::Not { at } | Self::Failed { at, .. } => *at,
        }
    }
}

/// For how long one believed to hold: from the first moment, up to and without the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief<'a> {
    pub(super) from: Nanos,
    pub(super) to: Nanos,
    pub(super) fence: Option<u64>,
    pub(super) stay: &'a Stay,
}

impl<'a> Stays<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut died = HashMap::new();
        for fault in history.faults.iter().filter(|fault| fault.fatal) {
            if let Some(worker) = fault.worker {
                let at = died.entry(worker).or_insert(fault.from);
                *at = fault.from.min(*at);
            }
        }
        let mut events: Vec<_> = history.events.iter().collect();
        events.sort_by_key(|event| event.at);
        let mut all = Self { history, events: Vec::new(), stays: Vec::new(), by_op: HashMap::new(), died };
        for event in &events {
            all.take(event);
        }
        all.events = events;
        all
    }

    fn take(&mut self, event: &Event) {
        if let What::Asked { mode, patience } = event.what {
            let died = self.died.get(&event.worker).copied();
            self.by_op.insert(event.op, self.stays.len());
            self.stays.push(Stay {
                op: event.op,
                worker: event.worker,
                key: event.key,
                mode,
                asked: event.at,
                patience,
                answer: None,
                safe: Some(event.at),
                looked: event.at,
                lost: None,
                left: None,
                release_asked: None,
                released: None,
                last: died.unwrap_or(self.history.ended),
                died: died.is_some(),
            });
            return;
        }
        // What was never asked for tells nothing.
        let Some(&at) = self.by_op.get(&event.op) else { return };
        self.stays[at].hear(event);
    }

    pub(super) fn get(&self, op: OpId) -> Option<&Stay> {
        self.by_op.get(&op).map(|&at| &self.stays[at])
    }

    /// The beliefs on each key, in the order in which they began.
    pub(super) fn beliefs(&self) -> Vec<Vec<Belief<'_>>> {
        let mut keys: Vec<Vec<Belief<'_>>> = Vec::new();
        for belief in self.stays.iter().filter_map(Stay::belief) {
            let key = belief.stay.key as usize;
            keys.resize_with(keys.len().max(key + 1), Vec::new);
            keys[key].push(belief);
        }
        for beliefs in &mut keys {
            beliefs.sort_by_key(|belief| (belief.from, belief.to));
        }
        keys
    }

    /// The faults that touched this worker or the engine between two moments.
    pub(super) fn faults(
        &self,
        worker: WorkerId,
        from: Nanos,
        to: Nanos,
    ) -> impl Iterator<Item = &'a Fault> + use<'a> {
        self.history.faults.iter().filter(move |fault| {
            fault.worker.is_none_or(|hit| hit == worker) && fault.from <= to && from <= fault.to
        })
    }
}

impl Stay {
    fn hear(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            What::Asked { .. } | What::Reentered { .. } => {}
            What::Granted { fence, until } => {
                self.answer.get_or_insert(Answer::Granted { at, fence: *fence });
                self.look(at, *until);
            }
            What::NotGranted => _ = self.answer.get_or_insert(Answer::Not { at }),
            What::Failed { maybe, .. } => {
                self.answer.get_or_insert(Answer::Failed { at, maybe: *maybe });
            }
            What::Believes { until } => self.look(at, *until),
            What::Lost => _ = self.lost.get_or_insert(at),
            What::Left => _ = self.left.get_or_insert(at),
            What::ReleaseAsked => _ = self.release_asked.get_or_insert(at),
            What::Released { freed } => _ = self.released.get_or_insert((at, *freed)),
        }
    }

    fn look(&mut self, at: Nanos, until: Option<Nanos>) {
        self.looked = at;
        self.safe = until.zip(self.safe).map(|(until, safe)| until.max(safe).max(at));
    }

    /// When it did nothing more under the lock by its own account.
    pub(super) fn over(&self) -> Option<Nanos> {
        [self.lost, self.left, self.release_asked].into_iter().flatten().min()
    }

    pub(super) fn belief(&self) -> Option<Belief<'_>> {
        let Some(Answer::Granted { at: from, fence }) = self.answer else { return None };
        let ends = [self.over(), self.safe, Some(self.last)];
        let to = ends.into_iter().flatten().min().unwrap_or(self.last);
        (from < to).then_some(Belief { from, to, fence, stay: self })
    }

    pub(super) fn fence(&self) -> Option<u64> {
        match self.answer {
            Some(Answer::Granted { fence, .. }) => fence,
            _ => None,
        }
    }

    /// Whether it may stand in the line, as holder or waiter, at some moment between these two, as far as is known.
    pub(super) fn may_stand(&self, from: Nanos, to: Nanos, ttl: Nanos) -> bool {
        self.asked <= to && self.gone(ttl).is_none_or(|gone| from < gone)
    }

    /// When nothing of it can stand in the line any more; none if that is not known.
    fn gone(&self, ttl: Nanos) -> Option<Nanos> {
        if let Some((at, Freed::Yes | Freed::NotHeld)) = self.released {
            return Some(at);
        }
        match self.answer {
            Some(Answer::Not { at } | Answer::Failed { at, maybe: false }) => Some(at),
            Some(Answer::Failed { at, maybe: true }) => Some(at + ttl),
            Some(Answer::Granted { .. }) | None => {
                let end = [self.over(), self.died.then_some(self.last)].into_iter().flatten().max()?;
                Some(end.max(self.safe.unwrap_or(Nanos::MAX - ttl)) + ttl)
            }
        }
    }
}
