use std::{fmt, str::FromStr};

use crate::{ClaimId, Error, ErrorKind, Fence, Mode, Op, Result, Stamp};

/// What a fenced resource remembers beside its data, and the rule by which it accepts or refuses a [`Stamp`].
///
/// Pure: whoever keeps one reads it, asks here, and stores what it is told to, all in one atomic step. Nothing here
/// says how.
///
/// - *claim*, before the first read. A writer must be above every fence the record has seen, or be the very claim
///   that stands in it. A reader must be above every *writer*, so that readers do not shut out each other.
/// - *read* and *write* want the claim to stand. "At least" is not enough for a write: it forgives a forgotten
///   claim, and then loses updates.
/// - each write under one claim has a number: 1, 2, 3. A delayed copy of an earlier one is refused, and the last one
///   may be asked again when its reply was lost.
///
/// # Examples
/// ```
/// use tenure_core::{ClaimId, Fence, Mode, Record, Seq, Stamp};
///
/// let stamp = |seq| Stamp::new(Fence::new(Seq::new(seq).unwrap(), 0), ClaimId::fresh(), Mode::Exclusive);
/// let (old, new) = (stamp(41)?, stamp(42)?);
/// let record = Record::default().claim(&old).unwrap();
/// let record = record.write(&old, 1).unwrap().expect("it was not written before");
/// let record = record.claim(&new).unwrap();
/// assert!(record.write(&old, 2).is_err(), "overtaken");
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    writer: Fence,
    claim: ClaimId,
    n: u64,
    mark: Fence,
}

impl Default for Record {
    /// The record of a resource that nobody has claimed.
    fn default() -> Self {
        Self { writer: ZERO, claim: ClaimId::from_bytes([0; 16]), n: 0, mark: ZERO }
    }
}

/// Below the fence of every stamp.
const ZERO: Fence = Fence::new(crate::Seq::ZERO, 0);

impl Record {
    /// The largest number of a write: above it, Lua and JSON lose the difference between two numbers.
    pub const MAX_N: u64 = (1 << 53) - 1;

    /// The parts that some keeper stored.
    ///
    /// # Errors
    /// `Broken` if no rule leads to such a record: it was changed by another hand.
    pub fn from_parts(writer: Fence, claim: ClaimId, n: u64, mark: Fence) -> Result<Self> {
        let unclaimed = writer == ZERO && (n != 0 || claim != Self::default().claim);
        if writer > mark || n > Self::MAX_N || unclaimed {
            let message = format!("writer {writer}, n {n} and mark {mark} make no record of a fence");
            return Err(Error::new(ErrorKind::Broken, Op::Claim, message).not_applied());
        }
        Ok(Self { writer, claim, n, mark })
    }

    /// The fence of the last writer that claimed; 0 if none did.
    #[must_use]
    pub const fn writer(&self) -> Fence {
        self.writer
    }

    /// That writer's claim.
    #[must_use]
    pub const fn claim_id(&self) -> ClaimId {
        self.claim
    }

    /// The number of that writer's last write; 0 if it has not written.
    #[must_use]
    pub const fn n(&self) -> u64 {
        self.n
    }

    /// The largest fence that claimed, writers and readers alike.
    #[must_use]
    pub const fn mark(&self) -> Fence {
        self.mark
    }

