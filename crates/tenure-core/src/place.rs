use std::time::Duration;

use crate::{ClaimId, Fence, Key, Mode, Note, Seq};

/// One place in a line, for people.
#[derive(Clone, Debug)]
pub struct Place {
    /// Whose line.
    pub key: Key,
    /// Whose place.
    pub id: ClaimId,
    /// Its number in the line.
    pub seq: Seq,
    /// How it wishes to hold.
    pub mode: Mode,
    /// Whether it holds.
    pub standing: Standing,
    /// Who stands there. Where tasks of a process share a place, who came first.
    pub note: Note,
    /// How long ago the place was taken.
    pub age: Duration,
    /// How long it lives unless it is renewed; `None` while its process or its session does.
    pub lease_left: Option<Duration>,
}

impl Place {
    /// The fence of the first turn on this place: what `evict` wants to see.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence::new(self.seq, 0)
    }
}

/// Whether a place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It stands in the front of the line.
    Holds,
    /// It waits behind others.
    Waits,
}

/// Which lines to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The line of one key.
    Key(Key),
    /// The lines of all keys that start so; all keys if it is empty. At most so many places.
    Prefix(String, usize),
}

impl Filter {
    /// Whether the filter shows the line of this key.
    #[must_use]
    pub fn shows(&self, key: &Key) -> bool {
        match self {
            Self::Key(only) => only == key,
            Self::Prefix(prefix, _) => key.as_str().starts_with(prefix),
        }
    }

    /// The most places it wants.
    #[must_use]
    pub fn limit(&self) -> usize {
        match self {
            Self::Key(_) => usize::MAX,
            Self::Prefix(_, limit) => *limit,
        }
    }
}

/// An operator breaks exactly the hold they looked at.
#[derive(Clone, Debug)]
pub struct Eviction {
    /// Whose line.
    pub key: Key,
    /// Whose place.
    pub id: ClaimId,
    /// Its number; a place that was taken anew meanwhile is left alone.
    pub seq: Seq,
    /// How soon.
    pub when: When,
}

/// How soon an evicted place is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Renewals are refused, so the holder learns of it; the place is free at its deadline, or once the holder
    /// let go. Never two holders.
    Gently,
    /// At once. The holder may not know yet: until it does, only fences protect.
    Now,
}

/// What became of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Evicted {
    /// The holder will be refused at its next renewal; the place is free at its deadline or when it lets go.
    Stopped,
    /// The place is free.
    Freed,
    /// There is no such place any more.
    Gone,
}
