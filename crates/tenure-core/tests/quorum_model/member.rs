//! One member of the quorum: its mark, its places, and what is under way between it and each client.

use crate::words::{Heard, IDS, Law, Mail, Rule, TTL};

/// A place. Its age is counted from the last attempt or renewal that reached the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) id: u8,
    pub(crate) seq: u8,
    pub(crate) age: u8,
}

/// What one client has at one member, and on the way there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub(crate) place: Option<Place>,
    pub(crate) heard: Heard,
    pub(crate) mail: [Mail; IDS],
}

/// What a member keeps, and its column of the network, for `C` clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Member<const C: usize> {
    /// How far its clock is ahead of the slowest one.
    pub(crate) skew: u8,
    /// The largest number that it drew, was raised to, or that its clock has passed: the next one is larger.
    pub(crate) mark: u8,
    /// For how many ticks from now it ought to grant nothing.
    pub(crate) quarantine: u8,
    pub(crate) slots: [Slot; C],
}

impl<const C: usize> Member<C> {
    /// Lets a tick pass. A place whose lease has ended is as good as gone.
    pub(crate) fn tick(&mut self, law: Law) {
        self.quarantine = self.quarantine.saturating_sub(1);
        for slot in &mut self.slots {
            let Some(place) = &mut slot.place else { continue };
            place.age += 1;
            if place.age >= TTL {
                slot.place = None;
                self.mark = law.mark_after_a_place(self.mark);
            }
        }
    }

    /// Handles an attempt, without waiting: it takes a place at once, keeps the one it has, or leaves nothing.
    pub(crate) fn attempt(
        &mut self,
        law: Law,
        client: usize,
        id: u8,
        floor: u8,
        beside: impl Fn(usize) -> bool,
    ) -> Option<u8> {
        if self.quarantine > law.let_off() {
            return None;
        }
        if let Some(place) = self.place_of(client, id) {
            place.age = 0;
            return Some(place.seq);
        }
        let taken = |(at, slot): (usize, &Slot)| slot.place.is_some() && (at == client || !beside(at));
        if self.slots.iter().enumerate().any(taken) {
            return None;
        }
        self.mark = floor.max(self.mark + 1);
        self.slots[client].place = Some(Place { id, seq: self.mark, age: 0 });
        Some(self.mark)
    }

    /// Handles a renewal: the place lives on and the mark is raised to the floor, or nothing happens.
    pub(crate) fn renew(&mut self, law: Law, client: usize, id: u8, seq: u8, floor: u8) -> bool {
        let by_id = !law.keeps(Rule::RenewNamesTheNumber);
        let Some(place) = self.place_of(client, id).filter(|place| by_id || place.seq == seq) else {
            return false;
        };
        place.age = 0;
        self.mark = self.mark.max(floor);
        true
    }

    pub(crate) fn release(&mut self, law: Law, client: usize, id: u8) {
        if self.place_of(client, id).is_some() {
            self.slots[client].place = None;
            self.mark = law.mark_after_a_place(self.mark);
        }
    }

    /// Forgets everything.
    pub(crate) fn restart(&mut self, quarantine: u8) {
        self.mark = 0;
        self.quarantine = quarantine;
        self.slots.iter_mut().for_each(|slot| slot.place = None);
    }

    fn place_of(&mut self, client: usize, id: u8) -> Option<&mut Place> {
        self.slots[client].place.as_mut().filter(|place| place.id == id)
    }

    /// Takes out of the network what can no longer change anything, which changes nothing but the number of
    /// states: a release of a place that neither stands nor may come, a renewal of a place that is gone.
    pub(crate) fn sweep(&mut self, law: Law) {
        for slot in &mut self.slots {
            for (id, mail) in (0..).zip(&mut slot.mail) {
                let place = slot.place.filter(|place| place.id == id);
                mail.release &= place.is_some() || mail.attempt.is_some();
                mail.renewal = mail.renewal.filter(|renewal| {
                    if law.keeps(Rule::RenewNamesTheNumber) {
                        place.is_some_and(|place| place.seq == renewal.seq)
                    } else {
                        place.is_some() || mail.attempt.is_some()
                    }
                });
            }
        }
    }
}
