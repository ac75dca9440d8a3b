//! The wrong ways to lock, as real implementations on real engines: what verifies the verifier.
//!
//! Each differs from a right way in one step, and has the fault that it is known for. All of them must be refuted.

mod files;
mod memcached;
mod poll;
mod redis;
mod sql;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    Options, Trouble,
    cell::{Cell, CellResult},
    checks::Promise,
    faults::FaultKind,
    lab::{Lab, LabName, Setting},
    locks::{Locks, Tenure},
    resource::Rule,
    trouble::Result,
    wire::Spec,
    worker::Orders,
};

/// How long a wrong way may get away with it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A wrong way to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// No lock at all.
    NoLock,
    /// `GET`, and if there is nothing, `SET`.
    ReadThenSet,
    /// `DEL` without a look at whose it is.
    BlindDelete,
    /// `SETNX`, then `EXPIRE`.
    SetnxExpire,
    /// A renewal that does not ask whose the lease is.
    BlindRenew,
    /// A deadline counted from the answer.
    DeadlineFromReply,
    /// No deadline at all.
    NoDeadline,
    /// A waiter that does not look at its own place after waiting.
    NoRecheck,
    /// A request that is repeated under a new name.
    Ghost,
    /// An acquisition that timed out and is kept alive all the same.
    NotCleaned,
    /// A wake-up, and no other way to learn that it is one's turn.
    WakeOnly,
    /// An owner's name that others have too.
    SameOwner,
    /// Fences from a counter that a restart forgets.
    VolatileFence,
    /// Fences from the largest of a majority, not written back.
    MaxWithoutWriteBack,
    /// Fences that are looked at on writes only.
    WriteOnlyFence,
    /// A POSIX record lock, and a second descriptor that is closed.
    PosixClose,
    /// A lock file that is deleted on release.
    UnlinkOnRelease,
    /// A session's advisory lock through a pooler of transactions.
    PooledAdvisory,
    /// Leases by `NOW()`, in the session's own time zone.
    SessionTimeZone,
    /// A lease of one second on memcached.
    OneSecond,
    /// Fences from the server's clock alone.
    ClockFence,
    /// Fences from a counter that goes when it is idle, or when memory is full.
    ExpiringCounter,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::NoLock,
        Self::ReadThenSet,
        Self::BlindDelete,
        Self::SetnxExpire,
        Self::BlindRenew,
        Self::DeadlineFromReply,
        Self::NoDeadline,
        Self::NoRecheck,
        Self::Ghost,
        Self::NotCleaned,
        Self::WakeOnly,
        Self::SameOwner,
        Self::WriteOnlyFence,
        Self::VolatileFence,
        Self::MaxWithoutWriteBack,
        Self::PosixClose,
        Self::UnlinkOnRelease,
        Self::PooledAdvisory,
        Self::SessionTimeZone,
        Self::OneSecond,
        Self::ClockFence,
        Self::ExpiringCounter,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::NoLock => "no-lock",
            Self::ReadThenSet => "read-then-set",
            Self::BlindDelete => "blind-delete",
            Self::SetnxExpire => "setnx-expire",
            Self::BlindRenew => "blind-renew",
            Self::DeadlineFromReply => "deadline-from-reply",
            Self::NoDeadline => "no-deadline",
            Self::NoRecheck => "no-recheck",
            Self::Ghost => "ghost",
            Self::NotCleaned => "not-cleaned",
            Self::WakeOnly => "wake-only",
            Self::SameOwner => "same-owner",
            Self::VolatileFence => "volatile-fence",
            Self::MaxWithoutWriteBack => "max-without-write-back",
            Self::WriteOnlyFence => "write-only-fence",
            Self::PosixClose => "posix-close",
            Self::UnlinkOnRelease => "unlink-on-release",
            Self::PooledAdvisory => "pooled-advisory",
            Self::SessionTimeZone => "session-time-zone",
            Self::OneSecond => "one-second",
            Self::ClockFence => "clock-fence",
            Self::ExpiringCounter => "expiring-counter",
        }
    }

    /// What is wrong with it, for people.
    #[must_use]
    pub const fn story(self) -> &'static str {
        match self {
            Self::NoLock => "nobody asks anybody",
            Self::ReadThenSet => "GET, and if there is nothing, SET: two steps",
            Self::BlindDelete => "DEL without a look at whose lock it is",
            Self::SetnxExpire => "SETNX, then EXPIRE: whoever dies in between holds for ever",
            Self::BlindRenew => "a renewal that does not ask whose the lease is",
            Self::DeadlineFromReply => "the lease is counted from when the answer came",
            Self::NoDeadline => "the holder never looks whether its lease is over",
            Self::NoRecheck => "a waiter whose predecessor has gone does not look at its own place",
            Self::Ghost => {
                "an unanswered request is repeated under a new number; the old one stays in the line"
            }
            Self::NotCleaned => "an acquisition that timed out is renewed all the same",
            Self::WakeOnly => "a waiter waits for a message, and for nothing else",
            Self::SameOwner => "the owner's name is host and pid, the same in every container",
            Self::VolatileFence => "fences from a counter that a restart forgets",
            Self::MaxWithoutWriteBack => {
                "a quorum's fence is the largest of its members', and the others are not told"
            }
            Self::WriteOnlyFence => {
                "the resource looks at fences on writes only; nobody claims before reading"
            }
            Self::PosixClose => "fcntl: closing any descriptor of the file gives the lock up",
            Self::UnlinkOnRelease => "flock on a file that is deleted on release",
            Self::PooledAdvisory => "pg_advisory_lock through a pooler of transactions",
            Self::SessionTimeZone => "NOW() in a session with another time zone",
            Self::OneSecond => "a memcached lease of one second, which lives less",
            Self::ClockFence => "the fence is the server's time, whatever was given before",
            Self::ExpiringCounter => {
                "fences from a counter that goes when it is idle, or when memory is full"
            }
        }
    }

    /// The fault that it is known for.
    #[must_use]
    pub const fn fault(self) -> FaultKind {
        match self {
            Self::NoLock
            | Self::ReadThenSet
            | Self::SameOwner
            | Self::PosixClose
            | Self::UnlinkOnRelease
            | Self::PooledAdvisory
            | Self::SessionTimeZone
            | Self::OneSecond => FaultKind::None,
            Self::BlindDelete | Self::BlindRenew | Self::NoDeadline => FaultKind::Pause,
            Self::SetnxExpire => FaultKind::KillHalfway,
            Self::DeadlineFromReply | Self::Ghost | Self::NotCleaned => FaultKind::Reply,
            Self::NoRecheck => FaultKind::PauseWaiter,
            Self::WakeOnly => FaultKind::Kill,
            Self::VolatileFence => FaultKind::EngineKill,
            Self::MaxWithoutWriteBack => FaultKind::EnginePause,
            Self::WriteOnlyFence => FaultKind::Pair,
            Self::ClockFence => FaultKind::ClockBack,
            Self::ExpiringCounter => FaultKind::Evict,
        }
    }

    /// Where it runs.
    #[must_use]
    pub const fn lab(self) -> LabName {
        match self {
            Self::VolatileFence => LabName::RedisVolatile,
            Self::MaxWithoutWriteBack => LabName::Redlock,
            Self::PosixClose | Self::UnlinkOnRelease => LabName::File,
            Self::PooledAdvisory => LabName::Postgres,
            Self::SessionTimeZone => LabName::Mysql,
            Self::OneSecond => LabName::Memcached,
            _ => LabName::Redis,
        }
    }

    /// The longest stay in the lock, where it must be longer than usual to matter.
    const fn stay(self) -> Option<Duration> {
        match self {
            Self::OneSecond => Some(Duration::from_millis(800)),
            Self::NoDeadline | Self::BlindRenew | Self::BlindDelete => Some(Duration::from_millis(60)),
            _ => None,
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mutant {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mutant| mutant.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|mutant| mutant.name()).collect();
            format!("there is no wrong way `{text}`; there are {}", names.join(", "))
        })
    }
}

