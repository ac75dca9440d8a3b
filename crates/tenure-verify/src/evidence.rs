//! Proof that a fault hit, from what the workers and the resources said: pure, and after the fact.

use std::collections::HashMap;

use crate::{
    clock::time,
    faults::FaultKind,
    history::{Done, Event, Fault, History, Nanos, OpId, What},
};

/// Adds what proves each fault, where there is such proof. A fault without it does not count.
pub(crate) fn add(history: &mut History, kind: FaultKind, holds_while_stopped: bool) {
    let mut ops: HashMap<OpId, Vec<&Event>> = HashMap::new();
    for event in &history.events {
        ops.entry(event.op).or_default().push(event);
    }
    let hits: Vec<Option<String>> = history
        .faults
        .iter()
        .map(|fault| {
            if fault.hit.is_some() {
                return fault.hit.clone();
            }
            let events = ops.get(&fault.op?)?;
            let fault = Struck { fault, events, history, holds_while_stopped };
            match kind {
                FaultKind::Kill => fault.killed(),
                FaultKind::Pause => fault.stopped("in its section"),
                FaultKind::Failpoint | FaultKind::Pair => fault.stopped("between its check and its write"),
                FaultKind::PauseWaiter => fault.waited(),
                FaultKind::Late => fault.late(),
                FaultKind::Cut | FaultKind::CutUp | FaultKind::CutDown | FaultKind::HalfOpen => fault.cut(),
                _ => None,
            }
        })
        .collect();
    for (fault, hit) in history.faults.iter_mut().zip(hits) {
        fault.hit = hit;
    }
}

/// Ends what a worker believed when its machine slept: by its own clock, every lease that it knew of is over. Its events
/// are stamped by a clock that did not jump, so the deadlines in them are moved to the moment of the jump.
pub(crate) fn wake_up(history: &mut History) {
    let History { events, faults, .. } = history;
    let slept = FaultKind::Sleep.to_string();
    for fault in faults.iter().filter(|fault| fault.kind == slept) {
        let then = |event: &&mut Event| Some(event.worker) == fault.worker && event.at <= fault.from;
        for event in events.iter_mut().filter(then) {
            if let What::Granted { until: Some(until), .. } | What::Believes { until: Some(until) } =
                &mut event.what
            {
                *until = (*until).min(fault.from);
            }
        }
    }
}

/// A fault, with what is known of the acquisition that it was aimed at.
struct Struck<'a> {
    fault: &'a Fault,
    events: &'a [&'a Event],
    history: &'a History,
    /// A holder that is stopped goes on holding, so that nobody can come meanwhile.
    holds_while_stopped: bool,
}

