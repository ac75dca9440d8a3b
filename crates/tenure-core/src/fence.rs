use std::{fmt, num::ParseIntError, str::FromStr};

/// The number of a place in its line: drawn by the engine, larger for every later place of the same key.
///
/// Below 2^53, because Lua numbers, sorted-set scores and JSON readers lose what is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The largest number an engine may draw.
    pub const MAX: Self = Self((1 << 53) - 1);
    /// Below every number that is drawn.
    pub const ZERO: Self = Self(0);

    /// Takes a number, or `None` if it is out of range.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The bare number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The hybrid clock: the first number that is above `self`, not below `floor` and not below the engine's
    /// clock in microseconds. `None` when the numbers are used up.
    #[must_use]
    pub fn next(self, floor: Self, clock_micros: u64) -> Option<Self> {
        Self::new((self.0 + 1).max(floor.0).max(clock_micros))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that grows with every grant on a key. Show it to the resource that the lock protects: whoever
/// arrives with a smaller one has been overtaken.
///
/// The high bits are the place's [`Seq`], the low ten count the turns that tasks of one process took on one
/// place. It is positive as an `i64` too. Numbers of different keys do not compare.
///
/// # Examples
/// ```
/// use tenure_core::{Fence, Seq};
///
/// let first = Fence::new(Seq::new(41).unwrap(), 0);
/// let handed_over = Fence::new(Seq::new(41).unwrap(), 1);
/// let next_grant = Fence::new(Seq::new(42).unwrap(), 0);
/// assert!(first < handed_over && handed_over < next_grant);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    const TURN_BITS: u32 = 10;
    /// The most turns that one place can take.
    pub const MAX_TURN: u16 = (1 << Self::TURN_BITS) - 1;

    /// The fence of one turn on one place.
    ///
    /// # Panics
    /// If `turn` is above [`Fence::MAX_TURN`]: the next one would be the fence of the next place.
    #[must_use]
    pub const fn new(seq: Seq, turn: u16) -> Self {
        assert!(turn <= Self::MAX_TURN, "a place takes at most 1,023 turns");
        Self(seq.0 << Self::TURN_BITS | turn as u64)
    }

    /// The whole number, for the resource to compare.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The fence that [`Fence::get`] gave, or `None` if no fence has this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Option<Self> {
        if number >> 63 == 0 { Some(Self(number)) } else { None }
    }

    /// The place's number in its line.
    #[must_use]
    pub const fn seq(self) -> Seq {
        Seq(self.0 >> Self::TURN_BITS)
    }

    /// Which turn on that place, from 0.
    #[must_use]
    pub const fn turn(self) -> u16 {
        (self.0 & Self::MAX_TURN as u64) as u16
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fence {
    type Err = ParseIntError;
    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        // As an `i64`, so that what is out of range is refused by the same parser.
        text.parse::<i64>().and_then(|n| u64::from_str(&n.to_string())).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_positive_as_i64_and_gives_back_its_parts() {
        let top = Fence::new(Seq::MAX, Fence::MAX_TURN);
        assert!(i64::try_from(top.get()).is_ok());
        assert_eq!((top.seq(), top.turn()), (Seq::MAX, Fence::MAX_TURN));
        assert_eq!(Fence::from_u64(top.get()), Some(top));
        assert_eq!(Fence::from_u64(1 << 63), None);
        assert_eq!(top.to_string().parse::<Fence>(), Ok(top));
        assert!("-1".parse::<Fence>().is_err());
        assert!(u64::MAX.to_string().parse::<Fence>().is_err());
    }

    #[test]
    fn the_last_turn_stays_below_the_next_place() {
        let seq = |n| Seq::new(n).unwrap();
        assert!(Fence::new(seq(7), Fence::MAX_TURN) < Fence::new(seq(8), 0));
    }

    #[test]
    #[should_panic(expected = "1,023")]
    fn one_turn_more_would_be_the_next_place() {
        let _ = Fence::new(Seq::ZERO, 1024);
    }

    #[test]
    fn the_hybrid_clock_never_leads_back() {
        let seq = |n| Seq::new(n).unwrap();
        assert_eq!(seq(5).next(Seq::ZERO, 3), Some(seq(6)));
        assert_eq!(seq(5).next(Seq::ZERO, 9), Some(seq(9)));
        assert_eq!(seq(5).next(seq(20), 9), Some(seq(20)));
        assert_eq!(Seq::MAX.next(Seq::ZERO, 0), None);
        assert_eq!(Seq::ZERO.next(Seq::ZERO, u64::MAX), None);
    }
}
