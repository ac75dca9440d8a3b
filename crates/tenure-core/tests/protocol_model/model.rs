//! The whole: clients, a network that may do anything, one engine and perhaps its predecessor.

use stateright::{Model, Property, Representative};
use tenure_core::Mode;

use crate::{
    client::{Client, Phase},
    engine::{Engine, Law, Role},
    promises,
    words::{Id, Msg, Rule, Seat, TTL},
};

/// A setting: who takes part, how often, what may go wrong, and which rules are broken.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) roles: Vec<Role>,
    /// How many messages may be delivered once more, at any later time.
    pub(crate) copies: u8,
    /// Whether the engine may once be replaced by another life of itself.
    pub(crate) failover: bool,
    pub(crate) pace: Pace,
    pub(crate) broken: &'static [Rule],
    /// Which properties are looked at.
    pub(crate) ask: Ask,
}

/// How fast things happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Anything may take any time. A message that is lost is one that never arrives, and a client that crashed
    /// is one that takes no further step, so neither needs an action of its own. Good for safety.
    Free,
    /// Between two ticks every message arrives or is lost, every waiter attempts once, and nobody holds for
    /// longer than a lease; so many messages are lost and so many clients crash. Good for waits: nobody who
    /// lives may wait for more than so many ticks.
    Prompt { losses: u8, crashes: u8, longest_wait: u8 },
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) engine: Engine,
    /// The engine's former life, cut off from all requests, still able to push.
    pub(crate) zombie: Option<Engine>,
    pub(crate) clients: Vec<Client>,
    /// What travels, sorted. What is never taken out was lost.
    pub(crate) net: Vec<Msg>,
    pub(crate) copies: u8,
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    /// The largest number a client has started with, by exclusive and by other claims.
    pub(crate) granted: (u8, u8),
    /// A client started with a smaller number than one before it that it conflicts with.
    pub(crate) fence_fell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Attempt(u8),
    Renew(u8),
    Leave(u8),
    Deliver(Msg),
    DeliverAndKeep(Msg),
    Lose(Msg),
    Crash(u8),
    FailOver,
    ZombiePurges,
    Commit(u8),
}

impl Setting {
    pub(crate) fn law(&self) -> Law<'_> {
        Law { roles: &self.roles, broken: self.broken }
    }

    fn prompt(&self) -> bool {
        self.pace != Pace::Free
    }

    fn may_attempt(&self, role: Role, client: &Client) -> bool {
        match client.phase {
            Phase::Out => client.lives < role.lives,
            Phase::Waits { .. } if self.prompt() => !self.settled(client),
            Phase::Waits { .. } => client.attempts < role.attempts,
            Phase::Holds { .. } => false,
        }
    }

    /// Whether the client has done in this tick what a prompt client does.
    fn settled(&self, client: &Client) -> bool {
        let asked = client.asked.is_some_and(|asked| asked.age == 0);
        client.crashed
            || match client.phase {
                Phase::Out => true,
                Phase::Waits { acked } => {
                    asked
                        || acked.is_some_and(|(_, age)| age == 0 || !self.law().keeps(Rule::WaitersAskAgain))
                }
                Phase::Holds { age, .. } => age + 1 < TTL,
            }
    }

    fn may_tick(&self, state: &State) -> bool {
        !self.prompt() || (state.net.is_empty() && state.clients.iter().all(|client| self.settled(client)))
    }

    /// Delivers a message to whom it is for, and notes a grant if it makes one.
    fn deliver(&self, state: &mut State, msg: Msg) {
        if msg.is_request() {
            state.engine.handle(self.law(), msg, &mut state.net);
            return;
        }
        let to = usize::from(msg.id().client);
        let held = matches!(state.clients[to].phase, Phase::Holds { .. });
        state.clients[to].hear(self.law(), msg);
        if let Phase::Holds { seat, .. } = state.clients[to].phase
            && !held
        {
            note_grant(state, self.roles[to].mode, seat);
        }
    }

    fn fail_over(&self, state: &mut State) {
        let next = state.engine.fail_over(self.law());
        state.zombie = Some(std::mem::replace(&mut state.engine, next));
        state.clients.iter_mut().for_each(Client::reconnect);
        state.net.retain(|msg| matches!(msg, Msg::Holds { .. }));
    }

    /// Brings the state into its one normal form.
    fn normalise(&self, state: &mut State) {
        let State { net, clients, .. } = state;
        net.retain(|msg| {
            let client = msg.id().client;
            clients[usize::from(client)].cares(self.law(), client, msg)
        });
        net.sort_unstable();
        net.dedup();
        state.zombie.take_if(|zombie| zombie.line.is_empty());
    }

    /// Everything that can happen next.
    pub(crate) fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, client) in (0..).zip(&state.clients).filter(|(_, client)| !client.crashed) {
            let role = self.roles[usize::from(at)];
            if self.may_attempt(role, client) {
                actions.push(Action::Attempt(at));
            }
            if client.phase != Phase::Out {
                actions.push(Action::Leave(at));
            }
            if matches!(client.phase, Phase::Holds { .. }) && client.renewals < role.renewals {
                actions.push(Action::Renew(at));
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(at));
            }
        }
        for &msg in &state.net {
            actions.push(Action::Deliver(msg));
            // A second copy of a reply means nothing: its request has been answered.
            if state.copies > 0 && (msg.is_request() || matches!(msg, Msg::Holds { .. })) {
                actions.push(Action::DeliverAndKeep(msg));
            }
            if state.losses > 0 {
                actions.push(Action::Lose(msg));
            }
        }
        actions.extend((0..).zip(&state.engine.drafts).map(|(at, _)| Action::Commit(at)));
        if self.failover && state.engine.incarnation == 0 {
            actions.push(Action::FailOver);
        }
        if state.zombie.as_ref().is_some_and(|zombie| zombie.line.iter().any(|place| place.age >= TTL)) {
            actions.push(Action::ZombiePurges);
        }
        if self.may_tick(state) {
            actions.push(Action::Tick);
        }
    }
}

