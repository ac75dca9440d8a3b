use std::fmt;

use serde::{Deserialize, Serialize};

use super::Story;

/// What a lock promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// I1: no two believe to hold at once what only one can hold.
    Exclusion,
    /// I2: fences differ, and rise in the order of grants.
    Fences,
    /// I3: a resource that checks fences loses no update.
    Register,
    /// I4: what one holds only it can give back; re-entry keeps the fence; readers, writers and permits are kept apart.
    Ownership,
    /// I5: after the death of a holder the next one holds in time.
    Succession,
    /// I6: nobody who waits is forgotten.
    Waiters,
    /// I7: an acquisition that nobody knows the end of leaves nothing behind.
    Unknown,
    /// I8: a holder is told not later than at its deadline.
    Told,
    /// I9: the faults hit.
    Bit,
}

impl Promise {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Exclusion,
        Self::Fences,
        Self::Register,
        Self::Ownership,
        Self::Succession,
        Self::Waiters,
        Self::Unknown,
        Self::Told,
        Self::Bit,
    ];

    /// Its number, as the documentation has it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Exclusion => "I1",
            Self::Fences => "I2",
            Self::Register => "I3",
            Self::Ownership => "I4",
            Self::Succession => "I5",
            Self::Waiters => "I6",
            Self::Unknown => "I7",
            Self::Told => "I8",
            Self::Bit => "I9",
        }
    }

    /// What it says, in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Exclusion => "one holder at a time",
            Self::Fences => "fences differ and rise",
            Self::Register => "no update lost behind a fence",
            Self::Ownership => "nobody else's hold is touched",
            Self::Succession => "the next holder in time",
            Self::Waiters => "no waiter forgotten",
            Self::Unknown => "nothing left behind",
            Self::Told => "the holder is told in time",
            Self::Bit => "the faults hit",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.words())
    }
}

/// What a run says about a promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It was kept, within this run.
    Held {
        /// How many times it could have been broken.
        ops: usize,
        /// How many faults hit meanwhile.
        hits: usize,
    },
    /// It was broken.
    Refuted {
        /// Which one.
        promise: Promise,
        /// How.
        story: Story,
    },
    /// The run says nothing about it.
    Inconclusive {
        /// Why not.
        why: String,
    },
}

/// What one check found, before it is known whether enough faults hit.
pub(super) enum Finding {
    /// So many chances to break it.
    Held(usize),
    Broken(Story),
    TooLittle(String),
}
