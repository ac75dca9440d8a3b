//! One client: a round of attempts, a count, a write-back, a hold, a renewal, an end.

use crate::words::TTL;

/// Where the client is in its round. Ages are those of the oldest request that the hold is or will be counted
/// from, taken before it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// It has no round.
    Out,
    /// It has asked all members.
    Asks { age: u8 },
    /// It has counted a majority, and raises to `fence` those who are not there.
    Writes { fence: u8, age: u8 },
    /// It holds. `renewing` is the age of a renewal under way.
    Holds { fence: u8, age: u8, renewing: Option<u8> },
    /// Too much time has passed: nothing can come of the round but its end.
    Spent,
}

/// What a client is there for, and what it has left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Client {
    pub(crate) shared: bool,
    /// How many more rounds it may begin.
    pub(crate) rounds: u8,
    /// How many more renewals it may send.
    pub(crate) renewals: u8,
    /// The id of its round, or of the next.
    pub(crate) id: u8,
    /// Whether a release of that id was sent.
    pub(crate) released: bool,
    pub(crate) phase: Phase,
}

impl Client {
    pub(crate) const fn new(rounds: u8, renewals: u8) -> Self {
        Self { shared: false, rounds, renewals, id: 0, released: false, phase: Phase::Out }
    }

    pub(crate) const fn reader(rounds: u8) -> Self {
        Self { shared: true, ..Self::new(rounds, 0) }
    }

    /// The fence of the hold that it believes in, if any. Derived at every look, never stored: a client that
    /// sleeps past its deadline has lost the hold before it wakes.
    pub(crate) fn believes(&self) -> Option<u8> {
        match self.phase {
            Phase::Holds { fence, age, .. } if age < TTL => Some(fence),
            _ => None,
        }
    }

    /// Lets a tick pass.
    pub(crate) fn tick(&mut self) {
        let older = |age: &mut u8| *age = (*age + 1).min(TTL);
        match &mut self.phase {
            Phase::Asks { age } | Phase::Writes { age, .. } => older(age),
            Phase::Holds { age, renewing, .. } => {
                older(age);
                renewing.iter_mut().for_each(older);
            }
            Phase::Out | Phase::Spent => {}
        }
    }
}
