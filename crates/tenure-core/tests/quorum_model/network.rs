//! What the network does: it delivers what is under way, in any order, at any time, or never.

use crate::{
    client::Phase,
    model::{Action, State},
    words::{Heard, Law, Renewal, Verb},
};

/// A message, by who sent it to whom under which id. Members and clients are named by where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) member: usize,
    pub(crate) client: usize,
    pub(crate) id: usize,
}

impl<const C: usize, const M: usize> State<C, M> {
    /// Delivers a request, and its answer with it: whether and when that is read is for the client to say.
    pub(crate) fn deliver(&mut self, law: Law, route: Route, verb: Verb, keep: bool) {
        let Route { member, client, id } = route;
        let clients = &self.clients;
        let asker = clients[client];
        let member = &mut self.members[member];
        let mail = &mut member.slots[client].mail[id];
        let name = u8::try_from(id).expect("ids are few");
        match verb {
            Verb::Attempt => {
                let attempt = if keep { mail.attempt } else { mail.attempt.take() };
                let beside = |other: usize| asker.shared && clients[other].shared;
                let granted = attempt.and_then(|floor| member.attempt(law, client, name, floor, beside));
                let Some(seq) = granted else { return };
                let heard = &mut member.slots[client].heard;
                // The answer to a copy says the same, or comes when the round is spent.
                if asker.id == name && matches!(asker.phase, Phase::Asks { .. }) && *heard == Heard::Nothing {
                    *heard = Heard::Granted { seq };
                }
            }
            Verb::Renew => {
                let Some(Renewal { seq, floor }) = mail.renewal.take() else { return };
                let renewed = member.renew(law, client, name, seq, floor);
                let heard = &mut member.slots[client].heard;
                if let Heard::Behind { seq } = *heard
                    && renewed
                    && asker.id == name
                {
                    *heard = Heard::Stands { seq };
                }
            }
            Verb::Release => {
                mail.release = false;
                member.release(law, client, name);
            }
        }
    }

    /// All that can arrive next.
    pub(crate) fn deliveries(&self, actions: &mut Vec<Action>) {
        for (member, column) in self.members.iter().enumerate() {
            for (client, slot) in column.slots.iter().enumerate() {
                for (id, mail) in slot.mail.iter().enumerate() {
                    let route = Route { member, client, id };
                    if mail.attempt.is_some() {
                        actions.push(Action::Deliver(route, Verb::Attempt));
                        if self.copies > 0 {
                            actions.push(Action::DeliverAndKeep(route));
                        }
                    }
                    if mail.renewal.is_some() {
                        actions.push(Action::Deliver(route, Verb::Renew));
                    }
                    if mail.release {
                        actions.push(Action::Deliver(route, Verb::Release));
                    }
                }
            }
        }
    }

    /// All the ways in which a round can end when little may arrive after it.
    pub(crate) fn ends_at_once(&self, client: usize, actions: &mut Vec<Action>) {
        let id = self.clients[client].id;
        let mut late = vec![None];
        let mut places = 0_usize;
        for (which, slot) in self.members.iter().map(|member| &member.slots[client]).enumerate() {
            let mail = slot.mail[usize::from(id)];
            let place = slot.place.is_some_and(|place| place.id == id);
            places |= usize::from(place) << which;
            if self.late > 0 {
                late.extend(mail.attempt.map(|_| Some((which, Verb::Attempt))));
                late.extend(mail.renewal.map(|_| Some((which, Verb::Renew))));
                late.extend(place.then_some(Some((which, Verb::Release))));
            }
        }
        for freed in (0..1 << M).filter(|freed| freed & places == *freed) {
            actions.extend(late.iter().map(|&late| Action::EndAtOnce { client, freed, late }));
        }
    }
}
