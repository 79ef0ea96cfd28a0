//! Entries that a flow has named, and that are not there although they must be: a bug of the session.
//!
//! Builds with debug assertions stop there: tests, random worlds, the fuzzer. Elsewhere the flow ends without effect, because a wrong answer
//! to one caller is better than the end of a client that holds locks, and the client's user is told by an event.

use std::cell::Cell;
use std::panic::Location;

/// The last place that has named an entry that is missing.
#[derive(Debug, Default)]
pub(super) struct Missing(Cell<Option<&'static Location<'static>>>);

impl Missing {
    /// Notes that an entry is missing which the caller has named.
    #[track_caller]
    pub(super) fn note(&self) {
        let place = Location::caller();
        debug_assert!(false, "{place} names an entry that is not there");
        self.0.set(Some(place));
    }

    /// The place that was noted since this was asked last.
    pub(super) fn take(&self) -> Option<&'static Location<'static>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "names an entry that is not there"))]
    fn missing_entry_stops_a_debug_build_and_is_told_once_elsewhere() {
        let missing = Missing::default();
        missing.note();
        assert!(missing.take().is_some_and(|place| place.file() == file!()));
        assert!(missing.take().is_none());
    }
}
