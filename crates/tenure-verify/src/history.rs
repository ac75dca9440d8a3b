//! What happened, as the checks see it: no engine, no clock, no process; only who said what when.
//!
//! A history comes from real processes (all stamped by the machine's one monotonic clock, so that their order is exact) or
//! from a simulation (stamped by its clock). The checks cannot tell which.

use serde::{Deserialize, Serialize};

/// A moment, in nanoseconds of the clock that the whole history shares.
pub type Nanos = u64;

/// Who acts: one life of one worker. A worker that is started again has a new number.
pub type WorkerId = u32;

/// One acquisition, from the call that asks until all is over. Unique in the history.
pub type OpId = u64;

/// Which lock, by its position in [`History::keys`].
pub type KeyId = u32;

/// All that a run saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// The names of the locks.
    pub keys: Vec<String>,
    /// What the workers said, in any order.
    pub events: Vec<Event>,
    /// What the protected resources did, in the order in which they did it: their own log, not the workers' word.
    pub effects: Vec<Effect>,
    /// What was done to whom.
    pub faults: Vec<Fault>,
    /// When the run was over; what is under way then has no end.
    pub ended: Nanos,
}

/// One thing that a worker did or was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, read right before what it says was done, or right after what it was told; before it looked, if it looked.
    pub at: Nanos,
    /// By whom.
    pub worker: WorkerId,
    /// In which acquisition.
    pub op: OpId,
    /// On which lock.
    pub key: KeyId,
    /// What.
    pub what: What,
}

/// How a lock is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// Beside nobody.
    Exclusive,
    /// Beside others that share it.
    Shared,
    /// So many permits of so many.
    Permits {
        /// So many.
        take: u32,
        /// Of so many in all.
        of: u32,
    },
}

/// What a worker did or was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It asks for the lock, and is prepared to wait so long.
    Asked {
        /// How it wants the lock.
        mode: Wanted,
        /// How long it is prepared to wait.
        patience: Nanos,
    },
    /// It was told that it holds. `until` is its own deadline as it knows it now; none where a hold has no lease.
    Granted {
        /// The number of the grant, where the engine has them.
        fence: Option<u64>,
        /// Its own deadline.
        until: Option<Nanos>,
    },
    /// It holds the lock once more, within the same stay.
    Reentered {
        /// The number that it has now: the same, if all is well.
        fence: Option<u64>,
    },
    /// It was told that it does not get the lock, and nothing of it stays behind.
    NotGranted,
    /// It was told of an error; `maybe` if it may have got the lock all the same.
    Failed {
        /// Whether it may have got the lock all the same.
        maybe: bool,
        /// The error, in its own words.
        why: String,
    },
    /// It believes to hold, looked at its guard just now, and goes on until then if nothing renews it.
    Believes {
        /// Its own deadline as it knows it now.
        until: Option<Nanos>,
    },
    /// It was told that the lock is lost.
    Lost,
    /// It does nothing more under this lock.
    Left,
    /// It gives the lock back.
    ReleaseAsked,
    /// It was told what became of that.
    Released {
        /// What the engine answered.
        freed: Freed,
    },
}

/// What a release was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Freed {
    /// It was held until then.
    Yes,
    /// It was not held any more.
    NotHeld,
    /// Nobody answered.
    Unknown,
}

/// Which of the two resources behind a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Register {
    /// It checks fences: claim, then write.
    Fenced,
    /// It takes what it is given.
    Plain,
}

/// One request that reached a resource. A register is a set of updates, read as a whole and written as a whole: whoever
/// writes without having read another's update loses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// When the resource did it.
    pub at: Nanos,
    /// By whom it was asked.
    pub worker: WorkerId,
    /// In which acquisition.
    pub op: OpId,
    /// Behind which lock.
    pub key: KeyId,
    /// Which of its resources.
    pub register: Register,
    /// With what in hand.
    pub fence: Option<u64>,
    /// What was asked.
    pub what: Done,
    /// Whether the resource did it.
    pub accepted: bool,
}

/// What a resource was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// To remember the fence before anything is read.
    Claim,
    /// To tell what it holds.
    Read,
    /// To hold what was read and this acquisition's own update beside it. `lost` are the updates of acquisitions that it
    /// held until then and does not hold any more: known to the resource as it compares the two.
    Write {
        /// The updates that it held until then and does not hold any more.
        lost: Vec<OpId>,
    },
}

/// What was done to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind, as people read it: `pause`, `kill`, `cut`, ...
    pub kind: String,
    /// When it began.
    pub from: Nanos,
    /// When it ended; the same for what takes no time.
    pub to: Nanos,
    /// The worker that it was aimed at; none if it was the engine or the network.
    pub worker: Option<WorkerId>,
    /// The acquisition that the worker was in.
    pub op: Option<OpId>,
    /// What proves that it hit: the pause outlived the lease of a holder, the leader changed, a reply was held back.
    /// A fault without proof does not count.
    pub hit: Option<String>,
    /// After this, the worker does nothing ever again.
    pub fatal: bool,
}
