//! Calls of code that is not ours: wakers of futures, recorders of metrics, subscribers of traces.
//!
//! A panic of such code must not end the background, because every hold of the client would be lost with it. It must not end an acquire or a
//! release halfway either, because the client would renew a lock without a guard. The panic is caught, counted and
//! logged. Before that, the panic hook reports it with its location.

use crate::telemetry::names::FOREIGN_PANIC_TOTAL;
use metrics::counter;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Which code is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Foreign {
    /// The waker of a future that waits.
    Waker,
    /// A recorder of metrics, or a subscriber of traces.
    Telemetry,
}

impl Foreign {
    const fn word(self) -> &'static str {
        match self {
            Self::Waker => "waker",
            Self::Telemetry => "telemetry",
        }
    }
}

/// Calls foreign code. A panic ends here.
pub(crate) fn call(what: Foreign, work: impl FnOnce()) {
    value(what, work);
}

/// Calls foreign code for a value. Catches a panic, and returns `None` then.
pub(crate) fn value<T>(what: Foreign, work: impl FnOnce() -> T) -> Option<T> {
    let value = catch_unwind(AssertUnwindSafe(work)).ok();
    if value.is_none() {
        report(what);
    }
    value
}

fn report(what: Foreign) {
    // Metrics recorders and log subscribers are foreign code too.
    let told = catch_unwind(|| {
        counter!(FOREIGN_PANIC_TOTAL, "code" => what.word()).increment(1);
    });
    let logged = catch_unwind(|| {
        tracing::error!(
            code = what.word(),
            "code of the application panicked when leasehold called it; leases are still renewed"
        );
    });
    drop((told, logged));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_foreign_code_ends_at_the_call() {
        call(Foreign::Waker, || panic!("as an application would"));
        let mut called = false;
        call(Foreign::Telemetry, || called = true);
        assert!(called);
        assert_eq!(value(Foreign::Telemetry, || -> u32 { panic!("as a recorder would") }), None);
        assert_eq!(value(Foreign::Telemetry, || 7), Some(7));
    }
}
