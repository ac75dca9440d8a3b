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
/// way, every place ahead.
///
/// Watching the nearest is enough because places ahead only leave: its departure is the last one needed, or
/// wakes the waiter to choose again.
#[must_use]
pub fn blockers(ahead: &[Mode], mode: Mode) -> std::ops::Range<usize> {
    match ahead.iter().rposition(|&other| !compatible(other, mode)) {
        Some(nearest) => nearest..nearest + 1,
        None => 0..ahead.len(),
    }
}

/// The places admitted so far, and what still fits beside them.
#[derive(Debug, Default)]
struct Front {
    mode: Option<Mode>,
    taken: u64,
}

impl Front {
    /// Admits a place if it can hold beside all before it. Once it said no, the front has ended.
    fn admit(&mut self, mode: Mode) -> bool {
        let fits = match (self.mode, mode) {
            (None, _) | (Some(Mode::Shared), Mode::Shared) => true,
            (Some(Mode::Permits(first)), Mode::Permits(next)) => {
                first.of() == next.of() && self.taken + u64::from(next.take()) <= u64::from(next.of())
            }
            _ => false,
        };
        if fits {
            self.mode = Some(mode);
            if let Mode::Permits(permits) = mode {
                self.taken += u64::from(permits.take());
            }
        }
        fits
    }
}
