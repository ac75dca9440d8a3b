//! What a run is to do.

use std::{path::PathBuf, time::Duration};

use tenure::{Crash, Guarantees, Reach};

use crate::{
    checks::Bounds,
    clock::nanos,
    faults::{FaultKind, Needs},
    lab::{Lab, LabName},
    wire::KeySpec,
};

/// What scheduling may add to any bound, on a machine that does other things too.
const EPSILON: Duration = Duration::from_millis(1_000);
/// The shortest and the usual lease here: short, so that much can happen in little time.
const TTL: Duration = Duration::from_secs(1);
/// How long a stay in a lock is at most.
const STAY: Duration = Duration::from_millis(12);

/// A run, as it was asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The program that workers are: this one.
    pub program: PathBuf,
    /// The engine's URL; else a lab is started.
    pub on: Option<String>,
    /// The engine that is started.
    pub lab: LabName,
    /// How long each fault is tried for; one of the engine for longer, until it has hit often enough.
    pub time: Duration,
    /// Decides who asks for what, and who is struck when.
    pub seed: u64,
    /// How many processes.
    pub workers: u32,
    /// How many locks.
    pub keys: u32,
    /// The lease; longer if the engine wants it.
    pub ttl: Option<Duration>,
    /// What is done; else what can be done.
    pub faults: Option<Vec<FaultKind>>,
    /// What the owner of the engine at `on` allows: a command of the shell that does a fault of the engine, and heals it.
    pub strikes: Vec<(FaultKind, String)>,
    /// How often each fault must hit.
    pub min_hits: usize,
    /// The longest stay in a lock, if nothing strikes.
    pub stay: Duration,
}

impl Options {
    /// The usual run, of this program.
    #[must_use]
    pub const fn new(program: PathBuf) -> Self {
        Self {
            program,
            on: None,
            lab: LabName::File,
            time: Duration::from_secs(20),
            seed: 1,
            workers: 5,
            keys: 2,
            ttl: None,
            faults: None,
            strikes: Vec::new(),
            min_hits: 1,
            stay: STAY,
        }
    }

    /// The lease on this engine.
    pub(crate) fn ttl_on(&self, guarantees: &Guarantees) -> Duration {
        self.ttl.unwrap_or(TTL).max(guarantees.min_ttl)
    }

    /// What is done to this engine, and what of the asked for cannot be done, with the reason.
    pub(crate) fn cells(&self, lab: &Lab, guarantees: &Guarantees) -> Vec<(FaultKind, Option<String>)> {
        let asked = self.faults.clone().unwrap_or_else(|| FaultKind::ALL.to_vec());
        asked.into_iter().map(|fault| (fault, self.cannot(fault, lab, guarantees))).collect()
    }

    fn cannot(&self, fault: FaultKind, lab: &Lab, guarantees: &Guarantees) -> Option<String> {
        let why = match fault.needs() {
            Needs::Workers => None,
            Needs::Wire if !lab.has_wires() => Some("no proxy can stand before this engine".to_owned()),
            Needs::Wire => None,
            Needs::Engine => lab.can(fault).err(),
        };
        let alone = guarantees.reach == Reach::Process;
        let stays = guarantees.crash == Crash::Process;
        why.or_else(|| {
            match fault {
                FaultKind::Kill if alone => Some("its memory dies with its process"),
                FaultKind::Pair if stays => Some("a holder that is stopped goes on holding"),
                FaultKind::Pair | FaultKind::Pause | FaultKind::Failpoint if alone => {
                    Some("all of it is one process: nobody comes while it is stopped")
                }
                FaultKind::PauseWaiter if alone => Some("all of it is one process"),
                FaultKind::Sleep if stays => Some("its holds have no lease"),
                FaultKind::Sleep if alone => Some("its engine lives in the process that would sleep"),
                FaultKind::Sleep if lab.name.is_none() => Some("its clock can be moved in a lab only"),
                FaultKind::Break if alone => Some("no operator can reach into a process"),
                _ => None,
            }
            .map(str::to_owned)
        })
    }

    pub(crate) fn key_specs(&self, name: &str, guarantees: &Guarantees) -> Vec<KeySpec> {
        let modes = guarantees.modes;
        let mut keys: Vec<_> = (0..self.keys)
            .map(|at| KeySpec {
                name: format!("{name}/{at}"),
                shared: modes.shared && at % 2 == 1,
                permits: None,
            })
            .collect();
        if modes.permits {
            keys.push(KeySpec { name: format!("{name}/permits"), shared: false, permits: Some(3) });
        }
        keys
    }

    pub(crate) fn patience(ttl: Duration) -> Duration {
        ttl * 4 + EPSILON * 5
    }
}

/// What is allowed on this engine under this fault.
pub(crate) fn bounds(fault: FaultKind, guarantees: &Guarantees, ttl: Duration, min_hits: usize) -> Bounds {
    let noticed = match guarantees.crash {
        Crash::Process => Duration::ZERO,
        Crash::Lease => ttl + Duration::from_millis(1_200),
        Crash::Session => ttl + Duration::from_millis(1_500),
    };
    let failover = match fault {
        // A new leader gives every session its whole time again.
        FaultKind::LeaderKill | FaultKind::LeaderCut | FaultKind::EngineKill | FaultKind::EnginePause => {
            ttl + Duration::from_secs(3)
        }
        _ => Duration::ZERO,
    };
    let hits = if fault == FaultKind::None { None } else { Some((fault.to_string(), min_hits)) };
    Bounds {
        ttl: nanos(ttl),
        succession: nanos(noticed + failover),
        poll: nanos(ttl / 2 + Duration::from_millis(300)),
        epsilon: nanos(EPSILON),
        min_hits: hits.into_iter().collect(),
        search_steps: 1_000_000,
    }
}
