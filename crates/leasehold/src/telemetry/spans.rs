//! The spans of acquires, holds and releases.

use super::names::{SPAN_ACQUIRE, SPAN_HOLD, SPAN_RELEASE};
use crate::lock::spec::LockSpec;
use crate::runtime::user_code::{self, UserCode};
use leasehold_core::hold_cell::HoldCell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The level of the spans of a client. See [`ClientBuilder::span_level`](crate::ClientBuilder::span_level).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanLevel {
    /// For debugging.
    #[default]
    Debug,
    /// For applications whose traces always show their locks.
    Info,
}

/// A span that catches panics of its subscriber, which is user code.
pub(crate) struct Span(tracing::Span);

impl Span {
    fn new(make: impl FnOnce() -> tracing::Span) -> Self {
        Self(user_code::value(UserCode::Telemetry, make).unwrap_or_else(tracing::Span::none))
    }

    pub(crate) fn record(&self, field: &'static str, value: impl tracing::Value) {
        user_code::call(UserCode::Telemetry, || {
            self.0.record(field, value);
        });
    }

    /// Runs `work` in the span, even if the subscriber panics.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered(user_code::value(UserCode::Telemetry, || self.0.enter()));
        work()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        user_code::call(UserCode::Telemetry, || self.0 = tracing::Span::none());
    }
}

/// An entered span. Dropping it exits the span.
struct Entered<'a>(Option<tracing::span::Entered<'a>>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        user_code::call(UserCode::Telemetry, || drop(self.0.take()));
    }
}

/// A future that is polled and dropped in a span.
pub(crate) struct InSpan<'a, F> {
    work: Pin<&'a mut Option<F>>,
    span: &'a Span,
}

impl<'a, F: Future> InSpan<'a, F> {
    pub(crate) const fn new(work: Pin<&'a mut Option<F>>, span: &'a Span) -> Self {
        Self { work, span }
    }

    /// Polls the future, which must not be polled after completion.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let work = self.work.as_mut().as_pin_mut();
        self.span.in_scope(|| work.map_or(Poll::Pending, |work| work.poll(cx)))
    }
}

impl<F> Drop for InSpan<'_, F> {
    fn drop(&mut self) {
        self.span.in_scope(|| self.work.set(None));
    }
}

/// Creates a span of an operation on a lock, at the client's level. Unknown fields are recorded later.
macro_rules! span {
    ($name:expr, $spec:expr) => {
        Span::new(|| match $spec.handle().settings.span_level {
            SpanLevel::Debug => span!(debug_span, $name, $spec),
            SpanLevel::Info => span!(info_span, $name, $spec),
        })
    };
    ($at_level:ident, $name:expr, $spec:expr) => {
        tracing::$at_level!(
            $name,
            lock = $spec.handle().settings.span_lock_names.then(|| $spec.name()),
            class = &*$spec.metrics().name,
            outcome = tracing::field::Empty,
            waited_ms = tracing::field::Empty,
            holder = tracing::field::Empty,
            token = tracing::field::Empty
        )
    };
}

/// The span of an acquire.
pub(crate) fn span_of_acquire(spec: &LockSpec) -> Span {
    span!(SPAN_ACQUIRE, spec)
}

/// The span of work under this hold.
pub(crate) fn span_of_hold(spec: &LockSpec, hold: &HoldCell) -> Span {
    about(span!(SPAN_HOLD, spec), hold)
}

/// The span of a release of this hold.
pub(crate) fn span_of_release(spec: &LockSpec, hold: &HoldCell) -> Span {
    about(span!(SPAN_RELEASE, spec), hold)
}

fn about(span: Span, hold: &HoldCell) -> Span {
    record_hold(&span, hold);
    span
}

/// Records the hold of a span.
pub(crate) fn record_hold(span: &Span, hold: &HoldCell) {
    if span.0.is_disabled() {
        return;
    }
    span.record("holder", &*String::from_utf8_lossy(&hold.field()));
    if let Some(token) = hold.token() {
        span.record("token", token);
    }
}
