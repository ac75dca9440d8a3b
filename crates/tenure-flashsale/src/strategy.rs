//! The ways to guard the stock: what each is called, what it teaches, and what fault shows it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One way to sell: a lane of the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Look, think, write back.
    NoLock,
    /// A mutex inside each process.
    LocalMutex,
    /// `SETNX`, then `EXPIRE`.
    SetnxExpire,
    /// The time of expiry in the value, by the client's clock.
    GetsetClock,
    /// `DEL` without asking whose lock it is.
    BlindDelete,
    /// `GET`, compare, `DEL`.
    AskDelete,
    /// A correct lease, and nobody checks its fence.
    Lease,
    /// A `tenure` lock whose fence is claimed at the store.
    Fenced,
    /// A version column.
    Version,
    /// `UPDATE … SET stock = stock - 1 WHERE stock >= 1`.
    Conditional,
    /// An atomic decrement in the cache.
    Counter,
    /// One lock per buyer.
    OneEach,
    /// A reader-writer lock around a price that changes.
    Price,
    /// A semaphore at the door.
    Admission,
}

/// The fault that a lane is shown under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A host is stopped at the worst moment, for longer than its lease.
    Stall,
    /// A host is killed at the worst moment.
    Kill,
    /// One host is cut off from the engine for longer than its lease.
    Cut,
    /// The clock of one host is ahead.
    Skew,
}

/// Where in a way of selling a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// After the stock was read, before it is written.
    BeforeWrite,
    /// After `SETNX`, before `EXPIRE`.
    BeforeExpire,
    /// After it was seen that the lock is one's own, before it is deleted.
    BeforeDelete,
}

/// What must be seen of a lane, or the demonstration has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// Nothing oversold, nothing sold twice to a buyer, no order lost.
    Safe,
    /// More is sold than there is.
    Oversells,
    /// The lock is never free again, and stock stays behind.
    Stuck,
}

impl Strategy {
    /// All of them, from the worst to the best.
    pub const ALL: [Self; 14] = [
        Self::NoLock,
        Self::LocalMutex,
        Self::SetnxExpire,
        Self::GetsetClock,
        Self::BlindDelete,
        Self::AskDelete,
        Self::Lease,
        Self::Fenced,
        Self::Version,
        Self::Conditional,
        Self::Counter,
        Self::OneEach,
        Self::Price,
        Self::Admission,
    ];

