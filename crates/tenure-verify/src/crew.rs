//! The worker processes, as the organiser sees them, and what is known of each worker at the moment.

mod traps;

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{Notify, mpsc},
    time::{Instant, timeout_at},
};

pub(crate) use self::traps::stopped_in;
use crate::{
    clock::now,
    history::{Event, Fault, History, KeyId, Nanos, OpId, What, WorkerId},
    lab::{Lab, Wire},
    resource::Resource,
    trouble::{Result, Trouble},
    wire::{Order, Point, Says, Spec, WORKER_WORD},
};

/// How long workers may take to connect.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// The kind of a fault that nobody did: the machine did not run a worker.
pub(crate) const STALL: &str = "stall";

/// What is known of a worker at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doing {
    pub(crate) worker: WorkerId,
    pub(crate) process: usize,
    pub(crate) op: OpId,
    pub(crate) key: KeyId,
    pub(crate) stage: Stage,
    /// Since when.
    pub(crate) at: Nanos,
}

/// Where in an acquisition a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Asks,
    /// It has looked at its guard, and believes.
    Holds,
    /// It has stopped itself there.
    Stopped(Point),
    Idle,
}

/// A process with some workers in it.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    pub(crate) slot: usize,
    pub(crate) workers: Vec<WorkerId>,
    orders: mpsc::UnboundedSender<Order>,
    pub(crate) wire: Option<Arc<Wire>>,
    pub(crate) state: Life,
}

/// Whether a process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Starting,
    Lives,
    /// It has said that it is done, or was killed.
    Ended,
    /// It said why it cannot go on.
    Failed(String),
}

/// All that a run knows so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) history: History,
    pub(crate) doing: BTreeMap<WorkerId, Doing>,
    pub(crate) processes: Vec<Process>,
    /// What workers said when their clocks jumped: who, when, and whether they still believed.
    pub(crate) slept: Vec<(WorkerId, OpId, bool, Nanos)>,
    /// Why the last strike at the engine that did not hit did not.
    pub(crate) missed: Option<String>,
    /// The processes that are to stop themselves, and have not.
    traps: HashSet<usize>,
    next_worker: WorkerId,
}

/// The workers of one cell.
#[derive(Debug)]
pub(crate) struct Crew {
    state: Mutex<State>,
    pub(crate) changed: Arc<Notify>,
    program: PathBuf,
    pub(crate) lab: Arc<Lab>,
    pub(crate) resource: Resource,
    spec: Spec,
    tasks: u32,
    wired: bool,
}

impl Crew {
    pub(crate) fn new(
        program: &Path,
        lab: Arc<Lab>,
        resource: Resource,
        changed: Arc<Notify>,
        spec: Spec,
        tasks: u32,
        wired: bool,
    ) -> Arc<Self> {
        let keys = spec.keys.iter().map(|key| key.name.clone()).collect();
        let history = History { keys, ..History::default() };
        let state = State { history, next_worker: 1, ..State::default() };
        let program = program.to_owned();
        Arc::new(Self { state: Mutex::new(state), changed, program, lab, resource, spec, tasks, wired })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.spec.ttl
    }

