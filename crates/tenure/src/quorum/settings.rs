use std::{sync::Arc, time::Duration};

use tenure_core::{BootClock, Clock, Error, Result, Ttl};

use super::numbers::WallClock;

/// The shortest ttl: each member has an eighth of it to answer, and a busy machine now and then takes that long to wake a
/// process.
pub(super) const MIN_TTL: Duration = Duration::from_millis(400);

/// How a [`Quorum`](crate::Quorum) behaves. Everybody who uses the same members must say the same `max_ttl` and
/// `max_skew`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuorumSettings {
    /// The longest ttl that anybody may ask for; more is refused. A member that restarted without its memory is not
    /// counted for longer than this, so a long one keeps a restarted member out for as long. 30 s.
    pub max_ttl: Duration,
    /// The largest difference between the clocks of two members. 1 s.
    pub max_skew: Duration,
    /// How long one member may take to answer; where it is asked about a claim, at most an eighth of the ttl. 1 s.
    pub member_limit: Duration,
    /// Whether members are welcome that cannot lift their numbers to a floor (etcd, ZooKeeper). Such a quorum keeps
    /// holders apart all the same, but its fences may go back, so that no resource can be asked to check them.
    pub without_fences: bool,
    /// The clock that validity is counted by.
    pub clock: Arc<dyn Clock>,
    /// The wall clock of this machine, which may be set at any time: numbers are proposed and bounded by it, and
    /// nothing else is decided by it. Only simulations bring another.
    pub wall: Arc<dyn Clock>,
}

impl Default for QuorumSettings {
    fn default() -> Self {
        Self {
            max_ttl: Duration::from_secs(30),
            max_skew: Duration::from_secs(1),
            member_limit: Duration::from_secs(1),
            without_fences: false,
            clock: Arc::new(BootClock),
            wall: Arc::new(WallClock),
        }
    }
}

impl QuorumSettings {
    pub(super) fn check(&self) -> Result<()> {
        if !(Ttl::MIN..=Ttl::MAX).contains(&self.max_ttl) {
            return Err(Error::invalid(format!(
                "max_ttl is {:?}; it must be between 100ms and 24h (30s is usual)",
                self.max_ttl
            )));
        }
        if self.max_skew > Ttl::MAX {
            return Err(Error::invalid(format!(
                "max_skew is {:?}; set the members' clocks right instead",
                self.max_skew
            )));
        }
        if self.member_limit.is_zero() {
            return Err(Error::invalid("member_limit is 0, so that no member could answer; 1s is usual"));
        }
        Ok(())
    }

    /// For how long a member must have forgotten nothing before it counts: by then every lease that it may have
    /// forgotten has ended, and its clock has passed every number that it may have given.
    pub(super) fn quarantine(&self) -> Duration {
        self.max_ttl + self.max_skew + Duration::from_secs(1)
    }

    /// How long a member may take in a verb of a claim. An attempt needs two rounds at most, and both fit into the
    /// third of a ttl that a verb has; a renewal has a sixth.
    pub(super) fn limit(&self, ttl: Ttl) -> Duration {
        self.member_limit.min(ttl.get() / 8)
    }
}