impl Struck<'_> {
    fn told(&self, is_so: impl Fn(&What) -> bool) -> Option<Nanos> {
        self.events.iter().find(|event| is_so(&event.what)).map(|event| event.at)
    }

    /// Whether it held when the fault began.
    fn held(&self) -> bool {
        let granted = self.told(|what| matches!(what, What::Granted { .. }));
        let over = self.told(|what| matches!(what, What::Left | What::Lost | What::ReleaseAsked));
        granted.is_some_and(|at| at <= self.fault.from) && over.is_none_or(|at| at > self.fault.from)
    }

    /// How many others were granted its lock meanwhile.
    fn others(&self) -> usize {
        let key = self.events.first().map(|event| event.key);
        let during = |event: &&Event| {
            Some(event.key) == key
                && Some(event.op) != self.fault.op
                && self.fault.from < event.at
                && event.at <= self.fault.to
                && matches!(event.what, What::Granted { .. })
        };
        self.history.events.iter().filter(during).count()
    }

    fn lasted(&self) -> String {
        format!("{:.1?}", time(self.fault.to - self.fault.from))
    }

    fn killed(&self) -> Option<String> {
        self.held().then(|| "it died in its section".to_owned())
    }

    fn stopped(&self, place: &str) -> Option<String> {
        let others = self.others();
        let hit = self.held() && (others > 0 || self.holds_while_stopped);
        let meanwhile = if others == 0 {
            "it went on holding".to_owned()
        } else {
            format!("{others} others held the lock meanwhile")
        };
        hit.then(|| format!("it stood still {place} for {}, {meanwhile}", self.lasted()))
    }

    fn waited(&self) -> Option<String> {
        let asked = self.told(|what| matches!(what, What::Asked { .. }))?;
        let answered =
            self.told(|what| matches!(what, What::Granted { .. } | What::NotGranted | What::Failed { .. }));
        let waited = asked <= self.fault.from && answered.is_none_or(|at| at >= self.fault.to);
        waited.then(|| format!("it stood still for {} while it waited", self.lasted()))
    }

    fn late(&self) -> Option<String> {
        let effects = &self.history.effects;
        let own = effects.iter().position(|effect| {
            Some(effect.op) == self.fault.op
                && matches!(effect.what, Done::Write { .. })
                && effect.at >= self.fault.to.saturating_sub(1_000_000_000)
        })?;
        let key = effects[own].key;
        let between = effects[..own].iter().rev().take_while(|effect| effect.at >= self.fault.from);
        let others = between
            .filter(|effect| effect.key == key && Some(effect.op) != self.fault.op && effect.accepted)
            .filter(|effect| matches!(effect.what, Done::Write { .. }))
            .count();
        (others > 0)
            .then(|| format!("its write arrived {} late, after {others} writes of others", self.lasted()))
    }

    fn cut(&self) -> Option<String> {
        let others = self.others();
        let lost = self.told(|what| matches!(what, What::Lost)).is_some_and(|at| at >= self.fault.from);
        let unknown = self
            .told(|what| matches!(what, What::Released { freed: crate::history::Freed::Unknown }))
            .is_some();
        let hit = self.held() && (others > 0 || lost || unknown);
        let what = if lost { "its lock was lost" } else { "its release was not answered" };
        let what = if lost || unknown { what } else { "its lock went on without it" };
        hit.then(|| format!("cut off for {}: {what}, {others} others held it meanwhile", self.lasted()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Wanted;

    fn history(pause: [Nanos; 2], other: Option<Nanos>) -> History {
        let mut history = History::default();
        let mut say = |at, op, what| history.events.push(Event { at, worker: op as u32, op, key: 0, what });
        say(0, 1, What::Asked { mode: Wanted::Exclusive, patience: 0 });
        say(10, 1, What::Granted { fence: None, until: None });
        say(50, 1, What::Left);
        if let Some(at) = other {
            say(at, 2, What::Granted { fence: None, until: None });
        }
        history.faults.push(Fault {
            kind: "pause".into(),
            from: pause[0],
            to: pause[1],
            worker: Some(1),
            op: Some(1),
            hit: None,
            fatal: false,
        });
        history
    }

    fn hits(mut history: History, holds_while_stopped: bool) -> bool {
        add(&mut history, FaultKind::Pause, holds_while_stopped);
        history.faults[0].hit.is_some()
    }

    #[test]
    fn whoever_slept_past_its_lease_believes_no_more() {
        let mut history = history([20, 40], None);
        history.events[1].what = What::Granted { fence: None, until: Some(1_000) };
        wake_up(&mut history);
        assert_eq!(
            history.events[1].what,
            What::Granted { fence: None, until: Some(1_000) },
            "a pause is no sleep"
        );
        history.faults[0].kind = "sleep".into();
        wake_up(&mut history);
        assert_eq!(history.events[1].what, What::Granted { fence: None, until: Some(20) });
    }

    #[test]
    fn a_pause_hits_who_holds_and_is_overtaken() {
        assert!(hits(history([20, 40], Some(30)), false));
        assert!(!hits(history([20, 40], None), false), "nobody came");
        assert!(hits(history([20, 40], None), true), "nobody could come");
        assert!(!hits(history([60, 90], Some(70)), true), "it had left");
        assert!(!hits(history([5, 40], Some(30)), true), "it had not begun");
    }
}