/// What became of a wrong way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Caught {
    /// Which.
    pub mutant: Mutant,
    /// The promises that refuted it; none if it got away.
    pub by: Vec<Promise>,
    /// After how long.
    pub seconds: f64,
    /// All that was seen.
    pub cell: CellResult,
}

/// Runs wrong ways, each until it is refuted or its time is over.
///
/// # Errors
/// If an engine cannot be started, or somebody interrupts.
pub async fn run(
    options: &Options,
    mutants: &[Mutant],
    tell: &mut dyn FnMut(&Caught),
) -> Result<Vec<Caught>> {
    tokio::select! {
        done = run_all(options, mutants, tell) => done,
        signal = crate::interrupted() => Err(Trouble::Interrupted(signal)),
    }
}

async fn run_all(
    options: &Options,
    mutants: &[Mutant],
    tell: &mut dyn FnMut(&Caught),
) -> Result<Vec<Caught>> {
    let mut all = Vec::new();
    let mut labs: Vec<(LabName, Setting, bool, Arc<Lab>)> = Vec::new();
    for &mutant in mutants {
        let (name, setting) = (mutant.lab(), Setting::of(mutant.fault()));
        let pooled = mutant == Mutant::PooledAdvisory;
        let known = labs
            .iter()
            .find(|(lab, was, was_pooled, _)| (*lab, *was, *was_pooled) == (name, setting, pooled));
        let lab = match known {
            Some((_, _, _, lab)) => lab.clone(),
            None => {
                let start = move || if pooled { Lab::pooled() } else { Lab::start(name, setting) };
                let started = tokio::task::spawn_blocking(start);
                let lab = Arc::new(started.await.map_err(|err| Trouble::internal("a lab", err))??);
                labs.push((name, setting, pooled, lab.clone()));
                lab
            }
        };
        let caught = one(options, mutant, lab).await?;
        tell(&caught);
        all.push(caught);
    }
    Ok(all)
}

