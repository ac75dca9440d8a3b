//! What the organiser and its workers say to each other: one JSON object per line.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::history::{Event, KeyId, Nanos, OpId, Register, WorkerId};

/// The hidden word that makes this program a worker.
pub const WORKER_WORD: &str = "__verify-worker";

/// A worker's orders. They come over stdin: the URL may hold a password, and a list of processes shows arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Who acts in this process; each is a task of its own.
    pub(crate) workers: Vec<WorkerId>,
    /// The engine.
    pub(crate) url: String,
    /// The wrong way to lock, if it is one.
    pub(crate) mutant: Option<String>,
    /// Which of the processes this is, over all its lives.
    pub(crate) slot: usize,
    pub(crate) ttl: Duration,
    pub(crate) keys: Vec<KeySpec>,
    /// The socket of the resources.
    pub(crate) resource: PathBuf,
    pub(crate) seed: u64,
    /// The longest stay in a lock, if nothing strikes.
    pub(crate) stay: Duration,
    /// The longest wait for one.
    pub(crate) patience: Duration,
    /// Whether its clock can be told to have slept.
    pub(crate) sleepy: bool,
}

/// A lock and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeySpec {
    pub(crate) name: String,
    /// Whether some want to share it.
    pub(crate) shared: bool,
    /// How many permits it has, if it is a semaphore.
    pub(crate) permits: Option<u32>,
}

/// What a running worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Begin.
    Go,
    /// Stop yourself, once, at this point; on this lock only, if it is named.
    Trap { point: Point, key: Option<KeyId> },
    /// Forget a trap that nobody has run into.
    NoTrap,
    /// Let the next write be held back on its way, once.
    Late,
    /// Believe that the machine has slept for so long.
    Sleep { nanos: Nanos },
    /// Ask for nothing more, finish and end.
    End,
}

/// Where a worker can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Point {
    /// It has looked at its guard, and is about to write.
    BeforeWrite,
    /// Between the two halves of an acquisition that is not one step.
    Halfway,
}

/// What a worker says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Says {
    /// It is connected.
    Ready,
    /// Something happened.
    Event(Event),
    /// It is about to stop itself.
    Stops { worker: WorkerId, op: OpId, key: KeyId, point: Point, at: Nanos },
    /// It had stopped itself, and goes on.
    GoesOn { worker: WorkerId },
    /// The machine, or somebody who stopped it, did not run it between these moments.
    Stood { from: Nanos, to: Nanos },
    /// Its clock was told that the machine slept, while it held this.
    Slept { worker: WorkerId, op: OpId, held: bool, at: Nanos },
    /// It cannot go on.
    Failed { why: String },
    /// It has finished.
    Done,
}

/// What a worker asks of the resources.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) worker: WorkerId,
    pub(crate) op: OpId,
    pub(crate) key: KeyId,
    pub(crate) register: Register,
    /// What proves the hold, where it has something.
    pub(crate) stamp: Option<Proof>,
    pub(crate) ask: Ask,
    /// The network holds it back.
    pub(crate) late: bool,
}

/// A fence, with whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) fence: u64,
    pub(crate) claim: String,
    pub(crate) shared: bool,
}

/// What is asked of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    Claim,
    Read,
    /// To hold what this version held, and the acquisition's own update.
    Write {
        base: usize,
        n: u64,
    },
}

/// What a register answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) accepted: bool,
    /// Which version it holds now.
    pub(crate) version: usize,
}
