//! The whole: `C` clients, `M` members, and a network that may do anything.

use stateright::{Model, Property};

use crate::{
    client::{Client, Phase},
    member::{Member, Slot},
    network::Route,
    promises,
    words::{Law, Rule, Verb},
};

/// The members' clocks. Without them numbers are only counted up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks<const M: usize> {
    /// How many numbers pass in a tick.
    pub(crate) pace: u8,
    /// How far each is ahead of the slowest, in numbers.
    pub(crate) skews: [u8; M],
    /// The last tick. Numbers that follow a clock never come to an end, so time must.
    pub(crate) horizon: u8,
}

/// A setting: who takes part, what may go wrong, and which rules are broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<const C: usize, const M: usize> {
    pub(crate) clients: [Client; C],
    pub(crate) clocks: Option<Clocks<M>>,
    /// The floors that a client may propose with its attempts, whichever it likes: so much ahead of the slowest
    /// clock, or of zero where there are none.
    pub(crate) floors: &'static [u8],
    /// How many attempts may be delivered once more, at any later time.
    pub(crate) copies: u8,
    /// How many messages of a round may arrive after its end, the rest in that moment or never; `None` if all.
    pub(crate) late: Option<u8>,
    /// How many times a member may restart and forget everything.
    pub(crate) restarts: u8,
    /// For how many ticks it ought to grant nothing then.
    pub(crate) quarantine: u8,
    pub(crate) broken: &'static [Rule],
    /// Which properties are looked at.
    pub(crate) ask: Ask,
}

/// Which properties are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// What must always be true.
    Promises,
    /// What must happen in some run, so that the promises are not kept for want of anything happening.
    Witnesses,
}

/// Everything, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const C: usize, const M: usize> {
    pub(crate) members: [Member<C>; M],
    pub(crate) clients: [Client; C],
    /// Ticks passed, where there are clocks.
    pub(crate) clock: u8,
    pub(crate) copies: u8,
    pub(crate) late: u8,
    pub(crate) restarts: u8,
    /// The largest fence a client has started with, by exclusive and by shared claims.
    pub(crate) granted: (u8, u8),
    /// A client started with a fence that is not above one before it that it conflicts with.
    pub(crate) fence_fell: bool,
    /// An id was attempted after its release.
    pub(crate) revenant: bool,
}

/// A step. Clients and members are named by where they stand in the state before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// A client asks all members, proposing a floor.
    Start {
        client: usize,
        floor: u8,
    },
    /// A client reads the answers of these members (a bit each) and counts them.
    Count {
        client: usize,
        members: usize,
    },
    /// A client sees that a majority stands at the fence, after a write-back or a renewal.
    Confirm {
        client: usize,
    },
    Renew {
        client: usize,
    },
    /// A client gives up or lets go. All that is under way stays so.
    End {
        client: usize,
    },
    /// The same where little may arrive late: the releases to these members (a bit each) do at once.
    EndAtOnce {
        client: usize,
        freed: usize,
        late: Option<(usize, Verb)>,
    },
    Deliver(Route, Verb),
    /// An attempt arrives, and a copy of it will later.
    DeliverAndKeep(Route),
    /// A member forgets everything.
    Restart {
        member: usize,
    },
}

impl<const C: usize, const M: usize> Setting<C, M> {
    pub(crate) fn law(&self) -> Law {
        Law { broken: self.broken }
    }

    fn steps_of(&self, state: &State<C, M>, client: usize, actions: &mut Vec<Action>) {
        let &Client { phase, rounds, renewals, .. } = &state.clients[client];
        match phase {
            Phase::Out if rounds > 0 => {
                actions.extend(self.floors.iter().map(|&floor| Action::Start { client, floor }));
            }
            Phase::Asks { .. } => {
                let answers = state.answers(client);
                let subsets = (1_usize..1 << M).filter(|subset| subset & answers == *subset);
                let enough = subsets.filter(|set| set.count_ones() as usize >= self.law().majority(M));
                actions.extend(enough.map(|members| Action::Count { client, members }));
            }
            Phase::Writes { .. } | Phase::Holds { renewing: Some(_), .. } => {
                if state.stands_at_the_fence(self.law(), client) {
                    actions.push(Action::Confirm { client });
                }
            }
            Phase::Holds { renewing: None, .. } if renewals > 0 => actions.push(Action::Renew { client }),
            Phase::Holds { .. } | Phase::Out | Phase::Spent => {}
        }
        if phase != Phase::Out {
            match self.late {
                None => actions.push(Action::End { client }),
                Some(_) => state.ends_at_once(client, actions),
            }
        }
    }
}

impl<const C: usize, const M: usize> Model for Setting<C, M> {
    type State = State<C, M>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let member = |at: usize| Member {
            skew: self.clocks.map_or(0, |clocks| clocks.skews[at]),
            mark: 0,
            quarantine: 0,
            slots: [Slot::default(); C],
        };
        let mut state = State {
            members: std::array::from_fn(member),
            clients: self.clients,
            clock: u8::from(self.clocks.is_some()),
            copies: self.copies,
            late: self.late.unwrap_or(0),
            restarts: self.restarts,
            granted: (0, 0),
            fence_fell: false,
            revenant: false,
        };
        state.normalise(self.law(), self.clocks);
        vec![state]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        // Once nobody can hold any more, whatever else happens matters to nobody.
        let done = |client: &Client| client.rounds == 0 && matches!(client.phase, Phase::Out | Phase::Spent);
        if state.clients.iter().all(done) {
            return;
        }
        (0..C).for_each(|client| self.steps_of(state, client, actions));
        state.deliveries(actions);
        if state.restarts > 0 {
            actions.extend((0..M).map(|member| Action::Restart { member }));
        }
        if self.clocks.is_none_or(|clocks| state.clock < clocks.horizon) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &Self::State, action: Action) -> Option<Self::State> {
        let law = self.law();
        let mut state = *last;
        match action {
            Action::Tick => {
                state.clock += u8::from(self.clocks.is_some());
                state.members.iter_mut().for_each(|member| member.tick(law));
                state.clients.iter_mut().for_each(Client::tick);
            }
            Action::Start { client, floor } => {
                let now = self.clocks.map_or(0, |clocks| state.clock * clocks.pace);
                state.start(client, now + floor);
            }
            Action::Count { client, members } => state.count(law, client, members)?,
            Action::Confirm { client } => state.confirm(client)?,
            Action::Renew { client } => state.renew(client)?,
            Action::End { client } => state.end(law, client),
            Action::EndAtOnce { client, freed, late } => state.end_at_once(law, client, freed, late),
            Action::Deliver(route, verb) => state.deliver(law, route, verb, false),
            Action::DeliverAndKeep(route) => {
                state.copies -= 1;
                state.deliver(law, route, Verb::Attempt, true);
            }
            Action::Restart { member } => {
                state.restarts -= 1;
                state.members[member].restart(self.quarantine);
            }
        }
        state.normalise(law, self.clocks);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties(self)
    }
}
