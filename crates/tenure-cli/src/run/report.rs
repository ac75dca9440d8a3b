//! How a run ended, for the exit code and for scripts.

use std::time::Duration;

use tenure::Fence;

use crate::{
    exit::{self, Code},
    json::Object,
    words::ms,
};

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exited(u8),
    Killed(i32),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The job ran under the lock to its end.
    Ended(End),
    /// The lock was lost, for this reason.
    Lost(&'static str, End),
    /// The job ran longer than it may.
    Overran(End),
    /// Others hold the key; nothing was run.
    Busy(Busy, Code),
    /// A signal came while waiting; nothing was run.
    Interrupted(i32),
    /// Something went wrong before the job ran.
    Failed(Code),
}

/// When it turned out that others hold the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    Now,
    Waited,
}

impl Outcome {
    pub(super) fn code(self) -> Code {
        match self {
            Self::Ended(End::Exited(code)) => Code(code),
            Self::Ended(End::Killed(_)) | Self::Interrupted(_) => exit::INTERNAL,
            Self::Lost(..) => exit::LOST,
            Self::Overran(_) => exit::MAX_RUN,
            Self::Busy(_, code) | Self::Failed(code) => code,
        }
    }

    /// The signal to die by, if that is how to end.
    pub(super) fn signal(self) -> Option<i32> {
        match self {
            Self::Ended(End::Killed(signal)) | Self::Interrupted(signal) => Some(signal),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ended(End::Exited(0)) => "ok",
            Self::Ended(End::Exited(_)) => "failed",
            Self::Ended(End::Killed(_)) => "killed",
            Self::Lost(..) => "lost",
            Self::Overran(_) => "max_run",
            Self::Busy(_, exit::OK) => "skipped",
            Self::Busy(Busy::Now, _) => "busy",
            Self::Busy(Busy::Waited, _) => "timeout",
            Self::Interrupted(_) => "interrupted",
            Self::Failed(exit::NOT_FOUND) => "not_found",
            Self::Failed(exit::CANNOT_EXECUTE) => "cannot_execute",
            Self::Failed(exit::UNAVAILABLE) => "unavailable",
            Self::Failed(exit::DENIED) => "denied",
            Self::Failed(exit::CONFIG) => "config",
            Self::Failed(exit::USAGE) => "usage",
            Self::Failed(_) => "internal",
        }
    }

    fn end(self) -> Option<End> {
        match self {
            Self::Ended(end) | Self::Lost(_, end) | Self::Overran(end) => Some(end),
            _ => None,
        }
    }
}

/// What is known of a run at its end.
#[derive(Debug)]
pub(super) struct Report {
    key: String,
    pub(super) fence: Option<Fence>,
    pub(super) waited: Duration,
    pub(super) held: Duration,
}

impl Report {
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), fence: None, waited: Duration::ZERO, held: Duration::ZERO }
    }

    /// One object. `exit` and `signal` are the job's; a job that exits 75 or 76 by itself is told apart by
    /// `result`.
    pub(super) fn json(&self, outcome: &Outcome) -> String {
        let (exit, signal) = match outcome.end() {
            Some(End::Exited(code)) => (Some(code), None),
            Some(End::Killed(signal)) => (None, Some(signal)),
            None => (None, outcome.signal()),
        };
        let lost = match outcome {
            Outcome::Lost(why, _) => Some(*why),
            _ => None,
        };
        Object::new()
            .text("result", outcome.word())
            .text("key", &self.key)
            .maybe_text("fence", self.fence.map(|fence| fence.to_string()).as_deref())
            .number("waited_ms", ms(self.waited))
            .number("held_ms", ms(self.held))
            .maybe_number("exit", exit)
            .maybe_number("signal", signal)
            .flag("lost", lost.is_some())
            .maybe_text("lost_reason", lost)
            .done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_lock_is_never_a_success() {
        let ok = End::Exited(0);
        assert_eq!(Outcome::Ended(ok).code(), exit::OK);
        assert_eq!(Outcome::Lost("gone", ok).code(), exit::LOST);
        assert_eq!(Outcome::Overran(ok).code(), exit::MAX_RUN);
        assert_eq!(Outcome::Lost("gone", End::Killed(9)).signal(), None, "the code says it, not the signal");
        assert_eq!(Outcome::Ended(End::Killed(15)).signal(), Some(15));
    }

    #[test]
    fn the_report_is_one_object_with_stable_names() {
        let mut report = Report::new("k\"1");
        assert_eq!(
            report.json(&Outcome::Busy(Busy::Now, exit::BUSY)),
            r#"{"result":"busy","key":"k\"1","fence":null,"waited_ms":0,"held_ms":0,"exit":null,"signal":null,"lost":false,"lost_reason":null}"#
        );
        report.fence = Fence::from_u64(9_007_199_254_740_993 << 1);
        report.held = Duration::from_millis(1500);
        assert_eq!(
            report.json(&Outcome::Lost("expired", End::Killed(9))),
            r#"{"result":"lost","key":"k\"1","fence":"18014398509481986","waited_ms":0,"held_ms":1500,"exit":null,"signal":9,"lost":true,"lost_reason":"expired"}"#
        );
    }
}
