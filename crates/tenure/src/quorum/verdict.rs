//! What became of one member's part in a verb, and how it is told to people.

use std::{error::Error as _, fmt, time::Duration};

use tenure_core::{Busy, Error, ErrorKind, Op, Seq};

use super::member::Roster;

/// No answer from a member.
#[derive(Clone, Debug)]
pub(super) enum Miss {
    /// It could not be opened, so it was not asked.
    Absent(Error),
    /// It failed.
    Failed(Error),
    /// It said nothing in time.
    Silent(Duration),
}

impl Miss {
    /// Whether the verb may have taken effect there.
    pub(super) fn in_doubt(&self) -> bool {
        match self {
            Self::Absent(_) => false,
            Self::Failed(err) => err.may_have_applied(),
            Self::Silent(_) => true,
        }
    }

    /// What the caller must decide on, if this alone stood in the way.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Absent(err) | Self::Failed(err) => err.kind(),
            Self::Silent(_) => ErrorKind::Unavailable,
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(err) | Self::Failed(err) => {
                f.write_str(err.message())?;
                err.source().map_or(Ok(()), |source| write!(f, " ({source})"))
            }
            Self::Silent(limit) => write!(f, "no answer within {limit:?}"),
        }
    }
}

/// One member's part in an attempt.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Not asked, because its place of this round was given back before.
    Left,
    /// Nothing yet; the rest decided.
    Unheard,
    Granted(Seq),
    Busy(Busy),
    /// It granted, but may have forgotten who holds.
    Restarted {
        ago: Duration,
        counts_in: Duration,
    },
    /// It granted with a number so far ahead of the clock that it would use up the numbers.
    TooFar(Seq),
    /// It granted, and lost the place or fell silent before the numbers agreed.
    Dropped,
    Missed(Miss),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("left before"),
            Self::Unheard => f.write_str("not waited for"),
            Self::Granted(_) => f.write_str("granted"),
            Self::Busy(_) => f.write_str("busy"),
            Self::Restarted { ago, counts_in } => {
                write!(f, "restarted {:?} ago, counts in {:?}", whole(*ago), whole(*counts_in))
            }
            Self::TooFar(seq) => {
                write!(f, "its number {seq} is a day ahead of the clock here; set both right")
            }
            Self::Dropped => f.write_str("granted, then gone"),
            Self::Missed(miss) => miss.fmt(f),
        }
    }
}

/// In whole seconds where there are any, for people.
fn whole(time: Duration) -> Duration {
    if time < Duration::from_secs(1) { time } else { Duration::from_secs(time.as_secs()) }
}

/// The members' verdicts in one line: `a granted, b busy, c no answer within 250ms`.
pub(super) fn told<V: fmt::Display>(roster: &Roster, verdicts: &[V]) -> String {
    let lines: Vec<_> =
        roster.names().zip(verdicts).map(|(name, verdict)| format!("{name} {verdict}")).collect();
    lines.join(", ")
}

/// The error of a verb that too few members answered. It can be asked again if any of the reasons may pass.
pub(super) fn too_few<'a>(op: Op, message: String, missed: impl Iterator<Item = &'a Miss>) -> Error {
    let mut kinds = missed.map(Miss::kind);
    let kind = match kinds.next() {
        Some(first) if kinds.all(|kind| kind == first) => first,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, op, message)
}
