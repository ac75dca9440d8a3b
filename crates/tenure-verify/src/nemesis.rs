//! Strikes: waits for the moment that matters, does its harm, and writes down what it did.

use std::{collections::HashSet, sync::Arc, time::Duration};

use rustix::process::Signal;
use tenure::{Client, Crash, Eviction, Filter, Key, Standing, When};
use tenure_testkit::proxy::{Flow, Proxy, Side, Way};
use tokio::time::{Instant, sleep};

use crate::{
    clock::{nanos, now, time},
    crew::{Crew, Doing, Life, Stage, State, Strike, UNDER_WAY},
    faults::{FaultKind, Needs},
    history::{Fault, KeyId, Nanos, OpId, What, WorkerId},
    trouble::Result,
    wire::{Order, Point},
};

/// How long a moment to strike is waited for.
const MOMENT: Duration = Duration::from_secs(3);
/// How fresh what is known of a worker must be, to be aimed at.
const FRESH: Duration = Duration::from_millis(30);

/// What strikes a crew, until its time is over.
#[derive(Debug)]
pub(crate) struct Nemesis {
    pub(crate) crew: Arc<Crew>,
    pub(crate) fault: FaultKind,
    pub(crate) crash: Crash,
    /// For what an operator does.
    pub(crate) operator: Client,
    pub(crate) until: Instant,
    pub(crate) seed: u64,
    /// The processes that a strike is busy with: one at a time for each.
    pub(crate) busy: std::sync::Mutex<HashSet<usize>>,
}

/// Whom a strike is aimed at. Others leave the process alone as long as this lives.
struct Aim<'a> {
    doing: Doing,
    nemesis: &'a Nemesis,
}

impl Drop for Aim<'_> {
    fn drop(&mut self) {
        self.nemesis.busy().remove(&self.doing.process);
    }
}

impl Nemesis {
    fn busy(&self) -> std::sync::MutexGuard<'_, HashSet<usize>> {
        self.busy.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Strikes until the time is over: on every lock at once, or on the one engine.
    pub(crate) async fn run(&self, keys: u32) -> Result<()> {
        if self.fault == FaultKind::None {
            tokio::time::sleep_until(self.until).await;
            return Ok(());
        }
        // After a death the next holder is waited for, with nothing else going wrong meanwhile.
        let alone = matches!(self.fault, FaultKind::Kill | FaultKind::KillHalfway);
        let lanes = if alone || self.fault.needs() == Needs::Engine { 1 } else { keys };
        let lane = |key| async move {
            let mut rng = fastrand::Rng::with_seed(self.seed ^ u64::from(key) << 40);
            while Instant::now() < self.until {
                let key = if alone { rng.u32(..keys) } else { key };
                self.strike(key, &mut rng).await?;
                let rest = self.crew.ttl().mul_f64(rng.f64() / 2.0);
                sleep(rest.min(self.until.saturating_duration_since(Instant::now()))).await;
            }
            Ok(())
        };
        futures_util::future::try_join_all((0..lanes).map(lane)).await.map(drop)
    }

    async fn strike(&self, key: KeyId, rng: &mut fastrand::Rng) -> Result<()> {
        match self.fault {
            FaultKind::None => {}
            FaultKind::Kill => return self.kill(key).await,
            FaultKind::KillHalfway => return self.kill_halfway(key, rng).await,
            FaultKind::Pause => self.pause(key, rng).await,
            FaultKind::PauseWaiter => self.pause_waiter(key).await,
            FaultKind::Failpoint => self.failpoint(key, rng).await,
            FaultKind::Pair => self.pair(key, rng).await,
            FaultKind::Late => self.late(key, rng).await,
            FaultKind::Sleep => self.sleep(key).await,
            FaultKind::Break => self.break_hold(key).await,
            FaultKind::Cut
            | FaultKind::CutUp
            | FaultKind::CutDown
            | FaultKind::Reset
            | FaultKind::HalfOpen
            | FaultKind::Delay
            | FaultKind::Reply => self.wire(key, rng).await,
            FaultKind::EngineKill
            | FaultKind::EnginePause
            | FaultKind::LeaderKill
            | FaultKind::LeaderCut
            | FaultKind::Flush
            | FaultKind::Deaf => self.engine(rng).await,
        }
        Ok(())
    }

