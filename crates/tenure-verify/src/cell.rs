//! One cell of the matrix: an engine under one fault, from the first worker to the verdict.

mod result;

use std::{collections::HashSet, sync::Arc, time::Duration};

use rustix::process::Signal;
use tempfile::TempDir;
use tenure::{Client, Crash, Guarantees, Reach};
use tenure_testkit::proxy::Proxy;
use tokio::{sync::Notify, time::Instant};

pub use self::result::{CellResult, Counts, Outcome, Tick};
use crate::{
    checks::{Bounds, Promise, Report, Story, Verdict, check},
    clock::now,
    crew::{Crew, Life},
    evidence,
    faults::{FaultKind, Needs},
    history::{History, What},
    lab::Lab,
    nemesis::Nemesis,
    plan::{Options, bounds},
    resource::{Resource, Rule},
    trouble::{Result, Trouble},
    wire::{Order, Spec},
};

/// How often who watches is told.
const TELL: Duration = Duration::from_millis(200);
/// How many times as long as it should a fault of the engine is tried until it has hit often enough.
const SLOW_FAULTS: u32 = 4;
/// How many tasks a process has, so that they hand locks to each other.
const TASKS: u32 = 2;

/// A cell, as it is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) options: &'a Options,
    pub(crate) lab: Arc<Lab>,
    pub(crate) guarantees: Guarantees,
    pub(crate) operator: Client,
    pub(crate) fault: FaultKind,
    pub(crate) name: String,
    /// The wrong way to lock, if it is one.
    pub(crate) mutant: Option<String>,
    pub(crate) rule: Rule,
}

