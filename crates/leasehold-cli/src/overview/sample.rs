//! Locks for tests.

use super::row::{Found, Held, Holding, Row};
use leasehold::inspect::FoundKind;

/// Returns a plain lock with an unannounced holder.
pub(crate) fn lock(name: &str) -> Found {
    Found {
        name: name.to_owned(),
        kind: FoundKind::Lock,
        holds: vec![hold("6f0c:1")],
        is_listed_whole: true,
        held: 1,
        holder: "6f0c:1".to_owned(),
        said: None,
        lease: None,
        listeners: Some(0),
        queue: None,
        wait: None,
        problems: String::new(),
    }
}

/// Returns the row of a lock after one scan.
pub(crate) fn row(found: Found) -> Row {
    Row { found, is_gone: false, grants: Some(0.0), held: Held::Unknown, since: None, is_older: false }
}

/// Returns the hold of an unannounced holder.
pub(crate) fn hold(id: &str) -> Holding {
    Holding { id: id.to_owned(), half: None, process: None, said: None, lease: None, is_late: false }
}
