//! The clock of a client, right or wrong.

use std::{sync::Arc, time::Duration};

use tenure_core::{Clock, Moment};
use tokio::time::Instant;

use super::{
    Mutant,
    process::{Process, nanos},
};
use crate::history::Nanos;

/// An hour in, so that what was before the start is not before time began.
const HOUR: Nanos = 3600 * 1_000_000_000;

#[derive(Debug)]
pub(super) struct ClientClock {
    pub(super) start: Instant,
    pub(super) drift: i64,
    pub(super) mutant: Option<Mutant>,
    pub(super) set_back: (Nanos, Nanos),
    pub(super) process: Arc<Process>,
}

impl Clock for ClientClock {
    fn now(&self) -> Moment {
        let mut now = nanos(self.start.elapsed());
        match self.mutant {
            Some(Mutant::ClockStopsInSuspend) => now -= self.process.suspended(now),
            Some(Mutant::WallClock) if now >= self.set_back.0 => {
                return Moment::new(Duration::from_nanos(drifted(now, self.drift) + HOUR - self.set_back.1));
            }
            _ => {}
        }
        Moment::new(Duration::from_nanos(drifted(now, self.drift) + HOUR))
    }
}

/// What stands on a client's wall: near the clocks of the servers, but not theirs.
#[derive(Debug)]
pub(super) struct Wall {
    pub(super) start: Instant,
    pub(super) drift: i64,
    pub(super) ahead: Nanos,
}

/// When every schedule begins, by the clocks of servers and walls.
pub(super) const ERA: Nanos = 1_800_000_000 * 1_000_000_000;

impl Clock for Wall {
    fn now(&self) -> Moment {
        let now = drifted(nanos(self.start.elapsed()), self.drift);
        Moment::new(Duration::from_nanos(ERA + now + self.ahead))
    }
}

/// What a clock shows that runs too fast by so many parts per million.
pub(super) fn drifted(now: Nanos, drift: i64) -> Nanos {
    let by = i128::from(now) * i128::from(drift) / 1_000_000;
    u64::try_from(i128::from(now) + by).unwrap_or(0)
}
