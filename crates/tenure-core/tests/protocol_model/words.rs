//! The words of the model: claims, seats, messages, and the rules that can be broken.

/// The lease of every place, in ticks.
pub(crate) const TTL: u8 = 2;

/// Ages stop here: whatever is older than its lease, and one tick for a rule that gets the end wrong, is alike.
/// So time has no horizon in this model, and still there are finitely many states.
pub(crate) const OLDEST: u8 = TTL + 1;

/// One wish of one client. A client that wishes again does so under another life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub(crate) client: u8,
    pub(crate) life: u8,
}

/// Which place of which engine's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    pub(crate) seq: u8,
    pub(crate) incarnation: u8,
}

/// What travels. A reply says which request (`n`, counted within a claim) it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Msg {
    Attempt {
        id: Id,
        n: u8,
    },
    Renew {
        id: Id,
        seq: u8,
        n: u8,
    },
    Release {
        id: Id,
        in_doubt: bool,
    },
    Granted {
        id: Id,
        seat: Seat,
        n: u8,
    },
    Busy {
        id: Id,
        seat: Seat,
        n: u8,
    },
    Renewed {
        id: Id,
        n: u8,
    },
    Lost {
        id: Id,
        n: u8,
    },
    /// The push: this seat holds.
    Holds {
        id: Id,
        seat: Seat,
    },
}

impl Msg {
    pub(crate) const fn id_mut(&mut self) -> &mut Id {
        match self {
            Self::Attempt { id, .. }
            | Self::Renew { id, .. }
            | Self::Release { id, .. }
            | Self::Granted { id, .. }
            | Self::Busy { id, .. }
            | Self::Renewed { id, .. }
            | Self::Lost { id, .. }
            | Self::Holds { id, .. } => id,
        }
    }

    pub(crate) const fn id(mut self) -> Id {
        *self.id_mut()
    }

    /// Travels to the engine.
    pub(crate) const fn is_request(&self) -> bool {
        matches!(self, Self::Attempt { .. } | Self::Renew { .. } | Self::Release { .. })
    }
}

/// The rules of the protocol. Each has a counterexample when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A renewal names the claim and the number of its place.
    RenewNamesTheNumber,
    /// A reply that is handled after the hold's deadline changes nothing.
    LateRepliesNeverRevive,
    /// A push is believed only if it names the number that the newest acknowledged attempt saw.
    PushNamesTheNumber,
    /// A push is believed only from the life of the engine that acknowledged that attempt.
    PushNamesTheIncarnation,
    /// A hold that begins with a push is counted from that attempt.
    PushCountsFromTheAttempt,
    /// A hold is counted from before the request left.
    CountFromSent,
    /// A place lives and a hold is safe while `now < deadline`, on both sides.
    HalfOpen,
    /// The number is drawn, and the line looked at, while nobody else can take a place.
    LockBeforeTheNumber,
    /// Once a release was sent, its claim id is never attempted again.
    OneLifePerId,
    /// The first verb on another life of the engine gives every place a whole lease.
    FailoverStartsLeasesAnew,
    /// A release that may overtake an attempt leaves a grave that refuses it.
    GraveForTheDoubtful,
    /// A waiter attempts again at bounded intervals, whatever it is told or not told.
    WaitersAskAgain,
    /// A place whose lease has ended is removed by whichever verb comes next.
    LeasesEnd,
}
