use std::fmt;

use serde::{Deserialize, Serialize};
use tenure_core::{Mode, line};
use tenure_testkit::model::HoldRule;

use crate::checks::Promise;

/// A wrong way to build a lock, each a mistake that somebody made. The simulator must refute every one.
///
/// None is a switch in the product: a mutant is a clock, a network or a server that makes the right code behave as if it
/// had the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// The deadline counts from when the answer came, not from before the question.
    DeadlineFromReply,
    /// The deadline stands on a clock that people set back.
    WallClock,
    /// The deadline stands on a clock that stops while the machine sleeps.
    ClockStopsInSuspend,
    /// Whoever waited for the holder before it to end believes that it holds, and does not ask.
    NoRecheck,
    /// A push counts anew, though the place that it speaks of was refreshed long ago.
    PushCountsAnew,
    /// A push is believed whatever place it speaks of.
    PushWithoutNumber,
    /// A wait that timed out leaves its place in the line.
    TimedOutNotCleaned,
    /// A waiter asks once and then only waits to be told.
    WakeUpOnly,
    /// A release frees whoever holds.
    ReleaseByKey,
    /// The place is made first and its lease set later: who dies in between holds for ever.
    SetThenExpire,
    /// The numbers begin again when the server restarts.
    CounterForgotten,
    /// The server ends a lease earlier than it said.
    ShortLease,
    /// A reader does not mind a writer.
    ReadersBesideWriter,
    /// One permit more than there are.
    OnePermitMore,
    /// The resource checks the fence of a write, and nobody claims before reading.
    WriteOnlyFence,
    /// In a quorum, the number of a grant is not written back to its members.
    NoWriteBack,
    /// In a quorum, a member that forgot everything counts at once.
    NoQuarantine,
    /// An operator who asks gently frees the place at once.
    BreaksAtOnce,
    /// A writer that becomes a reader gives its place up.
    DowngradeReleases,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::DeadlineFromReply,
        Self::WallClock,
        Self::ClockStopsInSuspend,
        Self::NoRecheck,
        Self::PushCountsAnew,
        Self::PushWithoutNumber,
        Self::TimedOutNotCleaned,
        Self::WakeUpOnly,
        Self::ReleaseByKey,
        Self::SetThenExpire,
        Self::CounterForgotten,
        Self::ShortLease,
        Self::ReadersBesideWriter,
        Self::OnePermitMore,
        Self::WriteOnlyFence,
        Self::NoWriteBack,
        Self::NoQuarantine,
        Self::BreaksAtOnce,
        Self::DowngradeReleases,
    ];

    /// What breaks under it: the verdict must be one of these, so that no mutant is caught by luck.
    #[must_use]
    pub const fn breaks(self) -> &'static [Promise] {
        use Promise::{Exclusion, Fences, Ownership, Register, Succession, Told, Unknown, Waiters};
        match self {
            Self::DeadlineFromReply
            | Self::WallClock
            | Self::ClockStopsInSuspend
            | Self::NoRecheck
            | Self::PushCountsAnew
            | Self::PushWithoutNumber
            | Self::ShortLease
            | Self::BreaksAtOnce
            | Self::DowngradeReleases
            | Self::ReadersBesideWriter => &[Exclusion, Fences, Ownership, Told],
            Self::OnePermitMore => &[Exclusion, Ownership],
            Self::TimedOutNotCleaned | Self::WakeUpOnly => &[Waiters, Unknown, Succession],
            Self::ReleaseByKey => &[Exclusion, Fences, Ownership],
            Self::SetThenExpire => &[Succession, Unknown],
            Self::CounterForgotten | Self::NoWriteBack => &[Fences, Register],
            Self::WriteOnlyFence => &[Register],
            Self::NoQuarantine => &[Exclusion, Fences],
        }
    }

    pub(super) fn needs_a_quorum(self) -> bool {
        matches!(self, Self::NoWriteBack | Self::NoQuarantine)
    }

    pub(super) fn needs_readers(self) -> bool {
        matches!(self, Self::ReadersBesideWriter | Self::DowngradeReleases)
    }

    pub(super) fn needs_permits(self) -> bool {
        self == Self::OnePermitMore
    }

    /// Its own idea of who holds, if it has one.
    pub(super) fn rule(self) -> Option<HoldRule> {
        match self {
            Self::ReadersBesideWriter => Some(|modes, at| match modes[at] {
                Mode::Shared => true,
                Mode::Exclusive | Mode::Permits(_) => at < line::holders(modes.iter().copied()),
            }),
            Self::OnePermitMore => Some(|modes, at| {
                let holders = line::holders(modes.iter().copied());
                at < holders + usize::from(matches!(modes[at], Mode::Permits(_)))
            }),
            _ => None,
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        for (at, letter) in name.char_indices() {
            if letter.is_uppercase() && at > 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}
