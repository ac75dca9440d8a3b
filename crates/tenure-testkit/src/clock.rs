use tenure_core::{Clock, Moment};
use tokio::time::Instant;

/// A clock that follows tokio's time: virtual on a paused runtime, real on any other.
///
/// Read only inside a runtime.
#[derive(Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    /// Starts a clock at an hour, so that a reading from before its start can still be told from zero.
    #[must_use]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::new(std::time::Duration::from_secs(3600) + self.start.elapsed())
    }
}
