//! Which number a quorum proposes, so that its members usually agree at once.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_core::{Clock, Moment, Seq};

/// How far above its wall clock a quorum believes in a number. One bad clock must not use up the numbers.
const FARTHEST: Duration = Duration::from_secs(24 * 60 * 60);
/// What is added to the wall clock: more than machines that keep time differ by.
const WALL_LEAD: Duration = Duration::from_millis(20);
/// What is added to the estimate of the members' clocks, because some requests travel slower than those it was made
/// from. Less than a hand-over takes: clients that learn from each other's proposals would otherwise drive the
/// numbers ahead of all clocks.
const LEAD: Duration = Duration::from_micros(100);
/// How long an estimate is used. Clocks run at different speeds, and one that was wrong may have been set.
const STALE: Duration = Duration::from_secs(600);

/// What this client knows about the members' numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    largest: u64,
    estimate: Option<Estimate>,
}

/// What the fastest member's clock reads, in microseconds, when ours reads zero.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    offset: i64,
    made: Moment,
}

impl Numbers {
    /// The floor of a first attempt: above everything seen, and where the members' clocks will be when it arrives.
    ///
    /// That is what the clock here says, or, where members were found to be ahead of it, what theirs do. A clock that
    /// is wrong here costs numbers, up to the bound, and a second trip, but never leads a fence back.
    pub(super) fn propose(&self, now: Moment, wall: u64) -> Seq {
        let above = if self.largest == 0 { 0 } else { self.largest + 1 };
        let fresh = self.estimate.filter(|estimate| now.since(estimate.made) < STALE);
        let theirs = fresh.map_or(0, |it| micros(now.get() + LEAD).saturating_add_signed(it.offset));
        let far = farthest(wall).min(Seq::MAX.get());
        let best =
            [above, theirs, wall.saturating_add(micros(WALL_LEAD))].into_iter().filter(|&it| it <= far).max();
        best.and_then(Seq::new).unwrap_or(Seq::ZERO)
    }

    /// Learns from a number that a member gave to an attempt which left at `sent` with this floor.
    ///
    /// A number at the floor says nothing about the member's clock. Learning from it would add the lead to itself.
    pub(super) fn learn(&mut self, seq: Seq, floor: Seq, sent: Moment) {
        self.largest = self.largest.max(seq.get());
        if seq > floor {
            let offset = seq.get().cast_signed().saturating_sub(micros(sent.get()).cast_signed());
            let known = self.estimate.filter(|estimate| sent.since(estimate.made) < STALE);
            if known.is_none_or(|known| offset > known.offset) {
                self.estimate = Some(Estimate { offset, made: known.map_or(sent, |known| known.made) });
            }
        }
    }
}

/// The largest number that is believed in.
pub(super) fn farthest(wall: u64) -> u64 {
    wall.saturating_add(micros(FARTHEST))
}

/// The machine's wall clock, since 1970. Unlike other clocks it may be set; numbers are proposed and bounded by it, and
/// nothing else is decided by it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WallClock;

impl Clock for WallClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "numbers are hybrid clocks and are bounded by the wall clock"
    )]
    fn now(&self) -> Moment {
        Moment::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: u64 = 1_800_000_000_000_000;

    fn at(micros: u64) -> Moment {
        Moment::new(Duration::from_micros(micros))
    }

    fn seq(number: u64) -> Seq {
        Seq::new(number).unwrap()
    }

    #[test]
    fn the_first_proposal_goes_with_the_clock_and_the_next_with_members_that_are_ahead_of_it() {
        let mut numbers = Numbers::default();
        let first = numbers.propose(at(10), WALL);
        assert_eq!(first, seq(WALL + 20_000));
        numbers.learn(seq(WALL + 90_000), first, at(10));
        numbers.learn(seq(WALL + 50_000), first, at(10));
        assert_eq!(numbers.propose(at(1_010), WALL), seq(WALL + 90_000 + 1_000 + 100));
    }

    #[test]
    fn agreeing_does_not_drive_the_numbers_ahead() {
        let mut numbers = Numbers::default();
        numbers.learn(seq(WALL + 50_000), Seq::ZERO, at(0));
        for round in 1..10_000 {
            let floor = numbers.propose(at(round * 500), WALL);
            assert_eq!(floor, seq(WALL + 50_000 + round * 500 + 100));
            numbers.learn(floor, floor, at(round * 500));
        }
    }

    #[test]
    fn two_clients_that_hand_over_do_not_drive_each_other_ahead() {
        let mut numbers = [Numbers::default(), Numbers::default()];
        let (mut last, trip) = (WALL, 200);
        for round in 0..10_000 {
            let now = round * 2 * trip;
            let mine = &mut numbers[round as usize % 2];
            // The clocks here are a minute behind the members'.
            let floor = mine.propose(at(now), WALL - 60_000_000 + now);
            last = (last + 1).max(floor.get()).max(WALL + now + trip / 2);
            mine.learn(seq(last), floor, at(now));
        }
        assert!(last < WALL + 10_000 * 2 * trip + 1_000, "{} µs ahead", last - WALL - 10_000 * 2 * trip);
    }

    #[test]
    fn a_day_ahead_is_never_proposed() {
        let mut numbers = Numbers::default();
        numbers.learn(seq(WALL + 50_000), Seq::ZERO, at(0));
        let far = 24 * 3_600 * 1_000_000;
        // Our clock leapt: the estimate is out of bounds, what was seen is not.
        numbers.estimate.as_mut().unwrap().made = at(far);
        assert_eq!(numbers.propose(at(far), WALL), seq(WALL + 50_001));
        numbers.learn(seq(WALL + far + 1), Seq::ZERO, at(0));
        assert_eq!(numbers.propose(at(0), WALL), seq(WALL + 20_000));
    }

    #[test]
    fn an_old_estimate_is_not_used() {
        let mut numbers = Numbers::default();
        numbers.learn(seq(WALL + 50_000), Seq::ZERO, at(0));
        assert_eq!(numbers.propose(at(600_000_000), WALL), seq(WALL + 50_001));
    }
}
