//! What the organiser and its hosts say to each other: one line of JSON each, over the host's stdin and stdout.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::strategy::{Point, Strategy};

/// The word that makes this program a host instead of an organiser.
pub const HOST_WORD: &str = "__sale-host";

/// All that a host needs to know. It goes over stdin: URLs may hold passwords.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) sale: String,
    pub(crate) strategy: Strategy,
    pub(crate) host: u32,
    pub(crate) store: String,
    pub(crate) cache: String,
    pub(crate) locks: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) patience: Duration,
    pub(crate) think: Duration,
    /// Who comes to this host, in this order; nobody if they come by HTTP.
    pub(crate) buyers: Vec<u32>,
    /// How many come in a second; all at once if none is said.
    pub(crate) rate: Option<f64>,
    pub(crate) http: bool,
    pub(crate) seed: u64,
    pub(crate) skew: Duration,
    pub(crate) traps: Vec<Trap>,
    pub(crate) permits: u32,
    /// How often this host changes the price.
    pub(crate) price_changes: u32,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec").field("sale", &self.sale).field("host", &self.host).finish_non_exhaustive()
    }
}

/// Strikes this host when it passes a point for the `nth` time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Trap {
    pub(crate) point: Point,
    pub(crate) nth: u32,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Then {
    /// The process stops, until the organiser lets it go on.
    Stop,
    /// The process dies.
    Die,
}

/// What a host says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Says {
    /// It is connected, and where it listens if it does.
    Ready { port: Option<u16> },
    /// What happened since the last time.
    News(News),
    /// A trap is about to strike.
    Struck { then: Then, point: Point },
    /// All of its buyers have their answers.
    Done,
    /// It cannot go on.
    Failed { why: String },
}

/// What happened at a host.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct News {
    /// Each answer, to whom, and after how many microseconds.
    pub(crate) answers: Vec<(Answer, u32, u64)>,
    /// Late writes that the store turned away.
    pub(crate) refused: u32,
    /// When buyers went in and out, by the machine's clock in microseconds.
    pub(crate) visits: Vec<(u64, u64)>,
}

/// What a buyer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Ordered,
    AlreadyBought,
    SoldOut,
    /// Try again: the lock was not to be had in time.
    Busy,
    /// The store or the engine did not answer.
    Failed,
}
