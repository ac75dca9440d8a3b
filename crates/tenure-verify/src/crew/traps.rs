//! Processes that stop themselves, and are let go again: none may be forgotten, and none stand still without its being
//! written down, or its waiters would look as if nobody had served them.

use std::{sync::Arc, time::Duration};

use rustix::process::Signal;

use super::{Crew, Doing, Life, Stage, State, UNDER_WAY};
use crate::{
    history::{Fault, KeyId},
    wire::{Order, Point},
};

/// How long a process may take to go on before it is told again.
const AGAIN: Duration = Duration::from_millis(50);
/// What is written down of a process that stopped itself when nobody waited for it any more.
const STRAY: &str = "stray stop";

impl Crew {
    /// Lets a process stop itself there.
    pub(crate) fn trap(&self, process: usize, point: Point, key: KeyId) {
        self.state().traps.insert(process);
        self.order(process, Order::Trap { point, key: Some(key) });
    }

    /// Gives up on a trap; who has run into it, if anybody has. Whoever does so from now on is let go at once.
    pub(crate) fn no_trap(&self, process: usize) -> Option<Doing> {
        let stopped = {
            let mut state = self.state();
            state.traps.remove(&process);
            stopped_in(&state, process)
        };
        self.order(process, Order::NoTrap);
        stopped
    }

    /// Lets a process go on that has stopped itself. It says so before it stops, so that a signal may come too early: it is
    /// sent until the process says that it goes on.
    pub(crate) async fn let_go(&self, process: usize) {
        let goes_on = |state: &State| {
            let ended = !matches!(state.processes[process].state, Life::Lives | Life::Starting);
            (ended || stopped_in(state, process).is_none()).then_some(())
        };
        loop {
            self.signal(process, Signal::CONT);
            if self.wait(AGAIN, goes_on).await.is_some() {
                return;
            }
        }
    }

    /// Lets somebody go on who ran into a trap that had been given up.
    pub(super) async fn let_stray_go(self: Arc<Self>, doing: Doing) {
        let stray = Fault {
            kind: STRAY.into(),
            from: doing.at,
            to: UNDER_WAY,
            worker: Some(doing.worker),
            op: None,
            hit: None,
            fatal: false,
        };
        let strike = self.begin(&stray, Some(doing.process));
        self.let_go(doing.process).await;
        self.finish(strike, None);
    }
}

/// Who has stopped itself in this process, and where.
pub(crate) fn stopped_in(state: &State, process: usize) -> Option<Doing> {
    let in_process = |doing: &&Doing| doing.process == process && matches!(doing.stage, Stage::Stopped(_));
    state.doing.values().find(in_process).copied()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use tempfile::TempDir;
    use tokio::sync::Notify;

    use super::*;
    use crate::{
        lab::Lab,
        resource::{Resource, Rule},
        wire::Spec,
    };

    const LIMIT: Duration = Duration::from_secs(20);

    /// A process that says that it stops, does so only when it is told to go, and goes on when it is let.
    const SLOW_TO_STOP: &str = r#"#!/bin/sh
read spec
echo '"ready"'
echo '{"stops":{"worker":1,"op":7,"key":0,"point":"before-write","at":5}}'
while read order; do case "$order" in *go*) break;; esac; done
kill -STOP $$
echo '{"goes-on":{"worker":1}}'
while read order; do case "$order" in *end*) break;; esac; done
"#;

    async fn crew(folder: &TempDir) -> Arc<Crew> {
        let program = folder.path().join("worker");
        fs::write(&program, SLOW_TO_STOP).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let socket = folder.path().join("resource");
        let changed = Arc::new(Notify::new());
        let resource = Resource::open(&socket, Rule::Claimed, changed.clone()).unwrap();
        let spec = Spec {
            workers: Vec::new(),
            url: String::new(),
            mutant: None,
            slot: 0,
            ttl: Duration::from_secs(1),
            keys: Vec::new(),
            resource: socket,
            seed: 1,
            stay: Duration::ZERO,
            patience: Duration::ZERO,
            sleepy: false,
        };
        let lab = Arc::new(Lab::of_url("file:///nowhere", Vec::new(), &[]));
        Crew::new(&program, lab, resource, changed, spec, 1, false)
    }

    #[tokio::test]
    async fn whoever_stops_after_it_was_let_go_is_let_go_again() {
        let folder = TempDir::new().unwrap();
        let crew = crew(&folder).await;
        crew.state().traps.insert(0);
        let process = crew.start(0).await.unwrap();
        let doing = crew.wait(LIMIT, |state| stopped_in(state, process)).await.unwrap();
        assert_eq!((doing.op, doing.stage), (7, Stage::Stopped(Point::BeforeWrite)));
        let late = async {
            // The first signal has been sent; only now it stops.
            tokio::task::yield_now().await;
            crew.order(process, Order::Go);
        };
        let let_go = tokio::time::timeout(LIMIT, crew.let_go(process));
        let (done, ()) = tokio::join!(let_go, late);
        assert!(done.is_ok(), "it stands still");
        assert!(stopped_in(&crew.state(), process).is_none() && crew.state().history.faults.is_empty());
        crew.order(process, Order::End);
    }

    #[tokio::test]
    async fn whoever_stops_when_nobody_waits_is_let_go_and_written_down() {
        let folder = TempDir::new().unwrap();
        let crew = crew(&folder).await;
        let process = crew.start(0).await.unwrap();
        crew.wait(LIMIT, |state| stopped_in(state, process).map(drop)).await.unwrap();
        crew.order(process, Order::Go);
        let over = |state: &State| state.history.faults.first().filter(|fault| fault.to < UNDER_WAY).cloned();
        let stray = crew.wait(LIMIT, over).await.expect("it stands still");
        assert_eq!((stray.kind.as_str(), stray.from, stray.worker), (STRAY, 5, Some(1)));
        crew.order(process, Order::End);
    }
}