async fn one(options: &Options, mutant: Mutant, lab: Arc<Lab>) -> Result<Caught> {
    let operator = tenure::connect("memory:operator").await?;
    let mut guarantees = tenure_testkit_guarantees(&lab).await?;
    // Wrong ways know no readers and no permits.
    if mutant != Mutant::WriteOnlyFence {
        guarantees.modes = tenure::Modes { shared: false, permits: false };
    }
    let mut options = options.clone();
    // Who comes from another lock asks, and does for the waiters what nobody tells them.
    let keys = if mutant == Mutant::WakeOnly { 1 } else { 2 };
    (options.time, options.keys, options.min_hits) = (LIMIT, keys, 0);
    options.stay = mutant.stay().unwrap_or(options.stay);
    let cell = Cell {
        options: &options,
        lab,
        guarantees,
        operator,
        fault: mutant.fault(),
        name: format!("tenure-mutant/{:08x}/{mutant}", fastrand::u32(..)),
        mutant: Some(mutant.to_string()),
        rule: if mutant == Mutant::WriteOnlyFence { Rule::WritesOnly } else { Rule::Claimed },
    };
    let start = Instant::now();
    let result = cell.run(true, &mut |_| {}).await?;
    let by = result.broken();
    Ok(Caught { mutant, by, seconds: start.elapsed().as_secs_f64(), cell: result })
}

/// What the engine beneath a wrong way promises: how long its servers take to notice things is the same.
async fn tenure_testkit_guarantees(lab: &Lab) -> Result<tenure::Guarantees> {
    let client = tenure::connect(lab.url()).await?;
    let mut guarantees = client.guarantees().clone();
    client.close().await;
    // A wrong way on files has no lease either; one on a server has.
    if lab.name != Some(LabName::File) {
        guarantees.crash = tenure::Crash::Lease;
    }
    Ok(guarantees)
}

/// Opens a wrong way by its name, in a worker.
pub(crate) async fn open(name: &str, spec: &Spec, orders: Arc<Orders>) -> Result<Arc<dyn Locks>, String> {
    let mutant: Mutant = name.parse()?;
    match mutant {
        Mutant::PosixClose | Mutant::UnlinkOnRelease => files::open(mutant, spec),
        Mutant::PooledAdvisory | Mutant::SessionTimeZone => sql::open(mutant, spec).await,
        Mutant::OneSecond => memcached::open(spec).await,
        // The lock is right; what it protects is not.
        Mutant::WriteOnlyFence => {
            let locks = Tenure::connect(&spec.url, spec.ttl, None).await.map_err(|err| err.to_string())?;
            Ok(Arc::new(locks))
        }
        _ => redis::open(mutant, spec, orders).await,
    }
}
