//! The words of the model: what travels, what a client has heard, and the rules that can be broken.

/// The lease of every place, in ticks.
pub(crate) const TTL: u8 = 2;

/// How many ids one client uses at most.
pub(crate) const IDS: usize = 2;

/// A renewal under way: it names the place by its number and carries a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Renewal {
    pub(crate) seq: u8,
    pub(crate) floor: u8,
}

/// What is under way from one client to one member under one id. Whatever stays there for ever was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mail {
    /// An attempt, with the floor it proposes.
    pub(crate) attempt: Option<u8>,
    pub(crate) renewal: Option<Renewal>,
    pub(crate) release: bool,
}

/// Which of the requests in a [`Mail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Attempt,
    Renew,
    Release,
}

/// What a client has from one member in its round.
///
/// An answer that is not read yet is the same as one that is still on its way, so answers have no mail of their
/// own: the client reads them when it counts, those it likes, and the others come too late or never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Heard {
    /// Nothing that could still count: no answer, `Busy`, `Lost`.
    #[default]
    Nothing,
    /// It granted a place with this number; not counted yet.
    Granted { seq: u8 },
    /// Counted. It has not said yet that it stands at the fence.
    Behind { seq: u8 },
    /// Counted. It stands at the fence: it drew that number, or was raised to it.
    Stands { seq: u8 },
}

/// The rules of the quorum. Each has a counterexample when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// More than half of the members make a grant.
    Majority,
    /// A grant counts once a majority stands at its fence; those who do not are raised first.
    WriteBack,
    /// A hold is counted from before the first attempt of its round left.
    CountFromTheAttempts,
    /// Whether the hold is still safe is asked again after the write-back.
    AskAgain,
    /// Every round has an id of its own.
    OneLifePerId,
    /// A member's mark outlives the places it was drawn for.
    MarkOutlivesThePlace,
    /// A member that may have forgotten grants nothing for a while.
    Quarantine,
    /// And for no tick less than that.
    WholeQuarantine,
    /// A renewal names the claim and the number of its place.
    RenewNamesTheNumber,
    /// An answer that is handled after the hold's deadline changes nothing.
    LateRepliesNeverRevive,
}

/// The rules that are broken, and what follows from that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law {
    pub(crate) broken: &'static [Rule],
}

impl Law {
    pub(crate) fn keeps(self, rule: Rule) -> bool {
        !self.broken.contains(&rule)
    }

    /// How many of the last ticks of a quarantine a member does not serve.
    pub(crate) fn let_off(self) -> u8 {
        match (self.keeps(Rule::Quarantine), self.keeps(Rule::WholeQuarantine)) {
            (false, _) => u8::MAX,
            (true, false) => 1,
            (true, true) => 0,
        }
    }

    pub(crate) fn mark_after_a_place(self, mark: u8) -> u8 {
        if self.keeps(Rule::MarkOutlivesThePlace) { mark } else { 0 }
    }

    pub(crate) fn majority(self, members: usize) -> usize {
        members / 2 + usize::from(self.keeps(Rule::Majority))
    }
}
