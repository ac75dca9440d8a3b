//! The clock that the whole history shares.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::history::Nanos;

/// Now, by the clock that all processes of a machine share and nobody sets.
#[must_use]
pub(crate) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000_000 + nanos.unwrap_or_default()
}

/// A time as the history counts it.
#[must_use]
pub(crate) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The same for people and timers.
#[must_use]
pub(crate) fn time(nanos: Nanos) -> Duration {
    Duration::from_nanos(nanos)
}
