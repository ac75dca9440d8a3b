//! One lease of this client, and what is known of it.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{Moment, Result, Ttl};
use tokio::task::AbortHandle;

/// After this part of its time a session that has places is kept alive, unless a renewal did it before: those come when
/// a third has passed.
const STALE: f64 = 0.4;

pub(crate) struct Session {
    pub(crate) lease: i64,
    /// What was asked for: the lease time of its places, in whole seconds.
    pub(crate) seconds: u64,
    beaten: Mutex<Beaten>,
    /// Held while it is kept alive. Whoever asks meanwhile shares the next time.
    pub(crate) flying: tokio::sync::Mutex<()>,
    /// How often that was begun.
    pub(crate) begun: AtomicU64,
    /// How the newest of these ended, and which it was.
    pub(crate) newest: Mutex<Option<(u64, Result<Beat>)>>,
    ended: AtomicBool,
    /// Keeps it alive.
    pub(crate) keeper: Mutex<Option<AbortHandle>>,
}

/// What keeping a lease alive has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// It lives.
    Lives,
    /// There is no such lease any more, and none of its places.
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Beaten {
    /// When the newest keep-alive that was answered had been sent.
    sent: Moment,
    /// Until when the lease lives, unless it is revoked.
    until: Moment,
    /// The revision of its key up to which all evictions are known.
    noticed: i64,
}

impl Session {
    pub(crate) fn new(lease: i64, seconds: u64, sent: Moment, granted: Duration, noticed: i64) -> Self {
        Self {
            lease,
            seconds,
            beaten: Mutex::new(Beaten { sent, until: sent + granted, noticed }),
            flying: tokio::sync::Mutex::default(),
            begun: AtomicU64::new(0),
            newest: Mutex::default(),
            ended: AtomicBool::new(false),
            keeper: Mutex::default(),
        }
    }

    /// Counts a keep-alive that was answered.
    pub(crate) fn beaten(&self, sent: Moment, granted: Duration, noticed: i64) {
        let mut beaten = lock(&self.beaten);
        // Answers may overtake each other.
        if sent > beaten.sent {
            *beaten = Beaten {
                sent,
                until: beaten.until.max(sent + granted),
                noticed: noticed.max(beaten.noticed),
            };
        }
    }

    pub(crate) fn noticed(&self) -> i64 {
        lock(&self.beaten).noticed
    }

    /// How much of its time has passed since it was last kept alive: 1 is all of it.
    pub(crate) fn age(&self, now: Moment) -> f64 {
        now.since(lock(&self.beaten).sent).as_secs_f64() / self.seconds as f64
    }

    pub(crate) fn is_stale(&self, now: Moment) -> bool {
        self.age(now) >= STALE
    }

    /// How long its keeper may sleep: until it is stale, or, if it is and has places, until it is worth another try.
    pub(crate) fn pause(&self, now: Moment, has_places: bool) -> Duration {
        let part = match self.age(now) {
            age if age < STALE => STALE - age,
            _ if has_places => STALE / 4.0,
            _ => STALE,
        };
        // A little later, so that it is stale when it wakes up.
        Duration::from_secs(self.seconds).mul_f64(part) + Duration::from_millis(1)
    }

    /// How long a place lives that asked for this ttl, counted from `asked`.
    pub(crate) fn left(&self, asked: Moment, ttl: Ttl) -> Duration {
        self.lives_for(asked).min(ttl.get())
    }

    /// How long the lease itself lives, counted from `asked`.
    pub(crate) fn lives_for(&self, asked: Moment) -> Duration {
        lock(&self.beaten).until.since(asked)
    }

    pub(crate) fn lives(&self) -> bool {
        !self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// The lease time that keeps a place for this long.
pub(crate) fn seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1)
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({:x}, {} s)", self.lease, self.seconds)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(keeper) = lock(&self.keeper).take() {
            keeper.abort();
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is changed in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    #[test]
    fn a_lease_has_whole_seconds_and_never_fewer_than_asked_for() {
        for (millis, asked) in [(100, 1), (1000, 1), (1001, 2), (1999, 2), (15_000, 15)] {
            assert_eq!(seconds(Duration::from_millis(millis)), asked);
        }
    }

    #[test]
    fn time_counts_from_before_the_keep_alive_and_never_back() {
        let secs = Duration::from_secs;
        let ttl = Ttl::new(secs(10)).unwrap();
        let session = Session::new(1, 10, at(1000), secs(10), 5);
        assert_eq!(session.left(at(1000), ttl), secs(10));
        assert_eq!(session.left(at(4000), ttl), secs(7));
        assert_eq!(session.left(at(4000), Ttl::new(secs(2)).unwrap()), secs(2));
        session.beaten(at(5000), secs(10), 9);
        session.beaten(at(3000), secs(10), 6);
        assert_eq!((session.left(at(5000), ttl), session.noticed()), (secs(10), 9));
        assert!((session.age(at(7500)) - 0.25).abs() < 1e-9);
        // The server may give less than it gave before; what it promised stands.
        session.beaten(at(6000), secs(1), 9);
        assert_eq!(session.left(at(6000), ttl), secs(9));
        assert_eq!(session.left(at(60_000), ttl), Duration::ZERO);
    }
}
