//! All that one schedule consists of.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{ClaimId, Seat};
use tokio::{sync::Notify, time::Instant};

use super::{
    Mutant,
    plan::{Blow, Memory, Plan, Strike, When},
    process::{Process, nanos},
    server::{Push, Server},
    weather::{Fate, Struck, Way, fate},
};
use crate::history::{Done, Effect, Event, Fault, History, KeyId, Nanos, OpId, Register, What, WorkerId};

pub(super) struct World {
    pub(super) start: Instant,
    pub(super) plan: Plan,
    pub(super) mutant: Option<Mutant>,
    pub(super) processes: Vec<Arc<Process>>,
    pub(super) inboxes: Vec<Inbox>,
    state: Mutex<State>,
    /// Somebody finished or died.
    pub(super) ended: Notify,
}

/// What a client was told and has not looked at.
#[derive(Default)]
pub(super) struct Inbox {
    news: Mutex<HashMap<(usize, ClaimId), Seat>>,
    pub(super) came: Notify,
}

impl Inbox {
    pub(super) fn take(&self, server: usize, id: ClaimId) -> Option<Seat> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).remove(&(server, id))
    }
}

struct State {
    history: History,
    last: Nanos,
    ops: OpId,
    /// How many workers of each client have not finished.
    busy: Vec<u32>,
    grants: Vec<u32>,
    holds: Vec<u32>,
    servers: Vec<Server>,
    struck: Vec<Struck>,
    /// When the last message arrived on each way between each client and server.
    lines: HashMap<(Way, usize, usize), Nanos>,
    registers: Vec<Registers>,
}

impl std::hash::Hash for Way {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (*self as u8).hash(state);
    }
}

/// What a lock protects.
#[derive(Clone, Default)]
struct Registers {
    mark: u64,
    claimed_by: OpId,
    fenced: BTreeSet<OpId>,
    plain: BTreeSet<OpId>,
}