    /// Starts one more process with new workers in it.
    pub(crate) async fn start(self: &Arc<Self>, slot: usize) -> Result<usize> {
        let cannot = |err: std::io::Error| Trouble::internal("cannot start a worker", err);
        let wire = if self.wired {
            let lab = self.lab.clone();
            let made = tokio::task::spawn_blocking(move || lab.wire()).await;
            Some(Arc::new(made.map_err(|err| Trouble::internal("a wire", err))??))
        } else {
            None
        };
        let mut command = Command::new(&self.program);
        command.arg(WORKER_WORD).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(cannot)?;
        let parts = (child.id(), child.stdin.take(), child.stdout.take());
        let (Some(pid), Some(mut stdin), Some(stdout)) = parts else {
            return Err(Trouble::Internal("a worker ended at once".into()));
        };
        let (orders, mut given) = mpsc::unbounded_channel::<Order>();
        let (process, workers) = {
            let mut state = self.state();
            let first = state.next_worker;
            state.next_worker += self.tasks;
            let workers: Vec<_> = (first..state.next_worker).collect();
            let process = state.processes.len();
            let wire = wire.clone();
            let new = Process { pid, slot, workers: workers.clone(), orders, wire, state: Life::Starting };
            state.processes.push(new);
            for &worker in &workers {
                let doing = Doing { worker, process, op: 0, key: 0, stage: Stage::Idle, at: now() };
                state.doing.insert(worker, doing);
            }
            (process, workers)
        };
        let url = wire.map_or_else(|| self.lab.url().to_owned(), |wire| wire.url.clone());
        let spec = Spec { workers, url, slot, ..self.spec.clone() };
        let words =
            serde_json::to_string(&spec).map_err(|err| Trouble::internal("a worker's orders", err))?;
        stdin.write_all(format!("{words}\n").as_bytes()).await.map_err(cannot)?;
        tokio::spawn(async move {
            while let Some(order) = given.recv().await {
                let line = serde_json::to_string(&order).unwrap_or_default() + "\n";
                // A worker that is dead needs no orders.
                let _ = stdin.write_all(line.as_bytes()).await;
            }
        });
        tokio::spawn(self.clone().listen(process, child, BufReader::new(stdout)));
        Ok(process)
    }

