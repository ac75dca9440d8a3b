//! What befalls clients and servers, and what the history says of it.

use std::sync::Arc;

use super::{
    plan::{Blow, Memory, Strike, When},
    world::{World, worker_id},
};
use crate::history::{Fault, History, Nanos, WorkerId};

impl World {
    /// Notes that a client was granted a lock, and strikes where that is what a blow waits for.
    pub(super) fn granted(self: &Arc<Self>, client: usize) {
        let nth = {
            let mut state = self.lock();
            state.grants[client] += 1;
            state.holds[client] += 1;
            state.grants[client]
        };
        for &strike in self.plan.strikes.iter().filter(|strike| strike.client == client) {
            if let When::Granted { nth: wanted, after } = strike.when
                && wanted == nth
            {
                self.strike(strike, self.now() + after);
            }
        }
    }

    pub(super) fn left(&self, client: usize) {
        self.lock().holds[client] -= 1;
    }

    pub(super) fn begin(self: &Arc<Self>) {
        for &strike in &self.plan.strikes {
            if let When::At(at) = strike.when {
                self.strike(strike, at);
            }
        }
    }

    fn strike(self: &Arc<Self>, strike: Strike, at: Nanos) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            world.until(at).await;
            world.hit(strike);
        });
    }

    fn hit(self: &Arc<Self>, Strike { client, what, .. }: Strike) {
        let process = &self.processes[client];
        if process.is_dead() {
            return;
        }
        let broken = what == Blow::Break && self.serve(0, |server, now| server.break_hold(client, now));
        let now = self.now();
        let mut state = self.lock();
        let from = state.stamp(now);
        let held = state.holds[client] > 0;
        let (kind, pause, lag) = match what {
            Blow::Pause(pause) => ("pause", pause, 0),
            Blow::Suspend(pause, lag) => ("suspend", pause, lag),
            Blow::Kill => ("kill", 0, 0),
            Blow::Break => ("break", 0, 0),
        };
        let hit = match what {
            Blow::Kill => held.then_some("it held a lock"),
            Blow::Break => broken.then_some("its renewals are refused"),
            Blow::Pause(pause) | Blow::Suspend(pause, _) => {
                (held && pause > self.plan.ttl).then_some("it held a lock, and its lease ended meanwhile")
            }
        };
        for task in 0..self.plan.clients[client].tasks {
            state.history.faults.push(Fault {
                kind: kind.into(),
                from,
                to: from + pause + lag,
                worker: Some(worker_id(client, task)),
                op: None,
                hit: hit.filter(|_| task == 0).map(Into::into),
                fatal: what == Blow::Kill,
            });
        }
        drop(state);
        match what {
            Blow::Kill => {
                process.kill();
                self.ended.notify_waiters();
            }
            Blow::Pause(_) | Blow::Suspend(..) => process.stop(pause, lag, kind == "suspend"),
            Blow::Break => {}
        }
    }

    /// Notes that somebody begins to collect locks: it will hold some that nobody can see held, and has not asked for others.
    pub(super) fn collects(&self, worker: WorkerId) {
        let from = self.now();
        self.lock().collecting.insert(worker, from);
    }

    /// Notes that it has them all, or none, for whoever wonders why one that seemed free was not given to others.
    pub(super) fn collected(&self, worker: WorkerId) {
        let to = self.now();
        self.lock().collected(worker, to);
    }

    /// Ends the schedule: what was seen, with what the network did.
    pub(super) fn close(&self) -> History {
        let mut state = self.lock();
        let ended = state.stamp(self.now()) + 1;
        // Who collected until it died, or until the end.
        for worker in state.collecting.keys().copied().collect::<Vec<_>>() {
            let died = |fault: &&Fault| fault.fatal && fault.worker == Some(worker);
            let to = state.history.faults.iter().find(died).map_or(ended, |fault| fault.from);
            state.collected(worker, to);
        }
        let mut history = std::mem::take(&mut state.history);
        for (window, struck) in self.plan.windows.iter().zip(&state.struck) {
            let hit = (struck.times > 0).then(|| format!("{} messages", struck.times));
            if window.from >= ended {
                continue;
            }
            let fault = |worker| Fault {
                kind: window.kind.name().into(),
                from: window.from,
                to: window.to.max(struck.reach),
                worker,
                op: None,
                hit: hit.clone(),
                fatal: false,
            };
            match window.client {
                None => history.faults.push(fault(None)),
                Some(client) => {
                    let tasks = 0..self.plan.clients[client].tasks;
                    history.faults.extend(tasks.map(|task| fault(Some(worker_id(client, task)))));
                }
            }
        }
        for server in &self.plan.servers {
            let mut happened = |kind: &str, from: Nanos, to: Nanos| {
                if from < ended {
                    let (kind, hit) = (kind.into(), Some("it did".into()));
                    history.faults.push(Fault { kind, from, to, worker: None, op: None, hit, fatal: false });
                }
            };
            for &(at, memory) in &server.restarts {
                let kind = if memory == Memory::Kept { "engine restart" } else { "engine forgets" };
                happened(kind, at, at);
            }
            if let Some((at, by)) = server.set_back {
                happened("engine clock set back", at, at + by);
            }
        }
        history.ended = ended;
        history
    }
}
