//! What can be done to whom, by name.

use std::{fmt, str::FromStr};

use tenure::{Grade, Guarantees};

/// A kind of fault. Each is aimed at the moment that matters and counts only with proof that it hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Nothing: what the others are compared with.
    None,
    /// SIGKILL of the holder.
    Kill,
    /// SIGKILL between the two halves of an acquisition that is not one step. Only a wrong way has such.
    KillHalfway,
    /// SIGSTOP of the holder, past its lease.
    Pause,
    /// SIGSTOP of a waiter, past the lease of its place.
    PauseWaiter,
    /// The holder stops between its check and its write, past its lease.
    Failpoint,
    /// The same, and the next holder stops at the same point before the first goes on.
    Pair,
    /// A write is held back by the network and arrives when others have held the lock.
    Late,
    /// The machine of the holder sleeps: its clock jumps past the lease.
    Sleep,
    /// The holder is cut off from its engine, both ways.
    Cut,
    /// What the holder sends is lost, what it is sent arrives.
    CutUp,
    /// What the holder is sent is lost, what it sends arrives.
    CutDown,
    /// All connections of the holder are reset.
    Reset,
    /// The engine's side of the holder's connections is gone, and the holder does not hear of it.
    HalfOpen,
    /// Every answer to somebody comes late by most of a lease.
    Delay,
    /// One answer is held back until a lease is over, then delivered.
    Reply,
    /// The engine is killed and started again.
    EngineKill,
    /// The engine is stopped for longer than a lease.
    EnginePause,
    /// The leader, or the master, is killed, and another takes over.
    LeaderKill,
    /// The leader is cut off from its followers, and another takes over.
    LeaderCut,
    /// Everything that the engine remembers is deleted by an operator.
    Flush,
    /// The engine's memory is filled until it evicts locks.
    Evict,
    /// The engine's wall clock is set ahead.
    ClockAhead,
    /// The engine's wall clock is set back.
    ClockBack,
    /// An operator breaks the hold.
    Break,
    /// Nobody is told of anything: wake-ups are suppressed.
    Deaf,
}

/// What a fault needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Workers alone.
    Workers,
    /// A proxy between a worker and its engine.
    Wire,
    /// An engine that this run has started, or is allowed to strike.
    Engine,
}

impl FaultKind {
    /// All that a right way can be struck with, the cheap ones first.
    pub const ALL: [Self; 25] = [
        Self::None,
        Self::Kill,
        Self::Pause,
        Self::PauseWaiter,
        Self::Failpoint,
        Self::Pair,
        Self::Late,
        Self::Sleep,
        Self::Cut,
        Self::CutUp,
        Self::CutDown,
        Self::Reset,
        Self::HalfOpen,
        Self::Delay,
        Self::Reply,
        Self::Break,
        Self::Deaf,
        Self::EngineKill,
        Self::EnginePause,
        Self::LeaderKill,
        Self::LeaderCut,
        Self::Flush,
        Self::Evict,
        Self::ClockAhead,
        Self::ClockBack,
    ];

