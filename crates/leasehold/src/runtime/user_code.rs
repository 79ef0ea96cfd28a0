//! Calls of user code: wakers of futures, metrics recorders and trace subscribers.
//!
//! A panic of user code must not end the background, which would lose every hold of the client. It must not interrupt an acquire or a
//! release, which would leave a renewed lock without a guard. This module catches, counts and logs the panic, after the panic hook has
//! reported its location.

use crate::telemetry::names::USER_CODE_PANIC_TOTAL;
use metrics::counter;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kind of user code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserCode {
    /// The waker of a waiting future.
    Waker,
    /// A metrics recorder or a trace subscriber.
    Telemetry,
}

impl UserCode {
    const fn word(self) -> &'static str {
        match self {
            Self::Waker => "waker",
            Self::Telemetry => "telemetry",
        }
    }
}

/// Calls user code, and catches its panic.
pub(crate) fn call(what: UserCode, work: impl FnOnce()) {
    value(what, work);
}

/// Calls user code for a value. Returns `None` after a panic.
pub(crate) fn value<T>(what: UserCode, work: impl FnOnce() -> T) -> Option<T> {
    let value = catch_unwind(AssertUnwindSafe(work)).ok();
    if value.is_none() {
        report(what);
    }
    value
}

fn report(what: UserCode) {
    // Metrics recorders and log subscribers are user code too.
    let told = catch_unwind(|| {
        counter!(USER_CODE_PANIC_TOTAL, "code" => what.word()).increment(1);
    });
    let logged = catch_unwind(|| {
        tracing::error!(
            code = what.word(),
            "application code panicked in a call by leasehold; leases are still renewed"
        );
    });
    drop((told, logged));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_foreign_code_ends_at_the_call() {
        call(UserCode::Waker, || panic!("as an application would"));
        let mut called = false;
        call(UserCode::Telemetry, || called = true);
        assert!(called);
        assert_eq!(value(UserCode::Telemetry, || -> u32 { panic!("as a recorder would") }), None);
        assert_eq!(value(UserCode::Telemetry, || 7), Some(7));
    }
}
