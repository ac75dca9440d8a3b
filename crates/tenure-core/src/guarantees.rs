use std::{fmt, time::Duration};

/// What an engine promises, in the topology it was opened with: said beside the code that keeps it, and asked of
/// it by the conformance suite, both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// What the engine is called.
    pub engine: &'static str,
    /// The most it may claim.
    pub grade: Grade,
    /// Whom it can keep apart.
    pub reach: Reach,
    /// How claims can hold.
    pub modes: Modes,
    /// In what order waiters come.
    pub order: Order,
    /// How the death of a holder is noticed.
    pub crash: Crash,
    /// How a waiter learns of its turn.
    pub wake: Wake,
    /// What the numbers survive.
    pub fences: Fences,
    /// Whether a number can be lifted to a floor, which a quorum's fences need.
    pub floors: Floors,
    /// What a failover may forget.
    pub failover: Failover,
    /// The shortest lease it keeps exactly.
    pub min_ttl: Duration,
}

impl Guarantees {
    /// What a composite of both can promise: the weaker of each.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            engine: if self.engine == other.engine { self.engine } else { "composite" },
            grade: self.grade.min(other.grade),
            reach: self.reach.min(other.reach),
            modes: self.modes.meet(other.modes),
            order: self.order.min(other.order),
            crash: self.crash.min(other.crash),
            wake: self.wake.min(other.wake),
            fences: self.fences.min(other.fences),
            floors: self.floors.min(other.floors),
            failover: self.failover.min(other.failover),
            min_ttl: self.min_ttl.max(other.min_ttl),
        }
    }
}

/// The most that may be claimed for an engine: never a plain "mutual exclusion".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// Fewer duplicates. Two holders are possible, and the fence is what saves the data.
    Advisory,
    /// Exclusion within the lease while clocks drift by less than the margin.
    Leased,
    /// A unique, rising fence through crash, pause, partition and failover.
    Fenced,
}

/// Whom an engine can keep apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Tasks and threads of one process.
    Process,
    /// Processes of one machine.
    Machine,
    /// Everybody who reaches the server.
    Network,
}

/// Which modes an engine can grant; exclusive always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Modes {
    /// Reader-writer locks.
    pub shared: bool,
    /// Semaphores.
    pub permits: bool,
}

impl Modes {
    /// All of them.
    pub const ALL: Self = Self { shared: true, permits: true };

    /// Whether this mode can be granted.
    #[must_use]
    pub const fn allow(self, mode: crate::Mode) -> bool {
        match mode {
            crate::Mode::Exclusive => true,
            crate::Mode::Shared => self.shared,
            crate::Mode::Permits(_) => self.permits,
        }
    }

    const fn meet(self, other: Self) -> Self {
        Self { shared: self.shared && other.shared, permits: self.permits && other.permits }
    }
}

/// In what order waiters come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Whoever asks at the right moment.
    Any,
    /// First come, first served, across all processes.
    Fifo,
}

/// How the death of a holder is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crash {
    /// Its lease ends. A paused holder is a dead one.
    Lease,
    /// Its session with the engine ends, and with it all its places. A paused holder is a dead one; one that runs keeps
    /// a place until it lets go of it, renewed or not.
    Session,
    /// The operating system tells, at once. A paused holder goes on holding.
    Process,
}

/// How a waiter learns of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wake {
    /// It asks again, with growing pauses.
    Poll,
    /// It is told.
    Push,
}

/// What an engine's numbers survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fences {
    /// A restart only if the clock was not set back meanwhile.
    ClockBound,
    /// Restart and power loss, whatever the clock does.
    Durable,
}

/// Whether an engine can lift a number to a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Floors {
    /// It cannot: its numbers come from an order of its own.
    Ignored,
    /// It can.
    Kept,
}

/// What a failover may forget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failover {
    /// Grants that were given: two holders.
    MayForget,
    /// Nothing that was acknowledged.
    Keeps,
    /// There is nothing to fail over to.
    None,
}

macro_rules! words {
    ($($type:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word),+ })
            }
        }
    )+};
}

words! {
    Grade { Advisory => "Advisory", Leased => "Leased", Fenced => "Fenced" }
    Reach { Process => "one process", Machine => "one machine", Network => "network" }
    Order { Any => "any", Fifo => "FIFO" }
    Crash { Lease => "lease", Session => "session", Process => "process" }
    Wake { Poll => "poll", Push => "push" }
    Fences { ClockBound => "while the clock is not set back", Durable => "always" }
    Floors { Ignored => "no", Kept => "yes" }
    Failover { MayForget => "may forget grants", Keeps => "keeps grants", None => "none" }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match (self.shared, self.permits) {
            (false, false) => "mutex",
            (true, false) => "mutex, rwlock",
            (false, true) => "mutex, semaphore",
            (true, true) => "mutex, rwlock, semaphore",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composite_promises_the_weaker_of_each() {
        let strong = Guarantees {
            engine: "strong",
            grade: Grade::Fenced,
            reach: Reach::Network,
            modes: Modes::ALL,
            order: Order::Fifo,
            crash: Crash::Process,
            wake: Wake::Push,
            fences: Fences::Durable,
            floors: Floors::Kept,
            failover: Failover::None,
            min_ttl: Duration::from_millis(100),
        };
        let weak = Guarantees {
            engine: "weak",
            grade: Grade::Advisory,
            reach: Reach::Machine,
            modes: Modes { shared: true, permits: false },
            order: Order::Any,
            crash: Crash::Lease,
            wake: Wake::Poll,
            fences: Fences::ClockBound,
            floors: Floors::Ignored,
            failover: Failover::MayForget,
            min_ttl: Duration::from_secs(2),
        };
        assert_eq!(strong.meet(&weak), Guarantees { engine: "composite", ..weak.clone() });
        assert_eq!(weak.meet(&strong), strong.meet(&weak));
        assert_eq!(strong.meet(&strong), strong);
    }
}
