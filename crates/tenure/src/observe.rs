use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use tenure_core::{Error, ErrorKind};

use crate::Loss;

/// What a client tells the outside: metrics by the `metrics` facade, events and spans by `tracing`.
///
/// The handles are made once per client, so install a recorder before [`connect`](crate::connect). There is no
/// label for the key: keys are many, and a label for each would drown the recorder.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) engine: &'static str,
    waiting: Gauge,
    held: Gauge,
    acquired: Counter,
    busy: Counter,
    timed_out: Counter,
    cancelled: Counter,
    failed: Counter,
    wait_seconds: Histogram,
    hold_seconds: Histogram,
    renewed: Counter,
    renew_failed: Counter,
    renew_margin: Histogram,
    expired: Counter,
    gone: Counter,
    abandoned: Counter,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired,
    Busy,
    TimedOut,
    Failed,
    Cancelled,
}

impl From<&Error> for Outcome {
    fn from(err: &Error) -> Self {
        if err.kind() == ErrorKind::Timeout { Self::TimedOut } else { Self::Failed }
    }
}

impl Observer {
    pub(crate) fn new(engine: &'static str) -> Self {
        let outcome =
            |outcome| metrics::counter!("tenure_acquire_total", "engine" => engine, "outcome" => outcome);
        let renewal =
            |outcome| metrics::counter!("tenure_renew_total", "engine" => engine, "outcome" => outcome);
        let lost = |reason| metrics::counter!("tenure_lost_total", "engine" => engine, "reason" => reason);
        Self {
            engine,
            waiting: metrics::gauge!("tenure_waiting", "engine" => engine),
            held: metrics::gauge!("tenure_held", "engine" => engine),
            acquired: outcome("acquired"),
            busy: outcome("busy"),
            timed_out: outcome("timeout"),
            cancelled: outcome("cancelled"),
            failed: outcome("error"),
            wait_seconds: metrics::histogram!("tenure_acquire_wait_seconds", "engine" => engine),
            hold_seconds: metrics::histogram!("tenure_hold_seconds", "engine" => engine),
            renewed: renewal("renewed"),
            renew_failed: renewal("error"),
            renew_margin: metrics::histogram!("tenure_renew_margin_ratio", "engine" => engine),
            expired: lost("expired"),
            gone: lost("gone"),
            abandoned: metrics::counter!("tenure_release_abandoned_total", "engine" => engine),
        }
    }

    pub(crate) fn waits(&self) {
        self.waiting.increment(1.0);
    }

    pub(crate) fn waited(&self, outcome: Outcome, waited: Duration) {
        self.waiting.decrement(1.0);
        match outcome {
            Outcome::Acquired => {
                self.acquired.increment(1);
                self.wait_seconds.record(waited);
            }
            Outcome::Busy => self.busy.increment(1),
            Outcome::TimedOut => self.timed_out.increment(1),
            Outcome::Failed => self.failed.increment(1),
            Outcome::Cancelled => self.cancelled.increment(1),
        }
    }

    pub(crate) fn holds(&self) {
        self.held.increment(1.0);
    }

    pub(crate) fn held(&self, held: Duration) {
        self.held.decrement(1.0);
        self.hold_seconds.record(held);
    }

    /// `margin` is how much of the lease was left when the renewal was confirmed: it falls before anything is lost.
    pub(crate) fn renewed(&self, margin: Option<f64>) {
        self.renewed.increment(1);
        if let Some(margin) = margin {
            self.renew_margin.record(margin);
        }
    }

    pub(crate) fn renew_failed(&self, err: &Error) {
        self.renew_failed.increment(1);
        tracing::warn!(engine = self.engine, error = %err, "a renewal failed; it is tried again until the lease ends");
    }

    pub(crate) fn lost(&self, claim: &tenure_core::Claim, loss: Loss) {
        match loss {
            Loss::Expired => self.expired.increment(1),
            Loss::Gone => self.gone.increment(1),
        }
        tracing::warn!(engine = self.engine, key = %claim.key, claim = %claim.id, %loss, "a lock was lost while it was held");
    }

    pub(crate) fn abandoned(&self, claim: &tenure_core::Claim, err: Option<&Error>) {
        self.abandoned.increment(1);
        let error = err.map(tracing::field::display);
        tracing::warn!(engine = self.engine, key = %claim.key, claim = %claim.id, error, "a release was given up; the place stays until its lease or its process ends");
    }
}