impl Cell<'_> {
    fn ttl(&self) -> Duration {
        self.options.ttl_on(&self.guarantees)
    }

    fn bounds(&self) -> Bounds {
        bounds(self.fault, &self.guarantees, self.ttl(), self.options.min_hits)
    }

    /// Runs it. With `until_broken`, it looks at its history again and again, and ends as soon as a promise is broken.
    pub(crate) async fn run(&self, until_broken: bool, tick: &mut dyn FnMut(Tick)) -> Result<CellResult> {
        let (start, folder) = (Instant::now(), TempDir::with_prefix("tenure-verify-"));
        let folder = folder.map_err(|err| Trouble::internal("a folder", err))?;
        let socket = folder.path().join("resource");
        let changed = Arc::new(Notify::new());
        let resource = Resource::open(&socket, self.rule, changed.clone())
            .map_err(|err| Trouble::internal("the resources", err))?;
        let ttl = self.ttl();
        let alone = self.guarantees.reach == Reach::Process;
        let spec = Spec {
            workers: Vec::new(),
            url: String::new(),
            mutant: self.mutant.clone(),
            slot: 0,
            ttl,
            keys: self.options.key_specs(&self.name, &self.guarantees),
            resource: socket,
            seed: self.options.seed,
            stay: self.options.stay,
            patience: Options::patience(ttl),
            sleepy: self.fault == FaultKind::Sleep,
        };
        let keys = spec.keys.len() as u32;
        let (processes, tasks) =
            if alone { (1, self.options.workers * TASKS) } else { (self.options.workers, TASKS) };
        let wired = self.fault.needs() == Needs::Wire;
        let program = &self.options.program;
        let crew = Crew::new(program, self.lab.clone(), resource, changed, spec, tasks, wired);
        let ran = self.drive(&crew, processes, keys, until_broken, tick).await;
        let mut history = if until_broken {
            // What was seen is judged; a lock that is known to be wrong need not be given back.
            let history = snapshot(&crew);
            self.kill_all(&crew);
            history
        } else {
            self.end(&crew).await;
            snapshot(&crew)
        };
        ran?;
        let (slept, missed) = {
            let state = crew.state();
            (state.slept.clone(), state.missed.clone())
        };
        evidence::add(&mut history, self.fault, self.guarantees.crash == Crash::Process);
        if self.fault == FaultKind::Sleep {
            evidence::wake_up(&mut history);
        }
        let mut report = check(&history, &self.bounds());
        if let Some(&(worker, op, _, at)) = slept.iter().find(|(_, _, held, _)| *held) {
            let why =
                format!("worker {worker} still believed to hold after its machine had slept past its lease");
            let events = history.events.iter().filter(|event| event.op == op).cloned().collect();
            let story = Story { why, at, ops: vec![op], events, effects: Vec::new(), faults: Vec::new() };
            let told = report.verdicts.iter_mut().filter(|(promise, _)| *promise == Promise::Told);
            told.for_each(|(promise, verdict)| {
                *verdict = Verdict::Refuted { promise: *promise, story: story.clone() };
            });
        }
        let excused = self.excused(&report);
        let counts = Counts::of(&history);
        let seconds = start.elapsed().as_secs_f64();
        Ok(CellResult {
            fault: self.fault,
            skipped: None,
            report: Some(report),
            excused,
            missed,
            history,
            seconds,
            counts,
        })
    }

    fn excused(&self, report: &Report) -> Vec<(Promise, &'static str)> {
        // Nothing excuses a wrong way.
        let excuse = self.fault.excused(&self.guarantees).filter(|_| self.mutant.is_none());
        let Some((numbers, why)) = excuse else { return Vec::new() };
        let excused = |promise: &Promise| numbers.iter().any(|number| promise.code() == format!("I{number}"));
        let broken = report.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Refuted { .. }));
        broken.map(|(promise, _)| *promise).filter(excused).map(|promise| (promise, why)).collect()
    }

    async fn drive(
        &self,
        crew: &Arc<Crew>,
        processes: u32,
        keys: u32,
        until_broken: bool,
        tick: &mut dyn FnMut(Tick),
    ) -> Result<()> {
        let mut all = Vec::new();
        for slot in 0..processes as usize {
            all.push(crew.start(slot).await?);
        }
        crew.go(&all).await?;
        let start = Instant::now();
        let nemesis = Nemesis {
            crew: crew.clone(),
            fault: self.fault,
            crash: self.guarantees.crash,
            operator: self.operator.clone(),
            until: start + self.options.time,
            enough: (self.options.min_hits, start + self.options.time * SLOW_FAULTS),
            seed: self.options.seed,
            busy: std::sync::Mutex::new(HashSet::new()),
        };
        let watch = async {
            let mut ticks = tokio::time::interval(TELL);
            let mut count = 0_u64;
            loop {
                ticks.tick().await;
                count += 1;
                let (grants, faults, failed) = {
                    let state = crew.state();
                    let events = &state.history.events;
                    let grants =
                        events.iter().filter(|event| matches!(event.what, What::Granted { .. })).count();
                    let failed = state.processes.iter().find_map(|process| match &process.state {
                        Life::Failed(why) => Some(why.clone()),
                        _ => None,
                    });
                    (grants, state.history.faults.len(), failed)
                };
                if let Some(why) = failed {
                    return Err(Trouble::Unavailable(format!("a worker ended: {why}")));
                }
                tick(Tick {
                    fault: self.fault,
                    elapsed: start.elapsed(),
                    time: self.options.time,
                    grants,
                    faults,
                });
                if until_broken && count.is_multiple_of(5) && self.is_broken(crew) {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            done = nemesis.run(keys) => done,
            done = watch => done,
        }
    }

    /// Whether what happened so far breaks a promise already.
    fn is_broken(&self, crew: &Crew) -> bool {
        check(&snapshot(crew), &self.bounds()).refuted().is_some()
    }

    fn kill_all(&self, crew: &Crew) {
        let count = crew.state().processes.len();
        (0..count).for_each(|process| crew.signal(process, Signal::KILL));
    }

    /// Heals everything, lets the workers finish and waits for them; ends those that do not.
    async fn end(&self, crew: &Arc<Crew>) {
        let count = crew.state().processes.len();
        for process in 0..count {
            crew.order(process, Order::NoTrap);
            crew.order(process, Order::End);
            let wire = crew.state().processes[process].wire.clone();
            if let Some(wire) = wire {
                let heal = move || wire.proxies.iter().try_for_each(Proxy::heal);
                let _ = tokio::task::spawn_blocking(heal).await;
            }
            crew.signal(process, Signal::CONT);
        }
        for op in crew.resource.held() {
            crew.resource.deliver(op);
        }
        crew.finish_all();
        let patience = Options::patience(self.ttl()) + self.ttl() * 4 + Duration::from_secs(5);
        let deadline = Instant::now() + patience;
        // A process may have stopped itself in the very moment in which it was told to forget its trap.
        while Instant::now() < deadline {
            let step = Duration::from_millis(250);
            let ended = crew.wait(step, |state| {
                let ended = |life: &Life| matches!(life, Life::Ended | Life::Failed(_));
                state.processes.iter().all(|process| ended(&process.state)).then_some(())
            });
            if ended.await.is_some() {
                return;
            }
            (0..count).for_each(|process| crew.signal(process, Signal::CONT));
        }
        self.kill_all(crew);
    }
}

/// What happened so far.
fn snapshot(crew: &Crew) -> History {
    let mut history = crew.state().history.clone();
    history.effects = crew.resource.look(<[_]>::to_vec);
    history.ended = now();
    history
}
