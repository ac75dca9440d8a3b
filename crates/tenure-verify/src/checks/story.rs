use serde::{Deserialize, Serialize};

use super::stays::Stays;
use crate::history::{Effect, Event, Fault, Nanos, OpId};

/// The most that is shown of one acquisition.
const LINES: usize = 20;

/// How a promise was broken: what happened, and no more than one needs to see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// In one sentence.
    pub why: String,
    /// When it was broken.
    pub at: Nanos,
    /// The acquisitions that it is about.
    pub ops: Vec<OpId>,
    /// What their workers said, in order.
    pub events: Vec<Event>,
    /// What their resources did, in order.
    pub effects: Vec<Effect>,
    /// What was done to them, and to the engine meanwhile.
    pub faults: Vec<Fault>,
}

impl Story {
    /// Tells of these acquisitions, up to a little after the moment it went wrong.
    pub(super) fn tell(stays: &Stays<'_>, at: Nanos, ops: &[OpId], why: String) -> Self {
        let history = stays.history;
        let mut events = Vec::new();
        for &op in ops {
            let own: Vec<_> = stays.events.iter().filter(|event| event.op == op).collect();
            // Of a long stay, how it began and what was around the moment.
            let near = own.partition_point(|event| event.at <= at);
            let from = near.saturating_sub(LINES / 2);
            let head = own.iter().take(2.min(from));
            events.extend(head.chain(own[from..].iter().take(LINES)).map(|&&event| event.clone()));
        }
        events.sort_by_key(|event| event.at);
        let begin = events.first().map_or(at, |event| event.at);
        let end = events.last().map_or(at, |event| event.at).max(at);
        let workers: Vec<_> = events.iter().map(|event| event.worker).collect();
        let mut effects: Vec<_> =
            history.effects.iter().filter(|effect| ops.contains(&effect.op)).cloned().collect();
        let near = effects.partition_point(|effect| effect.at <= at);
        effects.drain(..near.saturating_sub(LINES));
        effects.truncate(2 * LINES);
        let ours = |fault: &&Fault| {
            fault.from <= end
                && (begin <= fault.to || fault.fatal)
                && fault.worker.is_none_or(|worker| workers.contains(&worker))
        };
        let faults = history.faults.iter().filter(ours).cloned().collect();
        Self { why, at, ops: ops.to_vec(), events, effects, faults }
    }
}
