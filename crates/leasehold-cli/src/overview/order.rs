//! Filters and sorts the rows.

use super::column::Column;
use super::filter;
use super::row::Row;
use leasehold::inspect::FoundKind;
use std::cmp::Ordering;

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sort {
    pub(crate) column: Column,
    pub(crate) is_reversed: bool,
}

/// Returns the sorted row numbers that match the filter and the kinds. Empty kinds match every kind. Ties sort by
/// waiters, age and name.
pub(crate) fn in_order(rows: &[Row], filter: &str, kinds: &[FoundKind], sort: Sort) -> Vec<usize> {
    let is_wanted = |row: &Row| kinds.is_empty() || kinds.contains(&row.found.kind);
    let fits = |at: &usize| is_wanted(&rows[*at]) && (filter.is_empty() || filter::fits(filter, &rows[*at]));
    let mut order: Vec<usize> = (0..rows.len()).filter(fits).collect();
    order.sort_by(|one, other| compare(&rows[*one], &rows[*other], sort));
    order
}

fn compare(one: &Row, other: &Row, sort: Sort) -> Ordering {
    let by_waiters = || other.found.waiting().cmp(&one.found.waiting());
    let by_age = || Column::Held.compare(one, other, false);
    let by_name = || one.found.name.cmp(&other.found.name);
    let by_column = sort.column.compare(one, other, sort.is_reversed);
    by_column.then_with(by_waiters).then_with(by_age).then_with(by_name)
}

#[cfg(test)]
mod tests {
    use super::super::row::Found;
    use super::super::sample::{lock, row};
    use super::*;

    #[test]
    fn filter_and_kinds_choose_and_waiters_break_ties() {
        let of = |name: &str, kind, waiters| row(Found { kind, listeners: Some(waiters), ..lock(name) });
        let rows = [
            of("stock:1", FoundKind::Lock, 1),
            of("stock:2", FoundKind::SimpleLock, 3),
            of("order:1", FoundKind::Lock, 2),
            of("stock:3", FoundKind::Lock, 2),
        ];
        let sort = Sort { column: Column::Grants, is_reversed: false };
        assert_eq!(in_order(&rows, "", &[], sort), [1, 2, 3, 0]);
        assert_eq!(in_order(&rows, "stock", &[FoundKind::Lock], sort), [3, 0]);
        assert_eq!(in_order(&rows, "", &[FoundKind::Counter], sort), [0; 0]);
    }
}