impl World {
    pub(super) fn new(plan: Plan, mutant: Option<Mutant>) -> Arc<Self> {
        let start = Instant::now();
        let clients = plan.clients.len();
        let forgets = plan.servers.len() > 1;
        let state = State {
            history: History {
                keys: (0..plan.keys).map(|key| format!("k{key}")).collect(),
                ..History::default()
            },
            last: 0,
            ops: 0,
            busy: plan.clients.iter().map(|client| client.tasks).collect(),
            grants: vec![0; clients],
            holds: vec![0; clients],
            servers: plan.servers.iter().map(|server| Server::new(server, forgets, mutant)).collect(),
            struck: vec![Struck::default(); plan.windows.len()],
            lines: HashMap::new(),
            registers: vec![Registers::default(); plan.keys as usize],
        };
        Arc::new(Self {
            start,
            processes: (0..clients).map(|_| Process::new(start)).collect(),
            inboxes: (0..clients).map(|_| Inbox::default()).collect(),
            plan,
            mutant,
            state: Mutex::new(state),
            ended: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(super) fn now(&self) -> Nanos {
        nanos(self.start.elapsed())
    }

    pub(super) fn key(&self, key: KeyId) -> &'static str {
        if key == 0 { "k0" } else { "k1" }
    }

    pub(super) fn fresh_op(&self) -> OpId {
        let mut state = self.lock();
        state.ops += 1;
        state.ops
    }

    pub(super) fn log(&self, worker: WorkerId, op: OpId, key: KeyId, what: What) {
        let mut state = self.lock();
        let at = state.stamp(self.now());
        state.history.events.push(Event { at, worker, op, key, what });
    }

    /// Sends a message on its way: when it arrives, if it does, and what else becomes of it.
    pub(super) fn send(&self, way: Way, client: usize, server: usize) -> (Nanos, Fate) {
        let now = self.now();
        let mut state = self.lock();
        let fate = fate(&self.plan.windows, &mut state.struck, (way, client, server), now, self.plan.latency);
        let mut arrives = (now + fate.delay).max(fate.not_before);
        if !fate.astray {
            let last = state.lines.entry((way, client, server)).or_default();
            arrives = arrives.max(*last);
            *last = arrives;
        }
        (arrives, fate)
    }

    /// Lets a server do something, and sends off what it has to tell.
    pub(super) fn serve<T>(self: &Arc<Self>, server: usize, work: impl FnOnce(&mut Server, Nanos) -> T) -> T {
        let now = self.now();
        let (answer, pushes) = {
            let mut state = self.lock();
            let server = &mut state.servers[server];
            (work(server, now), server.take_pushes())
        };
        for push in pushes {
            self.push(server, push);
        }
        answer
    }

    fn push(self: &Arc<Self>, server: usize, push: Push) {
        let (arrives, fate) = self.send(Way::Push, push.client, server);
        let copies = [(!fate.lost).then_some(arrives), fate.again.map(|later| arrives + later)];
        for arrives in copies.into_iter().flatten() {
            let world = Arc::clone(self);
            tokio::spawn(async move {
                world.until(arrives).await;
                let inbox = &world.inboxes[push.client];
                let mut news = inbox.news.lock().unwrap_or_else(PoisonError::into_inner);
                news.insert((server, push.id), push.seat);
                drop(news);
                inbox.came.notify_waiters();
            });
        }
    }

    pub(super) async fn until(&self, time: Nanos) {
        tokio::time::sleep_until(self.start + Duration::from_nanos(time)).await;
    }

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

    fn hit(&self, Strike { client, what, .. }: Strike) {
        let process = &self.processes[client];
        if process.is_dead() {
            return;
        }
        let now = self.now();
        let mut state = self.lock();
        let from = state.stamp(now);
        let held = state.holds[client] > 0;
        let (kind, pause, lag) = match what {
            Blow::Pause(pause) => ("pause", pause, 0),
            Blow::Suspend(pause, lag) => ("suspend", pause, lag),
            Blow::Kill => ("kill", 0, 0),
        };
        let hit = match what {
            Blow::Kill => held.then_some("it held a lock"),
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
        }
    }

    pub(super) fn finished(&self, client: usize) {
        self.lock().busy[client] -= 1;
        self.ended.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.busy.iter().zip(&self.processes).all(|(busy, process)| *busy == 0 || process.is_dead())
    }

    /// The protected resources: what is asked of them reaches them at once.
    pub(super) fn claim(&self, worker: WorkerId, op: OpId, key: KeyId, fence: u64) -> bool {
        let careless = self.is(Mutant::WriteOnlyFence);
        self.effect((worker, op, key), Register::Fenced, Some(fence), |registers| {
            let accepted = fence > registers.mark || (fence == registers.mark && registers.claimed_by == op);
            if accepted && !careless {
                (registers.mark, registers.claimed_by) = (fence, op);
            }
            (Done::Claim, accepted || careless)
        })
    }

    pub(super) fn read(
        &self,
        worker: WorkerId,
        op: OpId,
        key: KeyId,
        register: Register,
        fence: Option<u64>,
    ) -> BTreeSet<OpId> {
        let mut seen = BTreeSet::new();
        self.effect((worker, op, key), register, fence, |registers| {
            seen = registers.of(register).clone();
            (Done::Read, true)
        });
        seen
    }

    pub(super) fn write(
        &self,
        (worker, op, key): (WorkerId, OpId, KeyId),
        register: Register,
        fence: Option<u64>,
        seen: &BTreeSet<OpId>,
    ) -> bool {
        let careless = self.is(Mutant::WriteOnlyFence);
        self.effect((worker, op, key), register, fence, |registers| {
            let accepted = match (register, fence) {
                (Register::Plain, _) | (_, None) => true,
                (Register::Fenced, Some(fence)) if careless => fence >= registers.mark,
                (Register::Fenced, Some(fence)) => fence == registers.mark && registers.claimed_by == op,
            };
            let held = registers.of(register);
            let lost = held.difference(seen).copied().filter(|&other| other != op).collect();
            if accepted {
                *held = seen.clone();
                held.insert(op);
                if register == Register::Fenced {
                    registers.mark = registers.mark.max(fence.unwrap_or(0));
                }
            }
            (Done::Write { lost }, accepted)
        })
    }

    fn effect(
        &self,
        (worker, op, key): (WorkerId, OpId, KeyId),
        register: Register,
        fence: Option<u64>,
        act: impl FnOnce(&mut Registers) -> (Done, bool),
    ) -> bool {
        let mut state = self.lock();
        let at = state.stamp(self.now());
        let (what, accepted) = act(&mut state.registers[key as usize]);
        state.history.effects.push(Effect { at, worker, op, key, register, fence, what, accepted });
        accepted
    }

    /// Ends the schedule: what was seen, with what the network did.
    pub(super) fn close(&self) -> History {
        let mut state = self.lock();
        let ended = state.stamp(self.now()) + 1;
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

impl State {
    /// No two things happen at the same moment.
    fn stamp(&mut self, now: Nanos) -> Nanos {
        self.last = now.max(self.last + 1);
        self.last
    }
}

impl Registers {
    fn of(&mut self, register: Register) -> &mut BTreeSet<OpId> {
        match register {
            Register::Fenced => &mut self.fenced,
            Register::Plain => &mut self.plain,
        }
    }
}

pub(super) fn worker_id(client: usize, task: u32) -> WorkerId {
    u32::try_from(client).unwrap_or(u32::MAX / 10) * 10 + task
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("plan", &self.plan).finish_non_exhaustive()
    }
}
