//! Locks for tests.

use super::column::Column;
use super::looks::Wanted;
use super::row::{Found, Held, Row};
use super::state::State;
use leasehold::FoundKind;
use std::time::Duration;

/// A plain lock that a process holds which says nothing of itself.
pub(super) fn lock(name: &str) -> Found {
    Found {
        name: name.to_owned(),
        kind: FoundKind::Lock,
        ids: vec!["6f0c:1".to_owned()],
        is_listed_whole: true,
        holder: "6f0c:1".to_owned(),
        said: None,
        lease: None,
        listeners: Some(0),
        queue: None,
        wait: None,
        problems: String::new(),
    }
}

/// The row of a lock of which one look has told.
pub(super) fn row(found: Found) -> Row {
    Row { found, is_gone: false, grants: Some(0.0), held: Held::Unknown }
}

/// A table that no look has filled yet.
pub(super) fn state() -> State {
    let wanted = Wanted { pattern: "*".to_owned(), kinds: Vec::new(), every: Duration::from_secs(1) };
    State::new("redis://127.0.0.1:6379".to_owned(), wanted, Column::Grants)
}
