use std::{fmt, time::Duration};

use crate::{Error, Result};

/// How long a place lives without being renewed: 100 ms to 24 h, 15 s if nothing is said.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tenure_core::Ttl;
///
/// let ttl = Ttl::new(Duration::from_secs(15))?;
/// assert_eq!(ttl.renew_every(), Duration::from_secs(5));
/// assert_eq!(ttl.margin(), Duration::from_millis(750));
/// assert!(Ttl::new(Duration::ZERO).is_err());
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(Duration);

impl Ttl {
    /// The shortest lease. Under it, one slow reply is a lost lock.
    pub const MIN: Duration = Duration::from_millis(100);
    /// The longest lease. Above it, a crash would lock people out for longer than a night shift.
    pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Takes a lease time.
    ///
    /// # Errors
    /// `Invalid` outside [`Ttl::MIN`] to [`Ttl::MAX`].
    pub fn new(ttl: Duration) -> Result<Self> {
        if (Self::MIN..=Self::MAX).contains(&ttl) {
            Ok(Self(ttl))
        } else {
            Err(Error::invalid(format!(
                "the ttl is {ttl:?}; it must be between 100ms and 24h (15s is usual)"
            )))
        }
    }

    /// The whole lease.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// What a holder gives away at the end of a lease for clocks that run at different speeds.
    #[must_use]
    pub fn margin(self) -> Duration {
        (self.0 / 20).max(Duration::from_millis(10))
    }

    /// How long after it was asked for a hold is safe.
    #[must_use]
    pub fn safe(self) -> Duration {
        self.0 - self.margin()
    }

    /// How often the watchdog renews; also the longest a verb may block and a waiter stay silent.
    #[must_use]
    pub fn renew_every(self) -> Duration {
        self.0 / 3
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(Duration::from_secs(15))
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_the_margin_always_fits() {
        for bad in
            [Duration::ZERO, Duration::from_millis(99), Duration::MAX, Ttl::MAX + Duration::from_nanos(1)]
        {
            assert!(Ttl::new(bad).is_err(), "{bad:?}");
        }
        for good in [Ttl::MIN, Ttl::MAX] {
            let ttl = Ttl::new(good).unwrap();
            assert!(ttl.get() > 3 * ttl.margin() && ttl.safe() > ttl.renew_every());
        }
    }
}
