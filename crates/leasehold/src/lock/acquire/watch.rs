//! Metrics and traces of a running acquire.

use crate::lock::spec::LockSpec;
use crate::telemetry::{self, event};
use leasehold_core::error::AcquireError;
use leasehold_core::session::Granted;
use std::time::Duration;

/// The outcome of an acquire.
pub(super) type Attempted = Result<Option<Granted>, AcquireError>;

/// Counts a running acquire, and records its outcome at its end or drop.
pub(super) struct Watch<'a> {
    spec: &'a LockSpec,
    /// `None` before the acquire has started.
    outcome: Option<&'a telemetry::Outcome>,
    span: telemetry::Span,
}

impl<'a> Watch<'a> {
    /// Creates the watch of an acquire that has not started.
    pub(super) fn new(spec: &'a LockSpec) -> Self {
        Self { spec, outcome: None, span: telemetry::span_of_acquire(spec) }
    }

    /// Returns the span of the acquire.
    pub(super) const fn span(&self) -> &telemetry::Span {
        &self.span
    }

    /// Records the start.
    pub(super) fn begin(&mut self) {
        self.spec.metrics().waiting.change(1.0);
        self.outcome = Some(&self.spec.metrics().cancelled);
    }

    /// Records the end.
    pub(super) fn end(mut self, waited: Duration, result: Attempted) -> Attempted {
        let (spec, class) = (self.spec, self.spec.metrics());
        let outcome = match &result {
            Ok(Some(_)) => &class.acquired,
            Ok(None) => &class.busy,
            Err(AcquireError::WaitElapsed) => &class.wait_elapsed,
            Err(_) => &class.failed,
        };
        self.outcome = Some(outcome);
        event!(
            debug,
            lock = spec.name(),
            kind = spec.kind_word(),
            outcome = outcome.word,
            waited_ms = telemetry::millis(waited),
            "an acquire ended"
        );
        self.span.record("waited_ms", telemetry::millis(waited));
        if let Ok(Some(granted)) = &result {
            class.acquire_seconds.record(waited);
            class.held.change(1.0);
            if granted.handed_on {
                class.handed_on.add(1);
            }
            telemetry::record_hold(&self.span, &granted.cell);
        }
        result
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            self.spec.metrics().waiting.change(-1.0);
            outcome.count();
            self.span.record("outcome", outcome.word);
        }
    }
}
