//! The steps of a client's round, from its attempts to its end.

use crate::{
    client::Phase,
    member::{Member, Slot},
    model::State,
    words::{Heard, Law, Renewal, Rule, Verb},
};

impl<const C: usize, const M: usize> State<C, M> {
    /// Asks all members at once.
    pub(crate) fn start(&mut self, at: usize, floor: u8) {
        let client = &mut self.clients[at];
        self.revenant |= client.released;
        client.rounds -= 1;
        client.phase = Phase::Asks { age: 0 };
        for member in &mut self.members {
            member.slots[at].mail[usize::from(client.id)].attempt = Some(floor);
        }
    }

    /// The members, a bit each, whose grants the client could count.
    pub(crate) fn answers(&self, at: usize) -> usize {
        let granted = |member: &Member<C>| matches!(member.slots[at].heard, Heard::Granted { .. });
        self.members
            .iter()
            .enumerate()
            .fold(0, |bits, (which, member)| bits | usize::from(granted(member)) << which)
    }

    pub(crate) fn stands_at_the_fence(&self, law: Law, at: usize) -> bool {
        let stands = |member: &&Member<C>| matches!(member.slots[at].heard, Heard::Stands { .. });
        self.members.iter().filter(stands).count() >= law.majority(M)
    }

    /// Reads these grants. The fence is the largest number among them; where no majority stands there, the
    /// others are raised before the grant counts.
    pub(crate) fn count(&mut self, law: Law, at: usize, counted: usize) -> Option<()> {
        let Phase::Asks { age } = self.clients[at].phase else { return None };
        for (which, member) in self.members.iter_mut().enumerate() {
            if counted >> which & 1 == 0 {
                member.slots[at].heard = Heard::Nothing;
            }
        }
        let number = |member: &Member<C>| match member.slots[at].heard {
            Heard::Granted { seq } => Some(seq),
            _ => None,
        };
        let fence = self.members.iter().filter_map(number).max()?;
        for Slot { heard, .. } in self.members.iter_mut().map(|member| &mut member.slots[at]) {
            if let Heard::Granted { seq } = *heard {
                *heard = if seq == fence { Heard::Stands { seq } } else { Heard::Behind { seq } };
            }
        }
        if self.stands_at_the_fence(law, at) || !law.keeps(Rule::WriteBack) {
            self.begin_hold(at, fence, age);
        } else {
            let age = if law.keeps(Rule::CountFromTheAttempts) { age } else { 0 };
            self.clients[at].phase = Phase::Writes { fence, age };
            self.raise(at, fence);
        }
        Some(())
    }

    /// Asks those who have not said that they stand at the fence to do so, and to prolong their places.
    fn raise(&mut self, at: usize, fence: u8) {
        let id = usize::from(self.clients[at].id);
        for Slot { heard, mail, .. } in self.members.iter_mut().map(|member| &mut member.slots[at]) {
            if let Heard::Behind { seq } = *heard {
                mail[id].renewal = Some(Renewal { seq, floor: fence });
            }
        }
    }

    /// Sees that a majority has answered a write-back or a renewal.
    pub(crate) fn confirm(&mut self, at: usize) -> Option<()> {
        match self.clients[at].phase {
            Phase::Writes { fence, age } => self.begin_hold(at, fence, age),
            Phase::Holds { fence, age, renewing: Some(since_sent) } => {
                let age = age.min(since_sent);
                self.clients[at].phase = Phase::Holds { fence, age, renewing: None };
            }
            _ => return None,
        }
        Some(())
    }

    fn begin_hold(&mut self, at: usize, fence: u8, age: u8) {
        let client = &mut self.clients[at];
        client.phase = Phase::Holds { fence, age, renewing: None };
        let (exclusive, shared) = &mut self.granted;
        if client.shared {
            self.fence_fell |= fence <= *exclusive;
            *shared = fence.max(*shared);
        } else {
            self.fence_fell |= fence <= (*exclusive).max(*shared);
            *exclusive = fence.max(*exclusive);
        }
    }

    /// Asks every member that was counted to prolong the hold.
    pub(crate) fn renew(&mut self, at: usize) -> Option<()> {
        let client = &mut self.clients[at];
        let Phase::Holds { fence, renewing, .. } = &mut client.phase else { return None };
        let fence = *fence;
        *renewing = Some(0);
        client.renewals -= 1;
        for Slot { heard, .. } in self.members.iter_mut().map(|member| &mut member.slots[at]) {
            if let Heard::Stands { seq } = *heard {
                *heard = Heard::Behind { seq };
            }
        }
        self.raise(at, fence);
        Some(())
    }

    /// Gives up or lets go: the same release, to all members. The next round has another id.
    pub(crate) fn end(&mut self, law: Law, at: usize) {
        let client = &mut self.clients[at];
        for Slot { heard, mail, .. } in self.members.iter_mut().map(|member| &mut member.slots[at]) {
            *heard = Heard::Nothing;
            mail[usize::from(client.id)].release = true;
        }
        client.phase = Phase::Out;
        if law.keeps(Rule::OneLifePerId) {
            client.id += 1;
        } else {
            client.released = true;
        }
    }

    /// The same, but of all that is under way the releases to some members arrive at once, at most one message
    /// arrives later, and the rest is lost.
    pub(crate) fn end_at_once(&mut self, law: Law, at: usize, freed: usize, late: Option<(usize, Verb)>) {
        let id = self.clients[at].id;
        self.end(law, at);
        for (which, member) in self.members.iter_mut().enumerate() {
            let mail = std::mem::take(&mut member.slots[at].mail[usize::from(id)]);
            if freed >> which & 1 == 1 {
                member.release(law, at, id);
            }
            let kept = &mut member.slots[at].mail[usize::from(id)];
            match late {
                Some((late, Verb::Attempt)) if late == which => kept.attempt = mail.attempt,
                Some((late, Verb::Renew)) if late == which => kept.renewal = mail.renewal,
                Some((late, Verb::Release)) if late == which => kept.release = true,
                _ => {}
            }
        }
        self.late -= u8::from(late.is_some());
    }
}
