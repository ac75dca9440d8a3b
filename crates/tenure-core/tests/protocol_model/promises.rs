//! What must always be true, and what must happen at least once for that to mean anything.

use stateright::Property;
use tenure_core::{Mode, line};

use crate::{
    client::Phase,
    model::{Ask, Pace, Setting, State},
    words::{Id, Msg},
};

pub(crate) const ONE_HOLDER: &str = "no two who conflict believe to hold";
pub(crate) const FENCES_RISE: &str = "a grant's fence is above every earlier one it conflicts with";
pub(crate) const NOT_OVERTAKEN: &str = "nobody who believes to hold has been overtaken";
pub(crate) const ONE_PLACE: &str = "one claim has at most one place";
pub(crate) const BOUNDED_WAIT: &str = "nobody who lives waits longer than the bound";
pub(crate) const TIME_GOES_ON: &str = "there is always a next step";

pub(crate) fn properties(setting: &Setting) -> Vec<Property<Setting>> {
    match setting.ask {
        Ask::Promises => {
            let mut promises = vec![
                Property::always(ONE_HOLDER, one_holder),
                Property::always(FENCES_RISE, |_, state: &State| !state.fence_fell),
                Property::always(NOT_OVERTAKEN, not_overtaken),
                Property::always(ONE_PLACE, one_place),
            ];
            if setting.pace != Pace::Free {
                promises.push(Property::always(BOUNDED_WAIT, bounded_wait));
                promises.push(Property::always(TIME_GOES_ON, time_goes_on));
            }
            promises
        }
        Ask::Witnesses if setting.roles.iter().any(|role| role.mode == Mode::Shared) => {
            vec![Property::sometimes("two hold beside each other", two_hold)]
        }
        Ask::Witnesses => vec![
            Property::sometimes("a push starts a hold", a_push_starts_a_hold),
            Property::sometimes("a hold is lost while its holder sleeps", a_hold_is_lost),
            Property::sometimes("a renewal is answered too late", a_renewal_is_late),
            Property::sometimes("a grave refuses an attempt", a_grave_refuses),
            Property::sometimes("a claim that was let go has a place", a_ghost_stands),
            Property::sometimes("a later place holds", a_later_place_holds),
        ],
    }
}

fn believes(setting: &Setting, state: &State, client: usize) -> bool {
    state.clients[client].believes(setting.law()).is_some()
}

fn one_holder(setting: &Setting, state: &State) -> bool {
    let holders: Vec<usize> =
        (0..state.clients.len()).filter(|&client| believes(setting, state, client)).collect();
    holders.iter().all(|&a| {
        holders.iter().all(|&b| a == b || line::compatible(setting.roles[a].mode, setting.roles[b].mode))
    })
}

/// Catches a hold that was lost and revived, even when whoever came between has gone again.
fn not_overtaken(setting: &Setting, state: &State) -> bool {
    let (exclusive, other) = state.granted;
    setting.roles.iter().zip(&state.clients).all(|(role, client)| {
        let overtaker = if role.mode == Mode::Exclusive { exclusive.max(other) } else { exclusive };
        client.believes(setting.law()).is_none_or(|seat| overtaker <= seat.seq)
    })
}

fn one_place(_: &Setting, state: &State) -> bool {
    let line = &state.engine.line;
    (0..line.len()).all(|at| line[at + 1..].iter().all(|place| place.id != line[at].id))
}

fn bounded_wait(setting: &Setting, state: &State) -> bool {
    let Pace::Prompt { longest_wait, .. } = setting.pace else { return true };
    state.clients.iter().all(|client| client.waited <= longest_wait)
}

/// Without this, a state in which nothing can happen would pass for one in which nobody waits.
fn time_goes_on(setting: &Setting, state: &State) -> bool {
    let mut actions = Vec::new();
    setting.steps(state, &mut actions);
    !actions.is_empty()
}

fn a_push_starts_a_hold(setting: &Setting, state: &State) -> bool {
    state.net.iter().filter(|msg| matches!(msg, Msg::Holds { .. })).any(|&push| {
        let mut client = state.clients[usize::from(push.id().client)];
        client.hear(setting.law(), push);
        client.believes(setting.law()).is_some()
    })
}

fn two_hold(setting: &Setting, state: &State) -> bool {
    (0..state.clients.len()).filter(|&client| believes(setting, state, client)).count() == 2
}

fn a_hold_is_lost(setting: &Setting, state: &State) -> bool {
    let holds = |client: usize| matches!(state.clients[client].phase, Phase::Holds { .. });
    (0..state.clients.len()).any(|client| holds(client) && !believes(setting, state, client))
}

fn a_renewal_is_late(setting: &Setting, state: &State) -> bool {
    let late = |msg: &Msg| {
        matches!(msg, Msg::Renewed { .. }) && !believes(setting, state, usize::from(msg.id().client))
    };
    state.net.iter().any(late)
}

fn a_grave_refuses(_: &Setting, state: &State) -> bool {
    let buried = |id: Id| state.engine.graves.iter().any(|&(buried, _)| buried == id);
    state.net.iter().any(|msg| matches!(msg, Msg::Attempt { .. }) && buried(msg.id()))
}

fn a_ghost_stands(setting: &Setting, state: &State) -> bool {
    state.engine.line.iter().any(|place| {
        let client = &state.clients[usize::from(place.id.client)];
        client.phase == Phase::Out || client.id(setting.law(), place.id.client) != place.id
    })
}

fn a_later_place_holds(setting: &Setting, state: &State) -> bool {
    let holds = |id: Id| believes(setting, state, usize::from(id.client));
    state.engine.line.iter().any(|place| place.seq > 1 && holds(place.id))
}
