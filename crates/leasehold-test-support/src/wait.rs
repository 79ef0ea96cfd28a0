//! Polling until a condition holds, with a deadline: the only form of sleep that a test may use for ordering.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long [`until`] and [`eventually`] wait before they give up. It is long because the machine may be busy; a condition
/// that holds is seen within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks until `holds` returns true.
///
/// # Panics
///
/// When it does not within a minute; `what` is the text of the panic.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Blocks until `find` returns a value, and returns it.
///
/// # Panics
///
/// When it does not within a minute; `what` is the text of the panic.
#[track_caller]
pub fn eventually<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
