use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Moment};

use crate::{commands::Cas, names::Lease};

/// How many claims are remembered before the dead are looked for.
const MANY: usize = 4096;

/// What this client knows of its own places. Only what saves trips: whoever is not here is found in its line.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    seats: HashMap<ClaimId, Seat>,
    many: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) lease: Lease,
    /// When the lease item that was asked for ends at the latest.
    pub(crate) until: Moment,
    /// The version of the line in which this place is alone.
    pub(crate) alone: Option<Cas>,
    /// When the leases ahead need to be looked at again, and when the first of them ends.
    pub(crate) calm: Option<(Moment, Moment)>,
}

impl Seats {
    pub(crate) fn get(&self, id: ClaimId) -> Option<Seat> {
        self.known().seats.get(&id).copied()
    }

    pub(crate) fn put(&self, id: ClaimId, seat: Seat, now: Moment) {
        let mut known = self.known();
        if known.seats.len() >= known.many.max(MANY) {
            known.seats.retain(|_, seat| seat.until > now);
            known.many = known.seats.len() * 2;
        }
        known.seats.insert(id, seat);
    }

    pub(crate) fn take(&self, id: ClaimId) -> Option<Seat> {
        self.known().seats.remove(&id)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What it guards is changed in single steps, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_dead_are_forgotten_and_the_living_kept() {
        let seats = Seats::default();
        let at = |seconds| Moment::new(Duration::from_secs(seconds));
        let seat = |until| Seat { lease: Lease(1), until, alone: None, calm: None };
        let living = ClaimId::fresh();
        seats.put(living, seat(at(100)), at(0));
        for _ in 0..10 * MANY {
            seats.put(ClaimId::fresh(), seat(at(10)), at(11));
        }
        assert!(seats.known().seats.len() <= MANY + 1);
        assert!(seats.take(living).is_some() && seats.get(living).is_none());
    }
}
