//! What a bench and its other processes say to each other: one line of JSON each, over their stdin and stdout.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::counting::Verbs;

/// The word that makes this program a part of a bench.
pub const PART_WORD: &str = "__bench-part";

/// What a part is to do. The first is always `Open`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Connect. It goes over stdin: URLs may hold passwords.
    Open { url: String },
    /// Take a lock in turns with another part, so often each.
    Turns { key: String, first: bool, turns: u32 },
    /// Contend for a lock with several tasks, from a moment to another (nanoseconds since the machine's start).
    Contend { key: String, tasks: u32, from: u64, until: u64, file: PathBuf },
    /// Take a lock and keep it.
    Acquire { key: String, lease: Duration },
    /// Give that lock back.
    Release,
    /// Hold many locks, taken within a time and then watched for another.
    Keep { prefix: String, locks: u32, lease: Duration, taking: Duration, watched: Duration },
    /// Hold a lock and let so many tasks wait for it.
    Wait { key: String, tasks: u32 },
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

/// What a part says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Says {
    /// It is connected.
    Ready,
    Turns(Turns),
    Contended(Contended),
    /// It holds the lock, since this moment.
    Holds(u64),
    Released,
    Kept(Kept),
    /// Its tasks waited, and took so many bytes each.
    Waited(u64),
    /// It cannot go on, and whether that is the engine's doing.
    Failed {
        why: String,
        unavailable: bool,
    },
}

/// When a part let go and when it held, and how long its round trips took; nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Turns {
    pub(crate) released: Vec<u64>,
    pub(crate) held: Vec<u64>,
    pub(crate) trips: Vec<u64>,
}

/// What the tasks of a part saw of a hot key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Contended {
    /// Grants of each task.
    pub(crate) grants: Vec<u64>,
    /// Updates that were made, those after the end too.
    pub(crate) updates: u64,
    /// How often a wait fell into which bucket; see `figures::bucket`.
    pub(crate) waits: BTreeMap<i32, u64>,
    pub(crate) longest: u64,
    pub(crate) verbs: Verbs,
}

/// What many held locks cost a part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) locks: u32,
    pub(crate) taken_in: Duration,
    pub(crate) bytes: u64,
    pub(crate) cpu: Duration,
    pub(crate) watched: Duration,
    pub(crate) verbs: Verbs,
    pub(crate) lost: u32,
}
