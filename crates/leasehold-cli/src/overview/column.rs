//! The columns of the table: cells and sort order.

use super::row::{Held, Row};
pub(crate) use crate::args::Column;
use crate::duration::show;
use crate::shown::shown;
use clap::ValueEnum;
use std::cmp::Ordering;

/// The text of an empty cell.
const NOTHING: &str = "-";

/// A sort key.
enum Value<'a> {
    Missing,
    Number(f64),
    Text(&'a str),
}

impl Column {
    /// All columns, from left to right.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Kind => "KIND",
            Self::Holder => "HOLDER",
            Self::Grants => "GRANTS/S",
            Self::Held => "HELD FOR",
            Self::Lease => "LEASE LEFT",
            Self::Waiters => "WAITERS",
            Self::Queue => "QUEUE",
            Self::Wait => "LONGEST WAIT",
            Self::Problems => "PROBLEMS",
        }
    }

    /// Returns the key that sorts by the column, and its label.
    pub(crate) const fn key(self) -> (char, &'static str) {
        match self {
            Self::Name => ('n', "name"),
            Self::Kind => ('k', "kind"),
            Self::Holder => ('o', "holder"),
            Self::Grants => ('g', "grants"),
            Self::Held => ('h', "held"),
            Self::Lease => ('l', "lease"),
            Self::Waiters => ('w', "waiters"),
            Self::Queue => ('u', "queue"),
            Self::Wait => ('t', "wait"),
            Self::Problems => ('!', "problems"),
        }
    }

    pub(crate) fn of_key(key: char) -> Option<Self> {
        Self::all().find(|column| column.key().0 == key)
    }

    /// Returns whether the column contains numbers or times, which are right-aligned.
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Self::Grants | Self::Held | Self::Lease | Self::Waiters | Self::Queue | Self::Wait)
    }

    /// Returns whether the largest value comes first by default. For leases, the earliest end comes first.
    const fn is_descending(self) -> bool {
        self.is_number() && !matches!(self, Self::Lease)
    }

    /// Returns the text of a cell.
    pub(crate) fn text(self, row: &Row) -> String {
        let found = &row.found;
        let text = match self {
            Self::Name => Some(shown(&found.name)),
            Self::Kind => Some(found.kind.word().to_owned()),
            Self::Holder => Some(found.holder.clone()),
            Self::Grants => row.grants.map(|grants| format!("{grants:.2}")),
            Self::Held => match row.held {
                Held::Unknown => None,
                Held::Said(time) => Some(show(time)),
                Held::AtLeast(time) => Some(format!("> {}", show(time))),
            },
            Self::Lease => found.lease.map(show),
            Self::Waiters => found.listeners.map(|listeners| listeners.to_string()),
            Self::Queue => found.queue.map(|queue| queue.to_string()),
            Self::Wait => found.wait.map(show),
            Self::Problems => Some(found.problems.clone()),
        };
        text.unwrap_or_else(|| NOTHING.to_owned())
    }

    /// Compares two rows. A row without a value always comes last.
    pub(crate) fn compare(self, one: &Row, other: &Row, is_reversed: bool) -> Ordering {
        let order = match (self.value(one), self.value(other)) {
            (Value::Missing, Value::Missing) => return Ordering::Equal,
            (Value::Missing, _) => return Ordering::Greater,
            (_, Value::Missing) => return Ordering::Less,
            (Value::Number(one), Value::Number(other)) => one.total_cmp(&other),
            (Value::Text(one), Value::Text(other)) => one.cmp(other),
            _ => Ordering::Equal,
        };
        if self.is_descending() == is_reversed { order } else { order.reverse() }
    }

    fn value(self, row: &Row) -> Value<'_> {
        let found = &row.found;
        // f64 represents counts of this size exactly.
        let number = match self {
            Self::Name => return Value::Text(&found.name),
            Self::Kind => return Value::Text(found.kind.word()),
            Self::Holder if row.is_gone || found.holder == NOTHING => None,
            Self::Holder => return Value::Text(&found.holder),
            Self::Problems if found.problems.is_empty() => None,
            Self::Problems => return Value::Text(&found.problems),
            Self::Grants => row.grants,
            Self::Held => row.held.time().map(|time| time.as_secs_f64()),
            Self::Lease => found.lease.map(|time| time.as_secs_f64()),
            Self::Waiters => found.listeners.map(|listeners| listeners as f64),
            Self::Queue => found.queue.map(|queue| queue as f64),
            Self::Wait => found.wait.map(|time| time.as_secs_f64()),
        };
        number.map_or(Value::Missing, Value::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{lock, row};
    use super::*;
    use crate::overview::row::Found;
    use std::collections::BTreeSet;
    use std::time::Duration;

    #[test]
    fn every_column_has_a_key_of_its_own() {
        let keys: BTreeSet<_> = Column::all().map(|column| column.key().0).collect();
        assert_eq!(keys.len(), Column::all().count());
        assert!(Column::all().all(|column| Column::of_key(column.key().0) == Some(column)));
        assert!(['q', 'p', '/', '?'].iter().all(|taken| !keys.contains(taken)));
    }

    #[test]
    fn rows_without_a_value_come_last_whichever_way_round() {
        let with = |lease: Option<u64>| row(Found { lease: lease.map(Duration::from_secs), ..lock("stock") });
        for (is_reversed, expected) in [(false, Ordering::Less), (true, Ordering::Greater)] {
            assert_eq!(Column::Lease.compare(&with(Some(1)), &with(Some(2)), is_reversed), expected);
            assert_eq!(Column::Lease.compare(&with(Some(1)), &with(None), is_reversed), Ordering::Less);
            assert_eq!(Column::Lease.compare(&with(None), &with(Some(1)), is_reversed), Ordering::Greater);
        }
        let queued = |queue| row(Found { queue: Some(queue), ..lock("stock") });
        assert_eq!(Column::Queue.compare(&queued(9), &queued(10), false), Ordering::Greater, "the longest first");
    }

    #[test]
    fn names_are_harmless() {
        let row = row(lock("a\u{1b}[2J\u{202e}b"));
        assert_eq!(Column::Name.text(&row), r"a\u{1b}[2J\u{202e}b");
    }
}
