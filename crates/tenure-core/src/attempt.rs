use std::time::Duration;

use crate::{Mode, Seq};

/// What an engine says to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Attempt {
    /// The claim holds.
    Granted(Grant),
    /// The claim does not hold (yet). Not an error.
    Busy(Busy),
}

/// What makes a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where the claim stands.
    pub seat: Seat,
    /// How long the place is certain to live, counted from before the attempt left; `None` while its process does. In a
    /// session: for how long that is certain not to end, which may be less than was asked for.
    pub ttl: Option<Duration>,
    /// For how long the engine is known to have forgotten nothing; `None` if it never forgets what it acknowledged.
    ///
    /// A server that restarts with an empty memory grants a key that somebody still holds. A quorum does not count
    /// such a member until every lease that it may have forgotten has ended.
    pub remembers: Option<Duration>,
}

/// Which place of which engine's life: what a push must name to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The place's number. The claim's id alone is not enough: a place that expired and was taken anew has the
    /// same id and another number.
    pub seq: Seq,
    /// Which life of the engine drew it.
    pub incarnation: Incarnation,
}

/// One life of an engine: another one after a restart or a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

/// What is known about a claim that does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// The place it waits at; `None` if it left nothing behind (`Patience::Try`).
    pub seat: Option<Seat>,
    /// How long that place lives, counted from before the attempt left; `None` while its process does. A push that
    /// says it holds is good for no longer than this.
    pub ttl: Option<Duration>,
    /// How many places are ahead of it, where the engine knows.
    pub ahead: Option<u32>,
    /// The mode of the nearest place ahead that it cannot hold beside, where the engine knows.
    pub blocker: Option<Mode>,
    /// How long the first place ahead to end lives unless it is renewed: by then another attempt is worth it
    /// even if no news came. `None` where places end with their process or session.
    pub lapses_in: Option<Duration>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Something changed: attempt again.
    Again,
    /// The engine pushed the news that this seat holds. Believed only if it is the seat that the newest
    /// acknowledged attempt saw; the hold counts from that attempt, never from the push.
    Holds(Seat),
}

/// What an engine says to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The place is certain to live for so long, counted from before the request left; `None` while its process does.
    Renewed(Option<Duration>),
    /// There is no such place: it expired, was released or evicted. Final.
    Lost,
}

/// What an engine says to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Released {
    /// The claim had a place, held or waiting, and has none any more.
    Freed,
    /// The claim had no place. Nothing was touched.
    NotHeld,
}
