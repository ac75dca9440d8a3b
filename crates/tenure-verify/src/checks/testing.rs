//! Histories made by hand. Times are in seconds, the ttl is 10, a grant lives for 9.

use super::{Bounds, Promise, Verdict, check};
use crate::history::{
    Done, Effect, Event, Fault, Freed, History, Nanos, OpId, Register, Wanted, What, WorkerId,
};

pub(super) const S: Nanos = 1_000_000_000;

#[derive(Clone, Default)]
pub(super) struct Tale {
    pub(super) history: History,
}

impl Tale {
    pub(super) fn new() -> Self {
        let history = History { keys: vec!["k".into()], ended: 1000 * S, ..History::default() };
        Self { history }
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            ttl: 10 * S,
            succession: 12 * S,
            poll: 4 * S,
            epsilon: S / 2,
            min_hits: std::collections::BTreeMap::new(),
            search_steps: 100_000,
        }
    }

    pub(super) fn event(mut self, worker: WorkerId, op: OpId, at: Nanos, what: What) -> Self {
        self.history.events.push(Event { at: at * S, worker, op, key: 0, what });
        self
    }

    pub(super) fn ask(self, worker: WorkerId, op: OpId, at: Nanos, patience: Nanos) -> Self {
        self.ask_as(worker, op, at, patience, Wanted::Exclusive)
    }

    pub(super) fn ask_as(self, worker: WorkerId, op: OpId, at: Nanos, patience: Nanos, mode: Wanted) -> Self {
        self.event(worker, op, at, What::Asked { mode, patience: patience * S })
    }

    /// Is told at once that it holds for 9 s.
    pub(super) fn told(self, worker: WorkerId, op: OpId, at: Nanos, fence: Option<u64>) -> Self {
        self.event(worker, op, at, What::Granted { fence, until: Some((at + 9) * S) })
    }

    pub(super) fn grant(self, worker: WorkerId, op: OpId, at: Nanos, fence: Option<u64>) -> Self {
        self.ask(worker, op, at, 0).told(worker, op, at, fence)
    }

    pub(super) fn grant_as(
        self,
        worker: WorkerId,
        op: OpId,
        at: Nanos,
        fence: Option<u64>,
        mode: Wanted,
    ) -> Self {
        self.ask_as(worker, op, at, 0, mode).told(worker, op, at, fence)
    }

    pub(super) fn believe(self, worker: WorkerId, op: OpId, at: Nanos) -> Self {
        self.event(worker, op, at, What::Believes { until: Some((at + 9) * S) })
    }

    pub(super) fn leave(self, worker: WorkerId, op: OpId, at: Nanos) -> Self {
        self.event(worker, op, at, What::Left)
    }

    pub(super) fn release(self, worker: WorkerId, op: OpId, at: Nanos, freed: Freed) -> Self {
        self.event(worker, op, at, What::ReleaseAsked).event(worker, op, at, What::Released { freed })
    }

    pub(super) fn fault(
        mut self,
        kind: &str,
        from: Nanos,
        to: Nanos,
        worker: Option<WorkerId>,
        hit: Option<&str>,
    ) -> Self {
        let (from, to) = (from * S, to * S);
        let hit = hit.map(Into::into);
        self.history.faults.push(Fault { kind: kind.into(), from, to, worker, op: None, hit, fatal: false });
        self
    }

    pub(super) fn kill(self, worker: WorkerId, at: Nanos) -> Self {
        let mut tale = self.fault("kill", at, at, Some(worker), Some("held"));
        if let Some(fault) = tale.history.faults.last_mut() {
            fault.fatal = true;
        }
        tale
    }

    pub(super) fn effect(
        mut self,
        op: OpId,
        at: Nanos,
        register: Register,
        fence: Option<u64>,
        what: Done,
        accepted: bool,
    ) -> Self {
        let worker = u32::try_from(op).unwrap();
        self.history.effects.push(Effect { at: at * S, worker, op, key: 0, register, fence, what, accepted });
        self
    }

    pub(super) fn ends(mut self, at: Nanos) -> Self {
        self.history.ended = at * S;
        self
    }

    pub(super) fn verdict(&self, promise: Promise) -> Verdict {
        let report = check(&self.history, &self.bounds());
        let found = report.verdicts.into_iter().find(|(other, _)| *other == promise);
        found.map(|(_, verdict)| verdict).unwrap()
    }

    pub(super) fn breaks(&self, promise: Promise, why: &str) {
        match self.verdict(promise) {
            Verdict::Refuted { story, .. } => {
                assert!(story.why.contains(why), "`{}` does not say `{why}`", story.why);
                assert!(!story.events.is_empty(), "a story without events");
            }
            other => panic!("not refuted: {other:?}"),
        }
    }

    pub(super) fn keeps(&self, promise: Promise) -> usize {
        match self.verdict(promise) {
            Verdict::Held { ops, .. } => ops,
            other => panic!("not held: {other:?}"),
        }
    }
}
