//! One client: it attempts, waits, holds, renews and lets go, one claim after the other.

use crate::{
    engine::Law,
    words::{Id, Msg, OLDEST, Rule, Seat, TTL},
};

/// Where the client is in the life of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// It has no claim.
    Out,
    /// It wants to hold. `acked` is the seat that its newest acknowledged attempt saw, with the age of that
    /// attempt, counted from before it left.
    Waits { acked: Option<(Seat, u8)> },
    /// It holds. The age is that of the request that the hold is counted from.
    Holds { seat: Seat, age: u8 },
}

/// A request without an answer: which, and how long ago it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Asked {
    pub(crate) n: u8,
    pub(crate) age: u8,
}

/// What a client knows. Whether a hold is still safe is derived from its age at every look, never stored: a
/// client that sleeps past its deadline has lost the hold before it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// How many lives have begun.
    pub(crate) lives: u8,
    pub(crate) attempts: u8,
    pub(crate) renewals: u8,
    pub(crate) asked: Option<Asked>,
    /// An attempt went unanswered, so it may still arrive.
    pub(crate) in_doubt: bool,
    pub(crate) crashed: bool,
    /// For how many ticks it has waited; counted only where waits are bounded.
    pub(crate) waited: u8,
}

impl Client {
    pub(crate) const NEW: Self = Self {
        phase: Phase::Out,
        lives: 0,
        attempts: 0,
        renewals: 0,
        asked: None,
        in_doubt: false,
        crashed: false,
        waited: 0,
    };

    pub(crate) fn id(&self, law: Law<'_>, client: u8) -> Id {
        let life = if law.keeps(Rule::OneLifePerId) { self.lives } else { 1 };
        Id { client, life }
    }

    /// The hold it believes in, if any.
    pub(crate) fn believes(&self, law: Law<'_>) -> Option<Seat> {
        match self.phase {
            Phase::Holds { seat, age } if Self::safe(law, age) => Some(seat),
            _ => None,
        }
    }

    fn safe(law: Law<'_>, age: u8) -> bool {
        age < TTL || (age == TTL && !law.keeps(Rule::HalfOpen))
    }

    /// Lets a tick pass.
    pub(crate) fn tick(&mut self) {
        let older = |age: &mut u8| *age = (*age + 1).min(OLDEST);
        match &mut self.phase {
            Phase::Waits { acked: Some((_, age)) } | Phase::Holds { age, .. } => older(age),
            Phase::Out | Phase::Waits { acked: None } => {}
        }
        if let Some(asked) = &mut self.asked {
            older(&mut asked.age);
        }
    }

    /// Sends an attempt: the first of a new life, or another one while it waits. At most one request is under
    /// way, so an earlier one without an answer is given up.
    pub(crate) fn attempt(&mut self, law: Law<'_>, client: u8, numbered: bool) -> Msg {
        if self.phase == Phase::Out {
            *self = Self { phase: Phase::Waits { acked: None }, lives: self.lives + 1, ..Self::NEW };
        }
        self.in_doubt |= self.asked.is_some();
        self.attempts += u8::from(numbered);
        let n = self.attempts + self.renewals;
        self.asked = Some(Asked { n, age: 0 });
        Msg::Attempt { id: self.id(law, client), n }
    }

    /// Sends a renewal of the hold, if it has one.
    pub(crate) fn renew(&mut self, law: Law<'_>, client: u8) -> Option<Msg> {
        let Phase::Holds { seat, .. } = self.phase else { return None };
        self.renewals += 1;
        let n = self.attempts + self.renewals;
        self.asked = Some(Asked { n, age: 0 });
        Some(Msg::Renew { id: self.id(law, client), seq: seat.seq, n })
    }

    /// Lets go of the hold, or gives up waiting; the same verb cleans up after both.
    pub(crate) fn leave(&mut self, law: Law<'_>, client: u8) -> Msg {
        let waits = matches!(self.phase, Phase::Waits { .. });
        let in_doubt = self.in_doubt || (waits && self.asked.is_some());
        let release = Msg::Release { id: self.id(law, client), in_doubt };
        self.end();
        release
    }

    fn end(&mut self) {
        *self = Self { lives: self.lives, crashed: self.crashed, ..Self::NEW };
    }

    /// Whether this message can still mean anything to the client. Whatever cannot is taken out of the
    /// network, which changes nothing but the number of states.
    pub(crate) fn cares(&self, law: Law<'_>, client: u8, msg: &Msg) -> bool {
        let (to, answers) = match *msg {
            Msg::Granted { id, n, .. }
            | Msg::Busy { id, n, .. }
            | Msg::Renewed { id, n }
            | Msg::Lost { id, n } => (id, self.asked.is_some_and(|asked| asked.n == n)),
            Msg::Holds { id, .. } => (id, matches!(self.phase, Phase::Waits { .. })),
            Msg::Attempt { .. } | Msg::Renew { .. } | Msg::Release { .. } => return true,
        };
        answers && !self.crashed && self.phase != Phase::Out && to == self.id(law, client)
    }

    /// Handles a message that it cares about.
    pub(crate) fn hear(&mut self, law: Law<'_>, msg: Msg) {
        if let Msg::Holds { seat, .. } = msg {
            return self.hear_push(law, seat);
        }
        let Some(Asked { age: since_sent, .. }) = self.asked.take() else { return };
        let since_sent = if law.keeps(Rule::CountFromSent) { since_sent } else { 0 };
        match (msg, self.phase) {
            (Msg::Granted { seat, .. }, Phase::Waits { .. }) => {
                // A grant that is as old as its lease is dead on arrival: attempt again.
                self.phase = if Self::safe(law, since_sent) {
                    Phase::Holds { seat, age: since_sent }
                } else {
                    Phase::Waits { acked: None }
                };
            }
            (Msg::Busy { seat, .. }, Phase::Waits { .. }) => {
                self.phase = Phase::Waits { acked: Some((seat, since_sent)) };
            }
            (Msg::Renewed { .. }, Phase::Holds { seat, age })
                if Self::safe(law, age) || !law.keeps(Rule::LateRepliesNeverRevive) =>
            {
                self.phase = Phase::Holds { seat, age: age.min(since_sent) };
            }
            (Msg::Lost { .. }, _) => self.end(),
            _ => {}
        }
    }

    /// Acts on a push if it names the seat that the newest acknowledged attempt saw, while that attempt's lease
    /// lasts. Otherwise it is no more than a hint.
    fn hear_push(&mut self, law: Law<'_>, pushed: Seat) {
        let Phase::Waits { acked: Some((seat, age)) } = self.phase else { return };
        let same_number = seat.seq == pushed.seq || !law.keeps(Rule::PushNamesTheNumber);
        let same_life = seat.incarnation == pushed.incarnation || !law.keeps(Rule::PushNamesTheIncarnation);
        if same_number && same_life && Self::safe(law, age) {
            let age = if law.keeps(Rule::PushCountsFromTheAttempt) { age } else { 0 };
            self.in_doubt |= self.asked.take().is_some();
            self.phase = Phase::Holds { seat, age };
        }
    }

    /// Moves to another life of the engine: what the old one acknowledged or still has to say is void.
    pub(crate) fn reconnect(&mut self) {
        if let Phase::Waits { acked } = &mut self.phase {
            *acked = None;
            self.in_doubt |= self.asked.is_some();
        }
        self.asked = None;
    }
}
