//! Processes that stop themselves at the point that matters, and go on when others have held the lock.

use tokio::time::sleep;

use super::{FRESH, MOMENT, Nemesis};
use crate::{
    crew::{Doing, Life, State, stopped_in},
    history::{KeyId, OpId, What, WorkerId},
    wire::Point,
};

impl Nemesis {
    /// Lets a process run into a trap; who it was and where.
    pub(super) async fn trapped(&self, process: usize, point: Point, key: KeyId) -> Option<Doing> {
        self.crew.trap(process, point, key);
        let stopped = self.crew.wait(MOMENT, |state| stopped_in(state, process)).await;
        // It may have run into it while we gave up.
        stopped.or_else(|| self.crew.no_trap(process))
    }

    pub(super) async fn failpoint(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.anybody(key, rng) else { return sleep(FRESH).await };
        let Some(doing) = self.trapped(aim.doing.process, Point::BeforeWrite, key).await else { return };
        let strike = self.begin(doing.at, Some(&doing));
        self.until_others(&doing, doing.at, rng).await;
        self.crew.let_go(doing.process).await;
        self.crew.finish(strike, None);
    }

    pub(super) async fn pair(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.anybody(key, rng) else { return sleep(FRESH).await };
        let Some(first) = self.trapped(aim.doing.process, Point::BeforeWrite, key).await else { return };
        let strike = self.begin(first.at, Some(&first));
        let others: Vec<usize> = {
            let state = self.crew.state();
            let lives = |at: &usize| *at != first.process && state.processes[*at].state == Life::Lives;
            (0..state.processes.len()).filter(lives).filter(|at| !self.busy().contains(at)).collect()
        };
        for &process in &others {
            self.crew.trap(process, Point::BeforeWrite, key);
        }
        let second = self
            .crew
            .wait(self.crew.ttl() * 4, |state| others.iter().find_map(|&process| stopped_in(state, process)))
            .await;
        for &process in &others {
            self.crew.no_trap(process);
        }
        self.crew.let_go(first.process).await;
        self.crew.wait(self.crew.ttl(), |state| released(state, first.worker, first.op).then_some(())).await;
        self.crew.finish(strike, None);
        // Another may have run into its trap meanwhile.
        for process in others {
            let stopped = stopped_in(&self.crew.state(), process);
            if let Some(stopped) = stopped {
                let strike = self.begin(stopped.at, Some(&stopped));
                self.crew.let_go(process).await;
                let hit = second.filter(|second| second.op == stopped.op);
                let hit = hit.map(|_| format!("it stopped while {} wrote", first.op));
                self.crew.finish(strike, hit);
            }
        }
    }
}

fn released(state: &State, worker: WorkerId, op: OpId) -> bool {
    let of = |event: &&crate::history::Event| event.worker == worker && event.op == op;
    state.history.events.iter().rev().filter(of).any(|event| matches!(event.what, What::Left))
}