fn note_grant(state: &mut State, mode: Mode, seat: Seat) {
    let (exclusive, other) = &mut state.granted;
    if mode == Mode::Exclusive {
        state.fence_fell |= seat.seq <= (*exclusive).max(*other);
        *exclusive = seat.seq.max(*exclusive);
    } else {
        state.fence_fell |= seat.seq <= *exclusive;
        *other = seat.seq.max(*other);
    }
}

impl Model for Setting {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (losses, crashes) = match self.pace {
            Pace::Free => (0, 0),
            Pace::Prompt { losses, crashes, .. } => (losses, crashes),
        };
        vec![State {
            engine: Engine::default(),
            zombie: None,
            clients: vec![Client::NEW; self.roles.len()],
            net: Vec::new(),
            copies: self.copies,
            losses,
            crashes,
            granted: (0, 0),
            fence_fell: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.steps(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let law = self.law();
        let mut state = last.clone();
        match action {
            Action::Tick => {
                state.engine.tick();
                state.zombie.iter_mut().for_each(Engine::tick);
                state.clients.iter_mut().for_each(Client::tick);
                if let Pace::Prompt { longest_wait, .. } = self.pace {
                    for client in state.clients.iter_mut().filter(|client| !client.crashed) {
                        if let Phase::Waits { .. } = client.phase {
                            client.waited = (client.waited + 1).min(longest_wait + 1);
                        }
                    }
                }
            }
            Action::Attempt(at) => {
                let numbered = !self.prompt();
                let attempt = state.clients[usize::from(at)].attempt(law, at, numbered);
                state.net.push(attempt);
            }
            Action::Renew(at) => {
                let renewal = state.clients[usize::from(at)].renew(law, at)?;
                state.net.push(renewal);
            }
            Action::Leave(at) => {
                let release = state.clients[usize::from(at)].leave(law, at);
                state.net.push(release);
            }
            Action::Deliver(msg) => {
                state.net.retain(|other| *other != msg);
                self.deliver(&mut state, msg);
            }
            Action::DeliverAndKeep(msg) => {
                state.copies -= 1;
                self.deliver(&mut state, msg);
            }
            Action::Lose(msg) => {
                state.losses -= 1;
                state.net.retain(|other| *other != msg);
            }
            Action::Crash(at) => {
                state.crashes -= 1;
                state.clients[usize::from(at)].crashed = true;
            }
            Action::FailOver => self.fail_over(&mut state),
            Action::ZombiePurges => {
                let State { zombie, net, .. } = &mut state;
                zombie.as_mut()?.purge_and_push(law, net);
            }
            Action::Commit(at) => state.engine.commit(usize::from(at), &mut state.net),
        }
        self.normalise(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        promises::properties(self)
    }
}

/// Clients of one role are alike: states that differ only in which of them is which are one.
impl Representative for State {
    fn representative(&self) -> Self {
        let mut order: Vec<u8> = (0..).zip(&self.clients).map(|(at, _)| at).collect();
        order.sort_by_cached_key(|&at| {
            let places: Vec<_> = self.engine.line.iter().filter(|place| place.id.client == at).collect();
            (self.clients[usize::from(at)], places.iter().map(|place| place.seq).collect::<Vec<_>>())
        });
        let mut state = self.clone();
        let rename = |id: &mut Id| {
            id.client = (0..).zip(&order).find(|&(_, &was)| was == id.client).expect("a client").0;
        };
        state.clients = order.iter().map(|&at| self.clients[usize::from(at)]).collect();
        state.net.iter_mut().for_each(|msg| rename(msg.id_mut()));
        state.net.sort_unstable();
        for engine in [Some(&mut state.engine), state.zombie.as_mut()].into_iter().flatten() {
            engine.line.iter_mut().for_each(|place| rename(&mut place.id));
            engine.graves.iter_mut().for_each(|(id, _)| rename(id));
            engine.graves.sort_unstable();
            engine.drafts.iter_mut().for_each(|draft| rename(&mut draft.id));
        }
        state
    }
}
