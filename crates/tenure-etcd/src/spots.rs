//! What the places of this client are called, and that they are called so again.
//!
//! A store keeps every name that ever was, until it is compacted, and goes through all of them to say what stands in a
//! range: one in which 6,000 names had been took 1.2 ms longer to read than an empty one. With a name of its own for each
//! claim, a lock would become slower each time it is taken. So a name belongs to the client, and is used again.

use std::{
    collections::HashMap,
    fmt,
    str::FromStr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, EngineId};

/// What tells the places of one line apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) client: u64,
    pub(crate) number: u32,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.client, self.number)
    }
}

impl FromStr for Spot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (client, number) = text.split_once('-').ok_or(())?;
        let client = u64::from_str_radix(client, 16).map_err(drop)?;
        let spot = Self { client, number: u32::from_str_radix(number, 16).map_err(drop)? };
        // One name for one spot.
        if spot.to_string() == text { Ok(spot) } else { Err(()) }
    }
}

/// The spots of one client.
#[derive(Debug)]
pub(crate) struct Spots {
    client: u64,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// Of claims that asked for a place and are not known to have one.
    asking: HashMap<ClaimId, u32>,
    free: Vec<u32>,
    next: u32,
}

impl Spots {
    pub(crate) fn new() -> Self {
        let [random @ .., _, _, _, _, _, _, _, _] = EngineId::fresh().to_bytes();
        Self { client: u64::from_be_bytes(random), numbers: Mutex::default() }
    }

    /// Where a claim takes its place: at the same spot each time it asks, since an answer may have been lost.
    pub(crate) fn for_claim(&self, id: ClaimId) -> Spot {
        let mut numbers = self.numbers();
        let Numbers { asking, free, next } = &mut *numbers;
        let number = *asking.entry(id).or_insert_with(|| {
            free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            })
        });
        Spot { client: self.client, number }
    }

    /// The claim asks no more: it has a place, and who knows that knows where, or it is released.
    pub(crate) fn asked(&self, id: ClaimId) -> Option<Spot> {
        let number = self.numbers().asking.remove(&id)?;
        Some(Spot { client: self.client, number })
    }

    /// Nobody stands there any more, and nothing that was ever said of it is still on its way.
    pub(crate) fn leave(&self, spot: Spot) {
        if spot.client == self.client {
            self.numbers().free.push(spot.number);
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        // Changed in single steps.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_clients_have_the_same() {
        let id = ClaimId::fresh();
        assert_ne!(Spots::new().for_claim(id), Spots::new().for_claim(id));
    }

    #[test]
    fn a_claim_keeps_its_spot_and_no_other_has_it() {
        let spots = Spots::new();
        let [one, two, three] = [(); 3].map(|()| ClaimId::fresh());
        let first = spots.for_claim(one);
        assert_eq!(spots.for_claim(one), first);
        assert_ne!(spots.for_claim(two), first);
        assert_eq!((spots.asked(one), spots.asked(one)), (Some(first), None));
        assert_ne!(spots.for_claim(three), first, "it may stand there");
        spots.leave(first);
        assert_eq!(spots.for_claim(ClaimId::fresh()), first);
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let spot = Spot { client: 0xab, number: 0x1f };
        assert_eq!(spot.to_string(), "00000000000000ab-1f");
        assert_eq!("00000000000000ab-1f".parse(), Ok(spot));
        for text in ["", "-", "ab-1f", "00000000000000ab", "00000000000000ab-01f", "00000000000000ab-+f"] {
            assert_eq!(text.parse::<Spot>(), Err(()), "{text}");
        }
    }
}
