//! The timetable: when a lock that cannot be renewed ends its job. Pure.

use std::time::Duration;

use tenure::Ttl;

use crate::words::exact;

/// What the user asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) max_run: Option<Duration>,
    pub(super) hold_for: Option<Duration>,
}

/// When what happens, counted from `sent`: the clock before the last good renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timetable {
    pub(super) ttl: Duration,
    pub(super) grace: Duration,
    pub(super) max_run: Option<Duration>,
    pub(super) hold_for: Option<Duration>,
    pub(super) renew_every: Duration,
    pub(super) margin: Duration,
    pub(super) term_at: Duration,
    pub(super) kill_at: Duration,
}

impl Timetable {
    /// Checks that the numbers fit together, whatever the engine: a job that moves to another one must not meet
    /// a new refusal there.
    ///
    /// # Errors
    /// Says which number to change, and to what.
    pub(super) fn new(bounds: &Bounds) -> Result<Self, String> {
        let &Bounds { ttl, grace, max_run, hold_for } = bounds;
        let lease = Ttl::new(ttl).map_err(|_| {
            let (min, max) = (exact(Ttl::MIN), Ttl::MAX.as_secs() / 3600);
            format!("--ttl is {}; it must be between {min} and {max}h (15s is usual)", exact(ttl))
        })?;
        if max_run.is_some_and(|run| run.is_zero()) {
            return Err(
                "--max-run is 0, which no job can keep; name the longest run, or drop the flag".into()
            );
        }
        let (renew_every, margin) = (lease.renew_every(), lease.margin());
        let room = lease.safe() - renew_every;
        if grace > room {
            return Err(format!(
                "--grace {} leaves no time to renew a lease of {}: set --grace to {} or less, or --ttl to {} or more",
                exact(grace),
                exact(ttl),
                exact(floor_ms(room)),
                exact(ttl_for(grace)),
            ));
        }
        let kill_at = lease.safe();
        Ok(Self { ttl, grace, max_run, hold_for, renew_every, margin, term_at: kill_at - grace, kill_at })
    }

    /// How often to look whether the lock was renewed.
    pub(super) fn look_every(&self) -> Duration {
        (self.ttl / 10).clamp(Duration::from_millis(5), Duration::from_millis(500))
    }
}

fn floor_ms(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// The shortest lease, in tenths of a second, that leaves room for this grace.
fn ttl_for(grace: Duration) -> Duration {
    // A third is the renewal, a twentieth the margin: 37/60 are left.
    let exactly = grace.as_millis() * 60 / 37;
    let tenths = u64::try_from(exactly / 100 + 1).unwrap_or(u64::MAX / 100);
    Duration::from_millis(tenths * 100).max(Ttl::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: f64) -> Duration {
        Duration::from_secs_f64(secs)
    }

    fn plan(ttl: f64, grace: f64) -> Result<Timetable, String> {
        Timetable::new(&Bounds { ttl: secs(ttl), grace: secs(grace), max_run: None, hold_for: None })
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let plan = plan(15.0, 5.0).unwrap();
        assert_eq!(plan.renew_every, secs(5.0));
        assert_eq!(plan.margin, secs(0.75));
        assert_eq!(plan.term_at, secs(9.25));
        assert_eq!(plan.kill_at, secs(14.25));
    }

    #[test]
    fn the_job_is_dead_before_the_lease_ends_and_is_warned_after_a_renewal_was_due() {
        for ttl in [0.1, 0.5, 1.0, 15.0, 600.0, 86400.0] {
            for part in [0.0, 0.1, 0.3, 0.61] {
                let Ok(plan) = plan(ttl, ttl * part) else { continue };
                assert!(plan.renew_every <= plan.term_at && plan.term_at <= plan.kill_at, "{plan:?}");
                assert!(plan.kill_at + plan.margin <= plan.ttl, "{plan:?}");
                assert_eq!(plan.kill_at - plan.term_at, plan.grace);
            }
        }
    }

    #[test]
    fn a_refusal_names_numbers_that_work() {
        let refused = plan(15.0, 10.0).unwrap_err();
        assert!(refused.contains("--grace to 9.25s or less, or --ttl to 16.3s or more"), "{refused}");
        assert!(plan(15.0, 9.25).is_ok());
        assert!(plan(16.3, 10.0).is_ok());
        for grace in [0.4, 1.0, 7.0, 61.0, 4000.0] {
            assert!(plan(ttl_for(secs(grace)).as_secs_f64(), grace).is_ok(), "{grace}");
        }
    }

    #[test]
    fn leases_that_no_engine_keeps_are_refused() {
        assert!(plan(0.05, 0.0).unwrap_err().contains("--ttl"));
        assert!(plan(90_000.0, 0.0).unwrap_err().contains("--ttl"));
        let bounds =
            Bounds { ttl: secs(15.0), grace: secs(1.0), max_run: Some(Duration::ZERO), hold_for: None };
        assert!(Timetable::new(&bounds).unwrap_err().contains("--max-run"));
    }
}