    /// Writes down what a process says, to its end.
    async fn listen(
        self: Arc<Self>,
        process: usize,
        mut child: Child,
        from: BufReader<tokio::process::ChildStdout>,
    ) {
        let mut lines = from.lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The last line of a process that was killed may be cut short; then it was not said.
            let Ok(says) = serde_json::from_str::<Says>(&line) else { continue };
            if let Some(stray) = self.hear(process, says) {
                tokio::spawn(self.clone().let_stray_go(stray));
            }
            self.changed.notify_waiters();
        }
        let _ = child.wait().await;
        {
            let mut state = self.state();
            let process = &mut state.processes[process];
            if !matches!(process.state, Life::Failed(_)) {
                process.state = Life::Ended;
            }
            for worker in process.workers.clone() {
                if let Some(doing) = state.doing.get_mut(&worker) {
                    doing.stage = Stage::Idle;
                }
            }
        }
        self.changed.notify_waiters();
    }

    /// Takes in what a process says; who stops without a trap that anybody waits for, if that is what it says.
    fn hear(&self, process: usize, says: Says) -> Option<Doing> {
        let mut state = self.state();
        match says {
            Says::Ready => state.processes[process].state = Life::Lives,
            Says::Event(event) => {
                if let (Some(doing), Some(stage)) = (state.doing.get_mut(&event.worker), stage(&event)) {
                    let Event { at, op, key, .. } = event;
                    (doing.op, doing.key, doing.stage, doing.at) = (op, key, stage, at);
                }
                state.history.events.push(event);
            }
            Says::Stops { worker, op, key, point, at } => {
                let expected = state.traps.remove(&process);
                let doing = state.doing.get_mut(&worker)?;
                (doing.op, doing.key, doing.stage, doing.at) = (op, key, Stage::Stopped(point), at);
                return (!expected).then_some(*doing);
            }
            Says::GoesOn { worker } => {
                if let Some(doing) = state.doing.get_mut(&worker) {
                    doing.stage = Stage::Idle;
                }
            }
            Says::Stood { from, to } => {
                for worker in state.processes[process].workers.clone() {
                    // Whoever was stopped by us stood still too.
                    let known =
                        state.history.faults.iter().rev().any(|fault| fault.explains(worker, from, to));
                    if !known {
                        state.history.faults.push(stall(worker, from, to));
                    }
                }
            }
            Says::Slept { worker, op, held, at } => state.slept.push((worker, op, held, at)),
            Says::Failed { why } => state.processes[process].state = Life::Failed(why),
            Says::Done => {}
        }
        None
    }

    /// Waits until all processes are connected, and lets them go.
    pub(crate) async fn go(&self, processes: &[usize]) -> Result<()> {
        let ready = self.wait(READY_LIMIT, |state| {
            let lives = processes.iter().map(|&at| &state.processes[at].state);
            if let Some(Life::Failed(why)) = lives.clone().find(|life| matches!(life, Life::Failed(_))) {
                return Some(Err(Trouble::Unavailable(why.clone())));
            }
            lives.into_iter().all(|life| *life != Life::Starting).then_some(Ok(()))
        });
        ready.await.unwrap_or_else(|| Err(Trouble::Unavailable("the workers did not get ready".into())))?;
        for &process in processes {
            self.order(process, Order::Go);
        }
        Ok(())
    }

    /// Waits until something can be said of the state; none if it cannot within the limit.
    pub(crate) async fn wait<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + limit;
        loop {
            // Before the look, so that no change between the two is missed.
            let changed = self.changed.notified();
            if let Some(found) = look(&self.state()) {
                return Some(found);
            }
            if timeout_at(deadline, changed).await.is_err() {
                return look(&self.state());
            }
        }
    }

    pub(crate) fn order(&self, process: usize, order: Order) {
        // A process that has ended takes no orders.
        let _ = self.state().processes[process].orders.send(order);
    }

    pub(crate) fn signal(&self, process: usize, signal: Signal) {
        let state = self.state();
        let process = &state.processes[process];
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        if let (Some(pid), Life::Lives | Life::Starting) = (pid, &process.state) {
            // Its end is waited for by `listen` alone, which marks it first: the number is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// Writes down that a fault begins, once for every worker of the process that it is aimed at.
    pub(crate) fn begin(&self, fault: &Fault, process: Option<usize>) -> Strike {
        let mut state = self.state();
        let workers = process.map(|at| state.processes[at].workers.clone()).unwrap_or_default();
        let others = workers.into_iter().filter(|worker| Some(*worker) != fault.worker);
        let beside: Vec<_> =
            others.map(|worker| Fault { worker: Some(worker), op: None, ..fault.clone() }).collect();
        let first = state.history.faults.len();
        state.history.faults.push(fault.clone());
        state.history.faults.extend(beside);
        Strike { faults: first..state.history.faults.len() }
    }

    /// Writes down that it is over, and what proves that it hit, if that is known now.
    pub(crate) fn finish(&self, strike: Strike, hit: Option<String>) {
        let mut state = self.state();
        let to = now();
        for fault in &mut state.history.faults[strike.faults.clone()] {
            fault.to = to;
        }
        state.history.faults[strike.faults.start].hit = hit;
    }

    /// Everything that is still under way is over.
    pub(crate) fn finish_all(&self) {
        let to = now();
        for fault in self.state().history.faults.iter_mut().filter(|fault| fault.to == UNDER_WAY) {
            fault.to = to;
        }
    }
}

/// The end of a fault that is not over.
pub(crate) const UNDER_WAY: Nanos = Nanos::MAX / 4;

/// A fault that is under way.
#[derive(Debug)]
#[must_use = "what has begun must end"]
pub(crate) struct Strike {
    faults: std::ops::Range<usize>,
}

impl Fault {
    /// Whether this is why a worker stood still, nearly all the time.
    const fn explains(&self, worker: WorkerId, from: Nanos, to: Nanos) -> bool {
        const NEARLY: Nanos = 250_000_000;
        matches!(self.worker, Some(struck) if struck == worker)
            && self.from < from + NEARLY
            && to < self.to.saturating_add(NEARLY)
    }
}

/// What the machine did to a worker, not we: no fault that hit, but whoever waits for that worker is given the time.
fn stall(worker: WorkerId, from: Nanos, to: Nanos) -> Fault {
    Fault { kind: STALL.into(), from, to, worker: Some(worker), op: None, hit: None, fatal: false }
}

fn stage(event: &Event) -> Option<Stage> {
    match event.what {
        What::Asked { .. } => Some(Stage::Asks),
        What::Believes { .. } => Some(Stage::Holds),
        What::NotGranted | What::Failed { .. } | What::Lost | What::Left | What::Released { .. } => {
            Some(Stage::Idle)
        }
        What::Granted { .. } | What::Reentered { .. } | What::ReleaseAsked => None,
    }
}
