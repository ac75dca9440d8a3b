//! All that one schedule consists of.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{ClaimId, Seat};
use tokio::{sync::Notify, time::Instant};

use super::{
    Mutant,
    plan::Plan,
    process::{Process, nanos},
    registers::Registers,
    server::{Push, Server},
    weather::{Fate, Struck, Way, fate},
};
use crate::history::{Event, Fault, History, KeyId, Nanos, OpId, What, WorkerId};

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

pub(super) struct State {
    pub(super) history: History,
    last: Nanos,
    ops: OpId,
    /// How many workers of each client have not finished.
    busy: Vec<u32>,
    pub(super) grants: Vec<u32>,
    pub(super) holds: Vec<u32>,
    servers: Vec<Server>,
    pub(super) struck: Vec<Struck>,
    /// Who collects several locks, and since when.
    pub(super) collecting: BTreeMap<WorkerId, Nanos>,
    /// When the last message arrived on each way between each client and server.
    lines: HashMap<(Way, usize, usize), Nanos>,
    pub(super) registers: Vec<Registers>,
}

impl std::hash::Hash for Way {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (*self as u8).hash(state);
    }
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
            collecting: BTreeMap::new(),
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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

    pub(super) fn finished(&self, client: usize) {
        self.lock().busy[client] -= 1;
        self.ended.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        state.busy.iter().zip(&self.processes).all(|(busy, process)| *busy == 0 || process.is_dead())
    }
}

impl State {
    pub(super) fn collected(&mut self, worker: WorkerId, to: Nanos) {
        let Some(from) = self.collecting.remove(&worker) else { return };
        let kind = "collecting".into();
        let fault = Fault { kind, from, to, worker: None, op: None, hit: None, fatal: false };
        self.history.faults.push(fault);
    }

    /// No two things happen at the same moment.
    pub(super) fn stamp(&mut self, now: Nanos) -> Nanos {
        self.last = now.max(self.last + 1);
        self.last
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