    /// The record once this holder has claimed. The same claim again changes nothing.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn claim(&self, stamp: &Stamp) -> Result<Self, Refusal> {
        let fence = stamp.fence();
        match stamp.mode() {
            Mode::Shared if self.writer < fence => Ok(Self { mark: self.mark.max(fence), ..*self }),
            // A writer that became a reader at its own place.
            Mode::Shared if self.is_by(stamp) => Ok(*self),
            Mode::Shared => Err(self.ahead(stamp, self.writer)),
            _ if self.mark < fence => Ok(Self { writer: fence, claim: stamp.claim_id(), n: 0, mark: fence }),
            _ if self.is_by(stamp) && self.mark == fence => Ok(*self),
            _ => Err(self.ahead(stamp, self.mark)),
        }
    }

    /// Whether this holder, which has claimed, may read.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn read(&self, stamp: &Stamp) -> Result<(), Refusal> {
        let fence = stamp.fence();
        match stamp.mode() {
            Mode::Shared if self.is_by(stamp) => Ok(()),
            Mode::Shared if fence <= self.writer => Err(self.ahead(stamp, self.writer)),
            Mode::Shared if fence <= self.mark => Ok(()),
            Mode::Shared => Err(self.refuse(stamp, Why::NotClaimed)),
            _ => self.stands(stamp),
        }
    }

    /// The record once this holder, which has claimed, has done its `n`th write; `None` if it had done it before, and
    /// must not do it again.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn write(&self, stamp: &Stamp, n: u64) -> Result<Option<Self>, Refusal> {
        if stamp.mode() != Mode::Exclusive {
            return Err(self.refuse(stamp, Why::ReadOnly));
        }
        self.stands(stamp)?;
        match n.checked_sub(self.n) {
            Some(1) if n <= Self::MAX_N => Ok(Some(Self { n, ..*self })),
            Some(0) if n > 0 => Ok(None),
            _ => Err(self.refuse(stamp, Why::OutOfStep { n })),
        }
    }

    fn is_by(&self, stamp: &Stamp) -> bool {
        self.writer == stamp.fence() && self.claim == stamp.claim_id()
    }

    /// Whether a writer's claim stands, with nobody after it.
    fn stands(&self, stamp: &Stamp) -> Result<(), Refusal> {
        if self.mark < stamp.fence() {
            Err(self.refuse(stamp, Why::NotClaimed))
        } else if self.is_by(stamp) && self.mark == stamp.fence() {
            Ok(())
        } else {
            Err(self.ahead(stamp, self.mark))
        }
    }

    fn ahead(&self, stamp: &Stamp, by: Fence) -> Refusal {
        self.refuse(stamp, if by == stamp.fence() { Why::Rival } else { Why::Overtaken { by } })
    }

    fn refuse(&self, stamp: &Stamp, why: Why) -> Refusal {
        Refusal { stamp: *stamp, record: *self, why }
    }
}

impl fmt::Display for Record {
    /// Fences have a fixed width, so that whoever keeps the text can compare them as text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:019} {} {} {:019}", self.writer.get(), self.claim, self.n, self.mark.get())
    }
}

impl FromStr for Record {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parts = || {
            let mut parts = text.split(' ');
            let writer = parts.next()?.parse().ok()?;
            let claim = parts.next()?.parse().ok()?;
            let n = parts.next()?.parse().ok()?;
            let mark = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some((writer, claim, n, mark))
        };
        let (writer, claim, n, mark) = parts().ok_or_else(|| {
            let message = "the record of a fence is damaged; somebody else wrote there";
            Error::new(ErrorKind::Broken, Op::Claim, message).not_applied()
        })?;
        Self::from_parts(writer, claim, n, mark)
    }
}

/// Who was refused by which record, and why. The source of an [`Error`] of kind `Refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    stamp: Stamp,
    record: Record,
    why: Why,
}

/// Why a record refuses a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A later holder has claimed: the lock is no longer this one's. Stop.
    Overtaken {
        /// Whose fence it was.
        by: Fence,
    },
    /// Another claim with the same fence was here first: the lock's engine forgot what it had granted. Stop.
    Rival,
    /// Nobody has claimed with this fence yet: claim before the first read.
    NotClaimed,
    /// The write is not the next one: a delayed copy, or one was left out.
    OutOfStep {
        /// The number it has.
        n: u64,
    },
    /// A shared hold does not write.
    ReadOnly,
}

impl Refusal {
    /// The refusal behind an error, if it is one.
    #[must_use]
    pub fn of(err: &Error) -> Option<&Self> {
        std::error::Error::source(err)?.downcast_ref()
    }

    /// Who was refused.
    #[must_use]
    pub const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// What the resource had seen by then.
    #[must_use]
    pub const fn record(&self) -> Record {
        self.record
    }

    /// Why.
    #[must_use]
    pub const fn why(&self) -> Why {
        self.why
    }

    /// The error that tells a caller what to do about it; nothing was changed.
    #[must_use]
    pub fn into_error(self, op: Op) -> Error {
        let (kind, message) = match self.why {
            Why::Overtaken { .. } => {
                (ErrorKind::Refused, "a later holder was here; stop, the lock is somebody else's")
            }
            Why::Rival => (
                ErrorKind::Refused,
                "another claim with the same fence was here first; stop, the engine forgot",
            ),
            Why::NotClaimed => (ErrorKind::Refused, "the fence was not claimed; claim before the first read"),
            Why::OutOfStep { .. } => {
                (ErrorKind::Refused, "not the next write; number them 1, 2, 3 under one claim")
            }
            Why::ReadOnly => (ErrorKind::Invalid, "a shared hold does not write; take the lock to write"),
        };
        Error::new(kind, op, message).not_applied().with_source(self)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.record;
        if let Why::OutOfStep { n } = self.why {
            write!(f, "write {n} after write {} under fence {}", record.n, self.stamp.fence())
        } else {
            write!(f, "fence {} at a record with {}", self.stamp.fence(), record.mark)?;
            if record.mark == record.writer {
                Ok(())
            } else {
                write!(f, ", last written by {}", record.writer)
            }
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests;
