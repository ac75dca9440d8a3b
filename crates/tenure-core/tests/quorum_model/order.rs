//! One form for states that are alike, so that they are searched once.

use crate::{
    client::{Client, Phase},
    model::{Clocks, State},
    words::{Heard, Law, Rule, TTL},
};

impl<const C: usize, const M: usize> State<C, M> {
    /// Forgets what nothing depends on, brings every mark up to its member's clock, and puts clients and members
    /// in order.
    pub(crate) fn normalise(&mut self, law: Law, clocks: Option<Clocks<M>>) {
        for (at, client) in self.clients.iter_mut().enumerate() {
            let spent = match client.phase {
                Phase::Asks { age } => age >= TTL,
                Phase::Writes { age, .. } => age >= TTL && law.keeps(Rule::AskAgain),
                Phase::Holds { age, .. } => age >= TTL && law.keeps(Rule::LateRepliesNeverRevive),
                Phase::Out | Phase::Spent => false,
            };
            if spent {
                client.phase = Phase::Spent;
            }
            let reads = match client.phase {
                Phase::Asks { .. } | Phase::Writes { .. } => true,
                Phase::Holds { renewing, .. } => client.renewals > 0 || renewing.is_some(),
                Phase::Out | Phase::Spent => false,
            };
            if !reads {
                self.members.iter_mut().for_each(|member| member.slots[at].heard = Heard::Nothing);
            }
        }
        for member in &mut self.members {
            member.sweep(law);
            if let Some(clocks) = &clocks {
                let passed = (self.clock * clocks.pace + member.skew).saturating_sub(1);
                member.mark = member.mark.max(passed);
            }
        }
        self.sort();
    }

    /// The smallest of the states that differ from this one only in which of the clients and which of the
    /// members is which. Neither has a name: what tells them apart (a mode, a skew) is part of what is compared.
    fn sort(&mut self) {
        const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        const { assert!(C <= 3, "more clients have more orders") };
        let orders = ORDERS.iter().filter(|order| order[C..] == ORDERS[0][C..]);
        let sorted = orders.filter_map(|order| {
            let clients: [Client; C] = std::array::from_fn(|at| self.clients[order[at]]);
            if !clients.is_sorted() {
                return None;
            }
            let mut members = self.members;
            for member in &mut members {
                let slots = member.slots;
                member.slots = std::array::from_fn(|at| slots[order[at]]);
            }
            members.sort_unstable();
            Some((members, clients))
        });
        (self.members, self.clients) = sorted.min().expect("some order is sorted");
    }
}