    /// Its name, as `--strategies` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoLock => "no-lock",
            Self::LocalMutex => "local-mutex",
            Self::SetnxExpire => "setnx-expire",
            Self::GetsetClock => "getset-clock",
            Self::BlindDelete => "blind-delete",
            Self::AskDelete => "ask-delete",
            Self::Lease => "lease",
            Self::Fenced => "fenced",
            Self::Version => "version",
            Self::Conditional => "conditional",
            Self::Counter => "counter",
            Self::OneEach => "one-each",
            Self::Price => "price",
            Self::Admission => "admission",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::NoLock => "no lock at all",
            Self::LocalMutex => "a mutex inside each process",
            Self::SetnxExpire => "SETNX, then EXPIRE",
            Self::GetsetClock => "GETSET with the clients' clocks",
            Self::BlindDelete => "a lease, deleted without asking whose",
            Self::AskDelete => "a lease, ask whose, then delete",
            Self::Lease => "a correct lease, no fence",
            Self::Fenced => "a tenure lock, its fence claimed at the store",
            Self::Version => "a version column",
            Self::Conditional => "a conditional update, no lock",
            Self::Counter => "an atomic decrement in the cache",
            Self::OneEach => "one lock per buyer",
            Self::Price => "a reader-writer lock around the price",
            Self::Admission => "a semaphore at the door",
        }
    }

    /// What it teaches, in two or three sentences.
    #[must_use]
    pub const fn story(self) -> &'static str {
        match self {
            Self::NoLock => {
                "Everybody looks at the same number, thinks, and writes back one less. \
                 All who looked at the same moment sell the same console."
            }
            Self::LocalMutex => {
                "A mutex orders the threads of one process and knows nothing of the other hosts. \
                 Each host sells the stock once: two hosts sell it twice."
            }
            Self::SetnxExpire => {
                "The lock is set by one command and given its end by the next. A host that dies in between leaves a lock \
                 without an end: nobody ever sells again."
            }
            Self::GetsetClock => {
                "The value says when the lock ends, by the clock of whoever wrote it. A host whose clock is ahead sees \
                 every lock as ended and walks in beside its holder."
            }
            Self::BlindDelete => {
                "A holder that was stopped past its lease wakes up, writes what it had in mind, and deletes the lock, \
                 which is somebody else's by now. So two more are in."
            }
            Self::AskDelete => {
                "It asks whose lock it is and deletes it when it was its own. Between the two commands the lease can \
                 end: then it deletes the lock of the next."
            }
            Self::Lease => {
                "The lock is right: only its owner frees it, and it ends by itself. But the holder was stopped after its \
                 last look at the clock, and the store takes the write of whoever comes."
            }
            Self::Fenced => {
                "The same lock, and before it reads, the holder claims its fence at the store. From then on the store \
                 refuses whoever was there before: the late write is turned away, and tried again under a new lock."
            }
            Self::Version => {
                "No lock: the write goes through only if nobody wrote since the read. Right, and under a crowd most of \
                 the work is done in vain."
            }
            Self::Conditional => {
                "One statement checks and takes: UPDATE … SET stock = stock - 1 WHERE stock >= 1. For a single counter \
                 you need no lock."
            }
            Self::Counter => {
                "The cache hands out numbers in one atomic step and the receipt is written after it. Nothing is oversold; \
                 a host that dies in between takes its number with it."
            }
            Self::OneEach => {
                "Buyers click twice. A lock per buyer makes their clicks take turns, and nobody waits for strangers; the \
                 stock is a conditional update."
            }
            Self::Price => {
                "Price and tax change together while the sale goes on. Those who change them hold the write side, those who \
                 sell the read side, so nobody pays the old price with the new tax."
            }
            Self::Admission => {
                "A semaphore lets so many into the shop at once, across all hosts, and the store behind it is never \
                 crowded. It protects the server, not the stock: that is a conditional update."
            }
        }
    }

    /// The code that this lane runs.
    #[must_use]
    pub fn code(self) -> &'static str {
        let file = match self {
            Self::NoLock => include_str!("ways/no_lock.rs"),
            Self::LocalMutex => include_str!("ways/local_mutex.rs"),
            Self::SetnxExpire => include_str!("ways/setnx_expire.rs"),
            Self::GetsetClock => include_str!("ways/getset_clock.rs"),
            Self::BlindDelete => include_str!("ways/blind_delete.rs"),
            Self::AskDelete => include_str!("ways/ask_delete.rs"),
            Self::Lease => include_str!("ways/lease.rs"),
            Self::Fenced => include_str!("ways/fenced.rs"),
            Self::Version => include_str!("ways/version.rs"),
            Self::Conditional => include_str!("ways/conditional.rs"),
            Self::Counter => include_str!("ways/counter.rs"),
            Self::OneEach => include_str!("ways/one_each.rs"),
            Self::Price => include_str!("ways/price.rs"),
            Self::Admission => include_str!("ways/admission.rs"),
        };
        // What stands before it are imports and the story again.
        file.find("pub(super) async fn").map_or(file, |at| file[at..].trim_end())
    }

    /// What must be seen of it.
    #[must_use]
    pub const fn expected(self) -> Expected {
        match self {
            Self::NoLock
            | Self::LocalMutex
            | Self::GetsetClock
            | Self::BlindDelete
            | Self::AskDelete
            | Self::Lease => Expected::Oversells,
            Self::SetnxExpire => Expected::Stuck,
            Self::Fenced
            | Self::Version
            | Self::Conditional
            | Self::Counter
            | Self::OneEach
            | Self::Price
            | Self::Admission => Expected::Safe,
        }
    }

    /// The faults that show what it is worth, and where they strike.
    #[must_use]
    pub const fn own_faults(self) -> &'static [(Fault, Point)] {
        match self {
            Self::SetnxExpire => &[(Fault::Kill, Point::BeforeExpire)],
            Self::GetsetClock => &[(Fault::Skew, Point::BeforeWrite)],
            Self::AskDelete => &[(Fault::Stall, Point::BeforeDelete)],
            Self::BlindDelete | Self::Lease => &[(Fault::Stall, Point::BeforeWrite)],
            Self::Fenced => &[(Fault::Stall, Point::BeforeWrite), (Fault::Kill, Point::BeforeWrite)],
            _ => &[],
        }
    }

    /// Whether this right way promises anything under the fault. Who is stopped past its lease and comes back can be
    /// refused only by a fence, and the holders of a semaphore and the readers of a price show none here.
    #[must_use]
    pub const fn bears(self, fault: Fault) -> bool {
        match fault {
            Fault::Stall => !matches!(self, Self::Price | Self::Admission),
            // Only locks have an engine to be cut off from.
            Fault::Cut => self.locks(),
            Fault::Kill | Fault::Skew => true,
        }
    }

    /// Whether it needs an engine of `tenure`.
    #[must_use]
    pub const fn locks(self) -> bool {
        matches!(self, Self::Lease | Self::Fenced | Self::OneEach | Self::Price | Self::Admission)
    }

    /// Whether it needs the cache, where the wrong locks and the counter are.
    #[must_use]
    pub const fn caches(self) -> bool {
        matches!(
            self,
            Self::SetnxExpire | Self::GetsetClock | Self::BlindDelete | Self::AskDelete | Self::Counter
        )
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|strategy| strategy.name()).collect();
            format!(
                "there is no way to sell called `{}`; there are {}",
                name.escape_debug(),
                names.join(", ")
            )
        })
    }
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stall, Self::Kill, Self::Cut, Self::Skew];

    /// Its name, as `--faults` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Kill => "kill",
            Self::Cut => "cut",
            Self::Skew => "skew",
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| {
            format!(
                "there is no fault called `{}`; there are stall, kill, cut, skew and none",
                name.escape_debug()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(serde_json::to_string(&strategy).unwrap(), format!("\"{strategy}\""));
        }
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(fault));
        }
        assert!("nolock".parse::<Strategy>().unwrap_err().contains("no-lock"));
        assert!("fire".parse::<Fault>().is_err());
    }

    #[test]
    fn the_code_that_is_shown_is_the_code_that_runs() {
        for strategy in Strategy::ALL {
            let code = strategy.code();
            assert!(code.starts_with("pub(super) async fn order("), "{strategy}: {code}");
            assert!(code.ends_with('}') && code.lines().count() < 45, "{strategy}");
        }
    }
}