    /// Waits for somebody who is there right now.
    async fn aim(&self, key: KeyId, stage: Stage) -> Option<Aim<'_>> {
        let found = self.crew.wait(MOMENT, |state| {
            let mut busy = self.busy();
            let fresh = now().saturating_sub(nanos(FRESH));
            let here = |doing: &&Doing| {
                doing.key == key
                    && doing.stage == stage
                    && doing.at >= fresh
                    && state.processes[doing.process].state == Life::Lives
                    && !busy.contains(&doing.process)
            };
            let doing = *state.doing.values().filter(here).max_by_key(|doing| doing.at)?;
            busy.insert(doing.process);
            Some(doing)
        });
        found.await.map(|doing| Aim { doing, nemesis: self })
    }

    /// Somebody who lives and whom nobody else is busy with.
    fn anybody(&self, key: KeyId, rng: &mut fastrand::Rng) -> Option<Aim<'_>> {
        let state = self.crew.state();
        let mut busy = self.busy();
        let free = |at: &usize| state.processes[*at].state == Life::Lives && !busy.contains(at);
        let free: Vec<_> = (0..state.processes.len()).filter(free).collect();
        let process = *free.get(rng.usize(..free.len().max(1)))?;
        busy.insert(process);
        let worker = state.processes[process].workers[0];
        let doing = Doing { worker, process, op: 0, key, stage: Stage::Idle, at: now() };
        Some(Aim { doing, nemesis: self })
    }

    fn begin(&self, from: Nanos, doing: Option<&Doing>) -> Strike {
        let fault = Fault {
            kind: self.fault.to_string(),
            from,
            to: UNDER_WAY,
            worker: doing.map(|doing| doing.worker),
            op: doing.map(|doing| doing.op).filter(|op| *op != 0),
            hit: None,
            fatal: matches!(self.fault, FaultKind::Kill | FaultKind::KillHalfway),
        };
        self.crew.begin(&fault, doing.map(|doing| doing.process))
    }

    async fn kill(&self, key: KeyId) -> Result<()> {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return Ok(()) };
        self.end_of(&aim.doing, now()).await
    }

    async fn kill_halfway(&self, key: KeyId, rng: &mut fastrand::Rng) -> Result<()> {
        let Some(aim) = self.anybody(key, rng) else {
            sleep(FRESH).await;
            return Ok(());
        };
        match self.trapped(aim.doing.process, Point::Halfway, key).await {
            Some(doing) => self.end_of(&doing, doing.at).await,
            None => Ok(()),
        }
    }

    /// Ends a process for good, and starts another in its place.
    async fn end_of(&self, doing: &Doing, from: Nanos) -> Result<()> {
        let process = doing.process;
        let strike = self.begin(from, Some(doing));
        self.crew.signal(process, Signal::KILL);
        self.crew.wait(MOMENT, |state| (state.processes[process].state == Life::Ended).then_some(())).await;
        self.crew.finish(strike, None);
        let slot = self.crew.state().processes[process].slot;
        let new = self.crew.start(slot).await?;
        self.crew.go(&[new]).await?;
        let limit = self.crew.ttl() * 2 + Duration::from_secs(4);
        self.crew.wait(limit, |state| others_since(state, doing, from, false).then_some(())).await;
        Ok(())
    }

    /// Waits until others have had the lock, or for as long as that can take.
    async fn until_others(&self, doing: &Doing, from: Nanos, rng: &mut fastrand::Rng) {
        let ttl = self.crew.ttl();
        if self.crash == Crash::Process {
            // It goes on holding, and nobody else comes.
            sleep(ttl.mul_f64(rng.f64() / 2.0)).await;
            return;
        }
        let left = rng.bool();
        self.crew.wait(ttl * 4, |state| others_since(state, doing, from, left).then_some(())).await;
    }

    async fn pause(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.aim(key, Stage::Holds).await else { return };
        let from = now();
        let strike = self.begin(from, Some(&aim.doing));
        self.crew.signal(aim.doing.process, Signal::STOP);
        self.until_others(&aim.doing, from, rng).await;
        self.crew.signal(aim.doing.process, Signal::CONT);
        self.crew.finish(strike, None);
    }

    async fn pause_waiter(&self, key: KeyId) {
        let Some(aim) = self.aim(key, Stage::Asks).await else { return };
        let strike = self.begin(now(), Some(&aim.doing));
        self.crew.signal(aim.doing.process, Signal::STOP);
        sleep(self.crew.ttl() * 3 / 2).await;
        self.crew.signal(aim.doing.process, Signal::CONT);
        self.crew.finish(strike, None);
    }

    /// Lets a process run into a trap; who it was and where.
    async fn trapped(&self, process: usize, point: Point, key: KeyId) -> Option<Doing> {
        self.crew.order(process, Order::Trap { point, key: Some(key) });
        let stopped = self.crew.wait(MOMENT, |state| stopped_in(state, process)).await;
        if stopped.is_none() {
            self.crew.order(process, Order::NoTrap);
            // It may have run into it while we gave up.
            return stopped_in(&self.crew.state(), process);
        }
        stopped
    }

    async fn failpoint(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.anybody(key, rng) else { return sleep(FRESH).await };
        let Some(doing) = self.trapped(aim.doing.process, Point::BeforeWrite, key).await else { return };
        let strike = self.begin(doing.at, Some(&doing));
        self.until_others(&doing, doing.at, rng).await;
        self.go_on(&doing);
        self.crew.finish(strike, None);
    }

    /// Lets a process go on that has stopped itself.
    fn go_on(&self, doing: &Doing) {
        if let Some(known) = self.crew.state().doing.get_mut(&doing.worker) {
            known.stage = Stage::Idle;
        }
        self.crew.signal(doing.process, Signal::CONT);
    }

    async fn pair(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let Some(aim) = self.anybody(key, rng) else { return sleep(FRESH).await };
        let Some(first) = self.trapped(aim.doing.process, Point::BeforeWrite, key).await else { return };
        let strike = self.begin(first.at, Some(&first));
        let others: Vec<usize> = {
            let state = self.crew.state();
            let lives = |at: &usize| *at != first.process && state.processes[*at].state == Life::Lives;
            (0..state.processes.len()).filter(lives).filter(|at| !self.busy().contains(at)).collect()
        };
        for &process in &others {
            self.crew.order(process, Order::Trap { point: Point::BeforeWrite, key: Some(key) });
        }
        let second = self
            .crew
            .wait(self.crew.ttl() * 4, |state| others.iter().find_map(|&process| stopped_in(state, process)))
            .await;
        for &process in &others {
            self.crew.order(process, Order::NoTrap);
        }
        self.go_on(&first);
        self.crew.wait(self.crew.ttl(), |state| released(state, first.worker, first.op).then_some(())).await;
        self.crew.finish(strike, None);
        // Another may have run into its trap meanwhile.
        for process in others {
            let stopped = stopped_in(&self.crew.state(), process);
            if let Some(stopped) = stopped {
                let strike = self.begin(stopped.at, Some(&stopped));
                self.go_on(&stopped);
                let hit = second.filter(|second| second.op == stopped.op);
                let hit = hit.map(|_| format!("it stopped while {} wrote", first.op));
                self.crew.finish(strike, hit);
            }
        }
    }

    async fn late(&self, key: KeyId, rng: &mut fastrand::Rng) {
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
        self.crew
            .wait(self.crew.ttl() * 2, |state| others_since(state, &doing, from, true).then_some(()))
            .await;
        self.crew.resource.deliver(op);
        self.crew.finish(strike, None);
    }

    async fn sleep(&self, key: KeyId) {
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

    async fn break_hold(&self, key: KeyId) {
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

    async fn wire(&self, key: KeyId, rng: &mut fastrand::Rng) {
        let ttl = self.crew.ttl();
        let aim = match self.fault {
            FaultKind::Delay => self.anybody(key, rng),
            FaultKind::Reply => self.aim(key, Stage::Asks).await,
            _ => self.aim(key, Stage::Holds).await,
        };
        let Some(aim) = aim else { return sleep(FRESH).await };
        let process = aim.doing.process;
        let (from, before) = (now(), self.counts(process));
        let strike = self.begin(from, Some(&aim.doing));
        match self.fault {
            FaultKind::Cut => self.on_wire(process, |proxy| proxy.flow_both(Flow::Stall)).await,
            FaultKind::CutUp => self.on_wire(process, |proxy| proxy.flow(Way::Up, Flow::Swallow)).await,
            FaultKind::CutDown => self.on_wire(process, |proxy| proxy.flow(Way::Down, Flow::Swallow)).await,
            FaultKind::Reset => self.on_wire(process, Proxy::reset).await,
            FaultKind::HalfOpen => self.on_wire(process, |proxy| proxy.half_open(Side::Server)).await,
            FaultKind::Delay => {
                let late = ttl.mul_f64(0.7);
                self.on_wire(process, move |proxy| proxy.delay(Way::Down, late)).await;
            }
            _ => self.on_wire(process, |proxy| proxy.flow(Way::Down, Flow::Hold)).await,
        }
        let mut hit = None;
        match self.fault {
            FaultKind::Reset => {
                hit = (before.2 > 0).then(|| format!("{} connections were reset", before.2));
            }
            FaultKind::Delay => {
                sleep(ttl * 3).await;
                let passed = self.counts(process).0 - before.0;
                hit = (passed > 0).then(|| format!("{passed} bytes of answers came late"));
            }
            FaultKind::Reply => {
                let until = Instant::now() + ttl;
                while self.counts(process).1 == 0 && Instant::now() < until {
                    sleep(Duration::from_millis(5)).await;
                }
                let bytes = self.counts(process).1;
                sleep(ttl * 6 / 5).await;
                hit = (bytes > 0)
                    .then(|| format!("{bytes} bytes of answers were held back for {:?}", ttl * 6 / 5));
            }
            _ => {
                self.crew
                    .wait(ttl * 3, |state| others_since(state, &aim.doing, from, true).then_some(()))
                    .await;
            }
        }
        self.on_wire(process, Proxy::heal).await;
        if self.fault == FaultKind::HalfOpen {
            self.on_wire(process, Proxy::reset).await;
        }
        self.crew.finish(strike, hit);
    }

    /// Bytes of answers that passed, that are held back, and open connections.
    fn counts(&self, process: usize) -> (u64, u64, u64) {
        let wire = self.crew.state().processes[process].wire.clone();
        let counts = wire.iter().flat_map(|wire| &wire.proxies).map(Proxy::counts);
        counts.fold((0, 0, 0), |sum, counts| {
            (sum.0 + counts.down.forwarded, sum.1 + counts.down.held, sum.2 + counts.open)
        })
    }

    async fn on_wire(&self, process: usize, act: impl Fn(&Proxy) -> tenure_testkit::Result + Send + 'static) {
        let Some(wire) = self.crew.state().processes[process].wire.clone() else { return };
        // It waits for the proxies' own threads. One that does not follow leaves no proof.
        let _ = tokio::task::spawn_blocking(move || wire.proxies.iter().try_for_each(act)).await;
    }

    async fn engine(&self, rng: &mut fastrand::Rng) {
        // Somebody must hold at the moment.
        let holds = |state: &State| state.doing.values().find(|doing| doing.stage == Stage::Holds).copied();
        if self.crew.wait(MOMENT, holds).await.is_none() {
            return;
        }
        let (lab, fault, ttl) = (self.crew.lab.clone(), self.fault, self.crew.ttl());
        let strike = self.begin(now(), None);
        let pick = rng.usize(..64);
        let struck = tokio::task::spawn_blocking(move || lab.strike(fault, ttl, pick)).await;
        let hit = struck.ok().and_then(std::result::Result::ok);
        self.crew.finish(strike, hit);
        // What it left behind is over before it is struck again.
        sleep(ttl * 2).await;
    }
}

/// Whether somebody else has been granted this lock since, or has even left it.
fn others_since(state: &State, doing: &Doing, from: Nanos, left: bool) -> bool {
    let events = state.history.events.iter().rev().take_while(|event| event.at + 5_000_000_000 > from);
    let others = events.filter(|event| event.at > from && event.key == doing.key && event.op != doing.op);
    let elsewhere = others
        .filter(|event| state.doing.get(&event.worker).is_none_or(|other| other.process != doing.process));
    let mut matching = elsewhere.filter(|event| match event.what {
        What::Granted { .. } => !left,
        What::Left => left,
        _ => false,
    });
    matching.next().is_some()
}

fn released(state: &State, worker: WorkerId, op: OpId) -> bool {
    let of = |event: &&crate::history::Event| event.worker == worker && event.op == op;
    state.history.events.iter().rev().filter(of).any(|event| matches!(event.what, What::Left))
}

fn stopped_in(state: &State, process: usize) -> Option<Doing> {
    let in_process = |doing: &&Doing| doing.process == process && matches!(doing.stage, Stage::Stopped(_));
    state.doing.values().find(in_process).copied()
}
