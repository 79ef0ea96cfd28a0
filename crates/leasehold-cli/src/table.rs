//! A table that prints each row immediately.

use unicode_width::UnicodeWidthStr as _;

/// Maximum width of a column. A longer cell shifts the rest of its row.
const WIDEST: usize = 60;

/// The widths of the columns, which grow with the cells.
pub(crate) struct Table<const N: usize> {
    widths: [usize; N],
}

impl<const N: usize> Table<N> {
    /// Creates a table with minimum widths.
    pub(crate) const fn new(widths: [usize; N]) -> Self {
        Self { widths }
    }

    /// Widens the columns for a row that follows later.
    pub(crate) fn fit<T: AsRef<str>>(&mut self, cells: &[T; N]) {
        for (cell, width) in cells.iter().zip(&mut self.widths) {
            *width = cell.as_ref().width().min(WIDEST).max(*width);
        }
    }

    /// Formats a row with its line break.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: [T; N]) -> String {
        self.fit(&cells);
        let mut row = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            let cell = cell.as_ref();
            row.push_str(cell);
            row.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width()) + 2));
        }
        row.truncate(row.trim_end().len());
        row.push('\n');
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_grow_up_to_a_bound_and_stay_wide() {
        let mut table = Table::new([4, 2]);
        assert_eq!(table.row(["a", "b"]), "a     b\n");
        assert_eq!(table.row(["stöck", "b"]), "stöck  b\n");
        assert_eq!(table.row(["倉庫a", "b"]), "倉庫a  b\n", "the first two characters are two columns wide");
        assert_eq!(table.row(["e\u{301}", "b"]), "e\u{301}      b\n", "an accent is zero columns wide");
        assert_eq!(table.row(["a", ""]), "a\n");
        assert_eq!(table.row(["a", "b"]), "a      b\n");
        let long = "x".repeat(WIDEST + 9);
        assert_eq!(table.row([long.as_str(), "b"]), format!("{long}  b\n"));
        assert_eq!(table.row(["a", "b"]).len(), WIDEST + 4);
    }
}
