//! One engine with one key: a line, the last number drawn, and graves.

use tenure_core::{Mode, line};

use crate::words::{Id, Msg, OLDEST, Rule, Seat, TTL};

/// A place in the line. Its age is counted from the last attempt or renewal that reached the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) id: Id,
    pub(crate) seq: u8,
    pub(crate) age: u8,
}

/// An attempt that looked at the line and has not taken its place yet. Exists only where the number is drawn
/// before the line is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Draft {
    pub(crate) id: Id,
    pub(crate) seq: u8,
    pub(crate) holds: bool,
    pub(crate) n: u8,
}

/// What the engine keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Engine {
    pub(crate) incarnation: u8,
    pub(crate) line: Vec<Place>,
    pub(crate) last: u8,
    /// Claims whose attempts are refused, with the age of each grave.
    pub(crate) graves: Vec<(Id, u8)>,
    pub(crate) drafts: Vec<Draft>,
}

/// What a client is there for: how it wishes to hold, how many claims it makes, one after the other, and how
/// often a claim is attempted, and a hold renewed, at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) mode: Mode,
    pub(crate) lives: u8,
    pub(crate) attempts: u8,
    pub(crate) renewals: u8,
}

/// What every verb needs to know: the roles of the clients and the rules that are broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Law<'a> {
    pub(crate) roles: &'a [Role],
    pub(crate) broken: &'a [Rule],
}

impl Law<'_> {
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        !self.broken.contains(&rule)
    }

    pub(crate) fn mode(&self, id: Id) -> Mode {
        self.roles[usize::from(id.client)].mode
    }
}

impl Engine {
    /// Lets a tick pass.
    pub(crate) fn tick(&mut self) {
        for place in &mut self.line {
            place.age = (place.age + 1).min(OLDEST);
        }
        for (_, age) in &mut self.graves {
            *age += 1;
        }
        self.graves.retain(|&(_, age)| age < TTL);
    }

    /// Handles a request in one atomic step: expired places go first, the verb is done, the claim is answered,
    /// and if any place left, all others who hold are told.
    pub(crate) fn handle(&mut self, law: Law<'_>, request: Msg, out: &mut Vec<Msg>) {
        let mut left = self.purge(law);
        let asker = match request {
            Msg::Attempt { id, n } => {
                self.attempt(law, id, n, out);
                id
            }
            Msg::Renew { id, seq, n } => {
                let named = |place: &&mut Place| {
                    place.id == id && (place.seq == seq || !law.keeps(Rule::RenewNamesTheNumber))
                };
                out.push(match self.line.iter_mut().find(named) {
                    Some(place) => {
                        place.age = 0;
                        Msg::Renewed { id, n }
                    }
                    None => Msg::Lost { id, n },
                });
                id
            }
            Msg::Release { id, in_doubt } => {
                let before = self.line.len();
                self.line.retain(|place| place.id != id);
                left |= self.line.len() < before;
                if in_doubt && law.keeps(Rule::GraveForTheDoubtful) {
                    self.graves.retain(|&(buried, _)| buried != id);
                    self.graves.push((id, 0));
                    self.graves.sort_unstable();
                }
                id
            }
            reply => unreachable!("{reply:?} is not a request"),
        };
        if left {
            self.push(law, Some(asker), out);
        }
    }

    /// Removes what has expired and tells those who now hold: what any verb of anybody does first.
    pub(crate) fn purge_and_push(&mut self, law: Law<'_>, out: &mut Vec<Msg>) {
        if self.purge(law) {
            self.push(law, None, out);
        }
    }

    fn purge(&mut self, law: Law<'_>) -> bool {
        let before = self.line.len();
        if law.keeps(Rule::LeasesEnd) {
            self.line.retain(|place| place.age < TTL);
        }
        self.line.len() < before
    }

    fn attempt(&mut self, law: Law<'_>, id: Id, n: u8, out: &mut Vec<Msg>) {
        if self.graves.iter().any(|&(buried, _)| buried == id) {
            return;
        }
        if let Some(place) = self.line.iter_mut().find(|place| place.id == id) {
            place.age = 0;
        } else if law.keeps(Rule::LockBeforeTheNumber) {
            self.last += 1;
            self.line.push(Place { id, seq: self.last, age: 0 });
        } else {
            self.last += 1;
            let ahead = self.line.iter().map(|place| law.mode(place.id));
            let holds = line::would_hold(ahead, law.mode(id));
            self.drafts.push(Draft { id, seq: self.last, holds, n });
            return;
        }
        out.push(self.answer(law, id, n));
    }

    /// The second half of an attempt that did not lock the line: takes the place and says what was seen before.
    pub(crate) fn commit(&mut self, at: usize, out: &mut Vec<Msg>) {
        let Draft { id, seq, holds, n } = self.drafts.remove(at);
        if self.line.iter().any(|place| place.id == id) {
            return;
        }
        self.line.push(Place { id, seq, age: 0 });
        self.line.sort_unstable_by_key(|place| place.seq);
        let seat = Seat { seq, incarnation: self.incarnation };
        out.push(if holds { Msg::Granted { id, seat, n } } else { Msg::Busy { id, seat, n } });
    }

    fn answer(&self, law: Law<'_>, id: Id, n: u8) -> Msg {
        let at = self.line.iter().position(|place| place.id == id).expect("the claim has a place");
        let seat = Seat { seq: self.line[at].seq, incarnation: self.incarnation };
        if at < self.holders(law) { Msg::Granted { id, seat, n } } else { Msg::Busy { id, seat, n } }
    }

    fn push(&self, law: Law<'_>, but: Option<Id>, out: &mut Vec<Msg>) {
        for place in self.line.iter().take(self.holders(law)).filter(|place| Some(place.id) != but) {
            let seat = Seat { seq: place.seq, incarnation: self.incarnation };
            out.push(Msg::Holds { id: place.id, seat });
        }
    }

    /// The line rule itself, from the crate.
    fn holders(&self, law: Law<'_>) -> usize {
        line::holders(self.line.iter().map(|place| law.mode(place.id)))
    }

    /// Another life of this engine, on another machine, with everything that was replicated. Its clock is a
    /// tick ahead, which takes a tick from every lease unless leases start anew.
    pub(crate) fn fail_over(&self, law: Law<'_>) -> Self {
        let mut next = self.clone();
        next.incarnation += 1;
        if law.keeps(Rule::FailoverStartsLeasesAnew) {
            next.line.iter_mut().for_each(|place| place.age = 0);
        } else {
            next.tick();
        }
        next
    }
}
