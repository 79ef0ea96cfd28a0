//! The filter of the table.

use super::column::Column;
use super::row::Row;

/// Returns whether the name, kind, holder or problems contain the filter, ignoring case. A `*` matches any text.
pub(crate) fn fits(filter: &str, row: &Row) -> bool {
    let filter = filter.to_lowercase();
    let columns = [Column::Name, Column::Kind, Column::Holder, Column::Problems];
    columns.into_iter().any(|column| has(&column.text(row).to_lowercase(), &filter))
}

/// Returns whether a text contains, in order, the parts between the `*`.
fn has(text: &str, filter: &str) -> bool {
    let mut rest = text;
    filter.split('*').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{lock, row};
    use super::*;

    #[test]
    fn filter_is_found_anywhere_and_has_stars() {
        let row = row(lock("shop:stöck:1001"));
        for filter in ["", "STÖCK", "shop*1", "*", "1001", "shop:*:1", "6f0c", "lock"] {
            assert!(fits(filter, &row), "{filter}");
        }
        for filter in ["1001*shop", "stock", "shop**x", "fair"] {
            assert!(!fits(filter, &row), "{filter}");
        }
    }
}
