//! Strikes: waits for the moment that matters, does its harm, and writes down what it did.

mod holder;
mod traps;
mod wires;

use std::{collections::HashSet, sync::Arc, time::Duration};

use tenure::{Client, Crash};
use tokio::time::{Instant, sleep};

use crate::{
    clock::{nanos, now},
    crew::{Crew, Doing, Life, Stage, State, Strike, UNDER_WAY},
    faults::{FaultKind, Needs},
    history::{Event, Fault, KeyId, Nanos, What},
    trouble::Result,
};

/// How long a moment to strike is waited for.
const MOMENT: Duration = Duration::from_secs(3);
/// How fresh what is known of a worker must be, to be aimed at.
const FRESH: Duration = Duration::from_millis(30);
/// How much later than it was said something may be heard, beside what was said after it.
const LATE_WORDS: Nanos = 1_000_000_000;

/// What strikes a crew, until its time is over.
#[derive(Debug)]
pub(crate) struct Nemesis {
    pub(crate) crew: Arc<Crew>,
    pub(crate) fault: FaultKind,
    pub(crate) crash: Crash,
    /// For what an operator does.
    pub(crate) operator: Client,
    pub(crate) until: Instant,
    /// How often a fault of the engine is to hit, and until when that is waited for: to lose a leader takes some seconds.
    pub(crate) enough: (usize, Instant),
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
            while self.goes_on() {
                let key = if alone { rng.u32(..keys) } else { key };
                self.strike(key, &mut rng).await?;
                if self.goes_on() {
                    sleep(self.crew.ttl().mul_f64(rng.f64() / 2.0)).await;
                }
            }
            Ok(())
        };
        futures_util::future::try_join_all((0..lanes).map(lane)).await.map(drop)
    }

    /// Whether there is time left, or, for faults of the engine, not enough of them hit.
    fn goes_on(&self) -> bool {
        let now = Instant::now();
        let (hits, limit) = self.enough;
        now < self.until || self.fault.needs() == Needs::Engine && now < limit && self.hits() < hits
    }

    fn hits(&self) -> usize {
        self.crew.state().history.faults.iter().filter(|fault| fault.hit.is_some()).count()
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
            | FaultKind::Evict
            | FaultKind::ClockAhead
            | FaultKind::ClockBack
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

    /// Waits until others have had the lock, or for as long as that can take.
    async fn until_others(&self, doing: &Doing, from: Nanos, rng: &mut fastrand::Rng) {
        let ttl = self.crew.ttl();
        if self.crash == Crash::Process {
            // It goes on holding, and nobody else comes.
            sleep(ttl.mul_f64(rng.f64() / 2.0)).await;
            return;
        }
        let mut others = Others::since(doing, from, rng.bool());
        self.crew.wait(ttl * 4, |state| others.came(state).then_some(())).await;
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
        let hit = match struck {
            Ok(Ok(proof)) => Some(proof),
            Ok(Err(failure)) => {
                self.crew.state().missed = Some(failure.to_string());
                None
            }
            Err(_) => None,
        };
        self.crew.finish(strike, hit);
        // What it left behind is over before it is struck again.
        sleep(ttl * 2).await;
    }
}

/// Looks whether somebody else has been granted a lock since, or has even left it. Every word of every worker is a reason to
/// look, so that each is looked at once.
#[derive(Debug)]
struct Others {
    doing: Doing,
    from: Nanos,
    left: bool,
    /// The first event that was not looked at.
    next: Option<usize>,
}

impl Others {
    const fn since(doing: &Doing, from: Nanos, left: bool) -> Self {
        Self { doing: *doing, from, left, next: None }
    }

    fn came(&mut self, state: &State) -> bool {
        let events = &state.history.events;
        // What was heard before the moment may be of after it, but not by much.
        let near = |event: &&Event| event.at + LATE_WORDS > self.from;
        let next = self.next.unwrap_or_else(|| events.len() - events.iter().rev().take_while(near).count());
        self.next = Some(events.len());
        events[next..].iter().any(|event| self.is_one(state, event))
    }

    fn is_one(&self, state: &State, event: &Event) -> bool {
        let elsewhere =
            || state.doing.get(&event.worker).is_none_or(|other| other.process != self.doing.process);
        let matches = match event.what {
            What::Granted { .. } => !self.left,
            What::Left => self.left,
            _ => false,
        };
        matches
            && event.at > self.from
            && event.key == self.doing.key
            && event.op != self.doing.op
            && elsewhere()
    }
}
