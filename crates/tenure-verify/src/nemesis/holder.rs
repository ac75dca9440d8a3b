//! What is done to a holder or a waiter: it is killed, stopped, put to sleep, its write is held back, its hold is broken.

use std::time::Duration;

use rustix::process::Signal;
use tenure::{Eviction, Filter, Key, Standing, When};
use tokio::time::sleep;

use super::{FRESH, MOMENT, Nemesis, Others};
use crate::{
    clock::{nanos, now, time},
    crew::{Doing, Life, Stage, State},
    history::{KeyId, Nanos, OpId, WorkerId},
    trouble::Result,
    wire::{Order, Point},
};

impl Nemesis {
    pub(super) async fn kill(&self, key: KeyId) -> Result<()> {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return Ok(()) };
        self.end_of(&aim.doing, now()).await
    }

    pub(super) async fn kill_halfway(&self, key: KeyId, rng: &mut fastrand::Rng) -> Result<()> {
        let Some(aim) = self.anybody(key, rng) else {
            sleep(FRESH).await;
            return Ok(());
        };
        match self.trapped(aim.doing.process, Point::Halfway, key).await {
            Some(doing) => self.end_of(&doing, doing.at).await,
            None => Ok(()),
        }
    }

    /// Ends a process for good, and starts another in its place. It comes when the lock has been taken, or should have
    /// been: a newcomer who asks would do for those who wait what nobody tells them.
    async fn end_of(&self, doing: &Doing, from: Nanos) -> Result<()> {
        let process = doing.process;
        let strike = self.begin(from, Some(doing));
        self.crew.signal(process, Signal::KILL);
        self.crew.wait(MOMENT, |state| (state.processes[process].state == Life::Ended).then_some(())).await;
        self.crew.finish(strike, None);
        let slot = self.crew.state().processes[process].slot;
        let new = self.crew.start(slot).await?;
        let limit = self.crew.ttl() * 2 + Duration::from_secs(4);
        let mut others = Others::since(doing, from, false);
        self.crew.wait(limit, |state| others.came(state).then_some(())).await;
        self.crew.go(&[new]).await
    }

    pub(super) async fn pause(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return };
        let from = now();
        let strike = self.begin(from, Some(&aim.doing));
        self.crew.signal(aim.doing.process, Signal::STOP);
        self.until_others(&aim.doing, from, rng).await;
        self.crew.signal(aim.doing.process, Signal::CONT);
        self.crew.finish(strike, None);
    }

    pub(super) async fn pause_waiter(&self, key: KeyId) {
        let Some(aim) = self.aim(key, Stage::Asks).await else { return };
        let strike = self.begin(now(), Some(&aim.doing));
        self.crew.signal(aim.doing.process, Signal::STOP);
        sleep(self.crew.ttl() * 3 / 2).await;
        self.crew.signal(aim.doing.process, Signal::CONT);
        self.crew.finish(strike, None);
    }

    pub(super) async fn late(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.anybody(key, rng) else { return sleep(FRESH).await };
        self.crew.order(aim.doing.process, Order::Late);
        let workers = self.crew.state().processes[aim.doing.process].workers.clone();
        let mine = |op: &OpId| workers.contains(&((*op >> 32) as WorkerId));
        let held = || self.crew.resource.held().into_iter().find(mine);
        let Some(op) = self.crew.wait(MOMENT, |_| held()).await else { return };
        let from = now();
        let doing = self.crew.state().doing.get(&((op >> 32) as WorkerId)).copied();
        let Some(doing) = doing.filter(|doing| doing.op == op) else { return self.crew.resource.deliver(op) };
        let strike = self.begin(from, Some(&doing));
        // Its other write is held back too, once it has given up on the first.
        let both = |_: &State| {
            (self.crew.resource.held().iter().filter(|held| **held == op).count() > 1).then_some(())
        };
        self.crew.wait(Duration::from_millis(400), both).await;
        let mut others = Others::since(&doing, from, true);
        self.crew.wait(self.crew.ttl() * 2, |state| others.came(state).then_some(())).await;
        self.crew.resource.deliver(op);
        self.crew.finish(strike, None);
    }

    pub(super) async fn sleep(&self, key: KeyId) {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return };
        let doing = aim.doing;
        let strike = self.begin(now(), Some(&doing));
        let nanos = nanos(self.crew.ttl() * 2);
        self.crew.order(doing.process, Order::Sleep { nanos });
        let said = self.crew.wait(self.crew.ttl(), |state| {
            let of = |slept: &&(WorkerId, OpId, bool, Nanos)| slept.1 == doing.op;
            state.slept.iter().find(of).copied()
        });
        let hit = said.await.map(|(_, _, held, _)| {
            let then = if held { "and still believed" } else { "and knew that its lock was lost" };
            format!("its clock went {:?} ahead while it held, {then}", time(nanos))
        });
        self.crew.finish(strike, hit);
    }

    pub(super) async fn break_hold(&self, key: KeyId) {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return };
        let name = self.crew.state().history.keys[key as usize].clone();
        let Ok(name) = Key::new(name) else { return };
        let Ok(places) = self.operator.line(&Filter::Key(name)).await else { return };
        let Some(place) = places.into_iter().find(|place| place.standing == Standing::Holds) else { return };
        let eviction = Eviction { key: place.key.clone(), id: place.id, seq: place.seq, when: When::Gently };
        let strike = self.begin(now(), Some(&aim.doing));
        let evicted = self.operator.evict(&eviction).await;
        let hit = evicted.ok().map(|evicted| format!("the operator was told: {evicted:?}"));
        self.crew.finish(strike, hit);
    }
}
