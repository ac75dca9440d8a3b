//! The line rule: who holds, as one pure function over the line.
//!
//! The holders are the longest prefix of the line in which all can hold beside each other. Places ahead only
//! ever leave, so a claim that holds keeps holding until its own place goes; and because the line is sorted by
//! number, fences grow in the order of grants. ("Nobody exclusive is ahead", the obvious rule for shared claims,
//! is wrong as soon as modes or totals mix on a key.)

use crate::Mode;

/// How many places at the front of the line hold.
///
/// # Examples
/// ```
/// use tenure_core::{Mode, line};
///
/// assert_eq!(line::holders([Mode::Shared, Mode::Shared, Mode::Exclusive]), 2);
/// assert_eq!(line::holders([Mode::Exclusive, Mode::Shared]), 1);
/// assert_eq!(line::holders([]), 0);
/// ```
#[must_use]
pub fn holders(line: impl IntoIterator<Item = Mode>) -> usize {
    let mut front = Front::default();
    line.into_iter().take_while(|&mode| front.admit(mode)).count()
}

/// Whether a claim of this mode would hold at the end of this line.
#[must_use]
pub fn would_hold(line: impl IntoIterator<Item = Mode>, mode: Mode) -> bool {
    let mut front = Front::default();
    line.into_iter().all(|ahead| front.admit(ahead)) && front.admit(mode)
}

/// Whether two claims can hold beside each other, other places aside.
#[must_use]
pub fn compatible(a: Mode, b: Mode) -> bool {
    let mut front = Front::default();
    front.admit(a) && front.admit(b)
}

/// What a waiter at the end of `ahead` (the places before it, in order) must watch to learn of its turn from
/// departures alone: the nearest place it cannot hold beside, or, where only the sum of permits stands in the
/// way, the nearest places whose permits are too many beside its own.
///
/// That is enough because places ahead only leave: while all that are watched stand it cannot hold, and the first
/// departure among them is the last one needed, or wakes the waiter to choose again. The nearest are those who leave
/// last, and a place is watched by no more waiters than it has permits for: a departure does not wake everybody.
#[must_use]
pub fn blockers(ahead: &[Mode], mode: Mode) -> std::ops::Range<usize> {
    if let Some(nearest) = ahead.iter().rposition(|&other| !compatible(other, mode)) {
        return nearest..nearest + 1;
    }
    let Mode::Permits(mine) = mode else { return 0..ahead.len() };
    let mut taken = u64::from(mine.take());
    let too_many = ahead.iter().rposition(|other| {
        if let Mode::Permits(theirs) = other {
            taken += u64::from(theirs.take());
        }
        taken > u64::from(mine.of())
    });
    too_many.unwrap_or(0)..ahead.len()
}

/// The holders of a line that changes place by place, and what still fits beside them: what [`holders`] derives from
/// the whole line, kept up to date at a constant cost.
///
/// # Examples
/// ```
/// use tenure_core::{Mode, line::Front};
///
/// let mut front = Front::default();
/// assert!(front.admit(Mode::Exclusive));
/// assert!(!front.admit(Mode::Shared), "the front ends here, and holds nobody behind it");
/// front.leave(Mode::Exclusive);
/// assert!(front.admit(Mode::Shared) && front.admit(Mode::Shared));
/// assert_eq!(front.holders(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Front {
    mode: Option<Mode>,
    taken: u64,
    holders: usize,
}

impl Front {
    /// Lets in the next place of the line if it can hold beside all who do. Once it said no, those behind are not to
    /// be asked about.
    pub fn admit(&mut self, mode: Mode) -> bool {
        let fits = self.fits(mode);
        if fits {
            self.mode = Some(mode);
            self.holders += 1;
            if let Mode::Permits(permits) = mode {
                self.taken += u64::from(permits.take());
            }
        }
        fits
    }

    /// A holder of this mode leaves the line.
    pub fn leave(&mut self, mode: Mode) {
        self.holders = self.holders.saturating_sub(1);
        if self.holders == 0 {
            *self = Self::default();
        } else if let Mode::Permits(permits) = mode {
            self.taken = self.taken.saturating_sub(u64::from(permits.take()));
        }
    }

    /// Whether the next place of the line would hold in this mode.
    #[must_use]
    pub fn fits(&self, mode: Mode) -> bool {
        match (self.mode, mode) {
            (None, _) | (Some(Mode::Shared), Mode::Shared) => true,
            (Some(Mode::Permits(first)), Mode::Permits(next)) => {
                first.of() == next.of() && self.taken + u64::from(next.take()) <= u64::from(next.of())
            }
            _ => false,
        }
    }

    /// How many hold.
    #[must_use]
    pub fn holders(&self) -> usize {
        self.holders
    }
}
