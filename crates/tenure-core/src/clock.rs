use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A reading of a [`Clock`]: the time since some fixed point in its past.
///
/// Kept in nanoseconds, of which there are enough for 584 years: every hold has several of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The reading that lies `since` after the clock's fixed point.
    #[must_use]
    pub const fn new(since: Duration) -> Self {
        Self(nanos(since))
    }

    /// The time since the clock's fixed point.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// How long after `earlier` this is; nothing if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

const fn nanos(time: Duration) -> u64 {
    let nanos = time.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment({:?})", self.get())
    }
}

/// A clock that never steps back and goes on while the machine is suspended.
///
/// `std::time::Instant` stops in suspend: a laptop that wakes up would believe a lease that ended hours ago.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads the clock.
    fn now(&self) -> Moment;
}

/// The machine's own clock: `CLOCK_BOOTTIME` on Linux; elsewhere `CLOCK_MONOTONIC`, which on macOS counts
/// suspend too.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        #[cfg(target_os = "linux")]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(CLOCK);
        // Neither is negative: the clock starts at zero with the machine.
        Moment::new(Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_goes_forward() {
        let first = BootClock.now();
        let second = BootClock.now();
        assert!(second >= first && first.get() > Duration::ZERO);
        assert_eq!(first.since(first + Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn a_moment_is_as_long_as_it_was_told_and_never_wraps() {
        let told = Duration::new(7, 1);
        assert_eq!(Moment::new(told).get(), told);
        let last = Moment::new(Duration::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(Moment::new(told) - Duration::MAX, Moment::new(Duration::ZERO));
        assert!(last.since(Moment::new(told)) > Duration::from_secs(500 * 365 * 24 * 3600));
    }
}
