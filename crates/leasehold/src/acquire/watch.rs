//! Metrics and traces of an acquire that is under way.

use crate::lock_spec::LockSpec;
use crate::telemetry;
use leasehold_core::error::AcquireError;
use leasehold_core::session::Granted;
use std::time::Duration;

/// The outcome of an acquire that was under way.
pub(super) type Attempted = Result<Option<Granted>, AcquireError>;

/// Counts an acquire that is under way, and when it ends, or is dropped, records how.
pub(super) struct Watch<'a> {
    class: &'a telemetry::Class,
    /// `None` where nothing has begun.
    outcome: Option<&'a telemetry::Outcome>,
    span: telemetry::Span,
}

impl<'a> Watch<'a> {
    /// An acquire that has not begun.
    pub(super) fn new(spec: &'a LockSpec) -> Self {
        Self { class: spec.metrics(), outcome: None, span: telemetry::span_of_acquire(spec) }
    }

    /// The span in which it is polled.
    pub(super) const fn span(&self) -> &telemetry::Span {
        &self.span
    }

    /// It begins.
    pub(super) fn begin(&mut self) {
        self.class.waiting.change(1.0);
        self.outcome = Some(&self.class.cancelled);
    }

    /// It has ended so.
    pub(super) fn end(mut self, waited: Duration, result: Attempted) -> Attempted {
        self.outcome = Some(match &result {
            Ok(Some(_)) => &self.class.acquired,
            Ok(None) => &self.class.busy,
            Err(AcquireError::WaitElapsed) => &self.class.wait_elapsed,
            Err(_) => &self.class.failed,
        });
        self.span.record("waited_ms", telemetry::millis(waited));
        if let Ok(Some(granted)) = &result {
            self.class.acquire_seconds.record(waited);
            self.class.held.change(1.0);
            if granted.handed_on {
                self.class.handed_on.add(1);
            }
            telemetry::record_hold(&self.span, &granted.cell);
        }
        result
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            self.class.waiting.change(-1.0);
            outcome.count();
            self.span.record("outcome", outcome.word);
        }
    }
}
