//! A table for tests.

use super::state::State;
use crate::overview::column::Column;
use crate::overview::scans::Wanted;
use std::time::Duration;

/// Returns a table before the first scan.
pub(super) fn state() -> State {
    let wanted = Wanted { pattern: "*".to_owned(), kinds: Vec::new(), every: Duration::from_secs(1) };
    State::new("redis://127.0.0.1:6379".to_owned(), wanted, Column::Grants)
}