    /// Three that need no engine of our own and little time.
    pub const CHEAP: [Self; 3] = [Self::Kill, Self::Pause, Self::Failpoint];

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kill => "kill",
            Self::KillHalfway => "kill-halfway",
            Self::Pause => "pause",
            Self::PauseWaiter => "pause-waiter",
            Self::Failpoint => "failpoint",
            Self::Pair => "pair",
            Self::Late => "late",
            Self::Sleep => "sleep",
            Self::Cut => "cut",
            Self::CutUp => "cut-up",
            Self::CutDown => "cut-down",
            Self::Reset => "reset",
            Self::HalfOpen => "half-open",
            Self::Delay => "delay",
            Self::Reply => "reply",
            Self::EngineKill => "engine-kill",
            Self::EnginePause => "engine-pause",
            Self::LeaderKill => "leader-kill",
            Self::LeaderCut => "leader-cut",
            Self::Flush => "flush",
            Self::Evict => "evict",
            Self::ClockAhead => "clock-ahead",
            Self::ClockBack => "clock-back",
            Self::Break => "break",
            Self::Deaf => "wake-up",
        }
    }

    /// What is done, for people.
    #[must_use]
    pub const fn story(self) -> &'static str {
        match self {
            Self::None => "nothing is done",
            Self::Kill => "the holder is killed (SIGKILL)",
            Self::KillHalfway => "whoever has half of a lock is killed",
            Self::Pause => "the holder is stopped (SIGSTOP) past its lease, then goes on",
            Self::PauseWaiter => "a waiter is stopped past the lease of its place, then goes on",
            Self::Failpoint => {
                "the holder stops between its check and its write, past its lease, then writes"
            }
            Self::Pair => {
                "two holders in a row stop between check and write; the first writes, then the second"
            }
            Self::Late => "a holder's write is held back and arrives when others have held the lock",
            Self::Sleep => "the holder's machine sleeps past the lease (its clock jumps)",
            Self::Cut => "the holder is cut off from its engine, both ways, past its lease",
            Self::CutUp => "what the holder sends to its engine is lost, past its lease",
            Self::CutDown => "what the engine sends to the holder is lost, past its lease",
            Self::Reset => "the holder's connections to its engine are reset",
            Self::HalfOpen => "the engine's side of the holder's connections is gone without a word",
            Self::Delay => "the engine's answers to one worker come late by most of a lease",
            Self::Reply => "one answer of the engine is held back past the lease, then delivered",
            Self::EngineKill => "the engine is killed and started again",
            Self::EnginePause => "the engine is stopped past the lease, then goes on",
            Self::LeaderKill => "the leader is killed and another takes over",
            Self::LeaderCut => "the leader is cut off from the others and another takes over",
            Self::Flush => "an operator deletes all that the engine remembers",
            Self::Evict => "the engine's memory is filled until it evicts locks",
            Self::ClockAhead => "the engine's wall clock is set ten minutes ahead",
            Self::ClockBack => "the engine's wall clock is set ten minutes back",
            Self::Break => "an operator breaks the hold (`tenure break`)",
            Self::Deaf => "wake-ups are suppressed: nobody is told that it is their turn",
        }
    }

    /// Whether it is done to the engine itself, which others may use too.
    #[must_use]
    pub fn strikes_the_engine(self) -> bool {
        self.needs() == Needs::Engine
    }

    pub(crate) const fn needs(self) -> Needs {
        match self {
            Self::None
            | Self::Kill
            | Self::KillHalfway
            | Self::Pause
            | Self::PauseWaiter
            | Self::Failpoint
            | Self::Pair
            | Self::Late
            | Self::Sleep
            | Self::Break => Needs::Workers,
            Self::Cut
            | Self::CutUp
            | Self::CutDown
            | Self::Reset
            | Self::HalfOpen
            | Self::Delay
            | Self::Reply => Needs::Wire,
            Self::EngineKill
            | Self::EnginePause
            | Self::LeaderKill
            | Self::LeaderCut
            | Self::Flush
            | Self::Evict
            | Self::ClockAhead
            | Self::ClockBack
            | Self::Deaf => Needs::Engine,
        }
    }

    /// The promises that this engine does not make under this fault, with the reason that is printed when one is broken.
    pub(crate) fn excused(self, guarantees: &Guarantees) -> Option<(&'static [u8], &'static str)> {
        let forgets = guarantees.grade == Grade::Advisory;
        match self {
            Self::Flush => Some((
                &[1, 2, 4],
                "who deletes the engine's memory takes locks away from holders that do not know it yet",
            )),
            Self::Evict => Some((
                &[1, 2, 4],
                "an engine that evicts takes locks away from holders that do not know it yet; the fence saves the data",
            )),
            // memcached counts by a clock that nobody sets. A quorum is struck in one member, which is enough where a
            // bare majority holds.
            Self::ClockAhead if matches!(guarantees.engine, "redis" | "mysql" | "postgres" | "quorum") => {
                Some((
                    &[1, 2, 4],
                    "a server's clock that is stepped ahead ends leases early (SAFETY.md); the fence saves the data",
                ))
            }
            Self::EngineKill | Self::EnginePause | Self::LeaderKill | Self::LeaderCut if forgets => Some((
                &[1, 2, 4],
                "grade advisory: this engine may forget a grant when it restarts or fails over; the fence saves the data",
            )),
            _ => None,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|fault| fault.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|fault| fault.name()).collect();
            format!("there is no fault `{text}`; there are {}", names.join(", "))
        })
    }
}
