//! What must always be true, and what must happen at least once for that to mean anything.

use stateright::Property;

use crate::{
    client::Phase,
    member::Member,
    model::{Ask, Setting, State},
    words::{Heard, TTL},
};

pub(crate) const ONE_HOLDER: &str = "no two who conflict believe to hold";
pub(crate) const FENCES_RISE: &str = "a grant's fence is above every earlier one it conflicts with";
pub(crate) const NOT_OVERTAKEN: &str = "nobody who believes to hold has been overtaken";
pub(crate) const BACKED: &str = "behind a hold is a majority with its place and a mark at its fence";
pub(crate) const QUARANTINE: &str = "a member in quarantine has no place";
pub(crate) const ONE_LIFE: &str = "no id is attempted after its release";

pub(crate) fn properties<const C: usize, const M: usize>(
    setting: &Setting<C, M>,
) -> Vec<Property<Setting<C, M>>> {
    match setting.ask {
        Ask::Promises => vec![
            Property::always(ONE_HOLDER, |_, state: &State<C, M>| state.one_holder()),
            Property::always(FENCES_RISE, |_, state: &State<C, M>| !state.fence_fell),
            Property::always(NOT_OVERTAKEN, |_, state: &State<C, M>| state.nobody_overtaken()),
            Property::always(BACKED, |_, state: &State<C, M>| state.backed()),
            Property::always(QUARANTINE, |_, state: &State<C, M>| state.quarantined_are_empty()),
            Property::always(ONE_LIFE, |_, state: &State<C, M>| !state.revenant),
            Property::sometimes("somebody holds", |_, state: &State<C, M>| state.holders().count() > 0),
        ],
        Ask::Witnesses if setting.restarts > 0 => {
            vec![
                Property::sometimes("a hold outlives a member's memory", |_, state: &State<C, M>| {
                    state.holders().count() > 0 && state.members.iter().any(|member| member.quarantine > 0)
                }),
                Property::sometimes("a write-back finds its place gone", |_, state: &State<C, M>| {
                    let gone = |at: usize| {
                        let behind =
                            |member: &Member<C>| matches!(member.slots[at].heard, Heard::Behind { .. });
                        state.members.iter().any(|member| behind(member) && member.slots[at].place.is_none())
                    };
                    (0..C).any(|at| state.writes(at) && gone(at))
                }),
            ]
        }
        Ask::Witnesses if setting.clients.iter().all(|client| client.shared) => {
            vec![Property::sometimes("two readers hold with one fence", |_, state: &State<C, M>| {
                state.holders().count() == 2 && state.holders().is_sorted_by(|(_, a), (_, b)| a == b)
            })]
        }
        Ask::Witnesses => vec![
            Property::sometimes("a majority agrees by itself", |_, state: &State<C, M>| state.some_agree()),
            Property::sometimes(
                "a write-back makes a grant",
                |setting: &Setting<C, M>, state: &State<C, M>| {
                    let written = |at| state.writes(at) && state.stands_at_the_fence(setting.law(), at);
                    (0..C).any(written)
                },
            ),
            Property::sometimes("a claim that was let go has a place", |_, state: &State<C, M>| {
                let ghost = |at: usize| state.members.iter().any(|member| member.slots[at].place.is_some());
                (0..C).any(|at| state.clients[at].phase == Phase::Out && ghost(at))
            }),
        ],
    }
}

impl<const C: usize, const M: usize> State<C, M> {
    /// Those who believe to hold, and their fences.
    fn holders(&self) -> impl Iterator<Item = (usize, u8)> {
        let believes = |(at, client): (usize, &crate::Client)| Some((at, client.believes()?));
        self.clients.iter().enumerate().filter_map(believes)
    }

    fn one_holder(&self) -> bool {
        self.holders().count() < 2 || self.holders().all(|(at, _)| self.clients[at].shared)
    }

    /// Catches a hold that was lost and revived, even when whoever came between has gone again.
    fn nobody_overtaken(&self) -> bool {
        let (exclusive, shared) = self.granted;
        let overtaker = |at: usize| if self.clients[at].shared { exclusive } else { exclusive.max(shared) };
        self.holders().all(|(at, fence)| overtaker(at) <= fence)
    }

    /// A member that has forgotten since it answered stands in for its place while it grants nothing to others.
    fn backed(&self) -> bool {
        self.holders().all(|(at, fence)| {
            let backs = |member: &&Member<C>| {
                let place = member.slots[at].place.is_some_and(|place| place.id == self.clients[at].id);
                (place && member.mark >= fence) || member.quarantine > 0
            };
            self.members.iter().filter(backs).count() > M / 2
        })
    }

    /// What a member had before it forgot is gone, so whatever place it has was taken in quarantine.
    fn quarantined_are_empty(&self) -> bool {
        let empty = |member: &Member<C>| member.slots.iter().all(|slot| slot.place.is_none());
        self.members.iter().all(|member| member.quarantine == 0 || empty(member))
    }

    fn writes(&self, at: usize) -> bool {
        matches!(self.clients[at].phase, Phase::Writes { age, .. } if age < TTL)
    }

    fn some_agree(&self) -> bool {
        let number = |member: &Member<C>, at: usize| match member.slots[at].heard {
            Heard::Granted { seq } => Some(seq),
            Heard::Nothing | Heard::Behind { .. } | Heard::Stands { .. } => None,
        };
        let at_one = |at: usize, seq: u8| self.members.iter().filter(|m| number(m, at) == Some(seq)).count();
        (0..C).any(|at| self.members.iter().filter_map(|m| number(m, at)).any(|seq| at_one(at, seq) > M / 2))
    }
}
