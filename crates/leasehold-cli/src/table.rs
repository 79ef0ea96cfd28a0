//! A table whose rows are printed as they come.

use std::fmt::Write as _;

/// How wide a column becomes at the most. A longer cell moves the rest of its own row alone.
const WIDEST: usize = 60;

/// The widths of the columns. They grow with the cells, because the rows to come are not known.
pub(crate) struct Table<const N: usize> {
    widths: [usize; N],
}

impl<const N: usize> Table<N> {
    /// A table whose columns are at least so wide.
    pub(crate) const fn new(widths: [usize; N]) -> Self {
        Self { widths }
    }

    /// A row, with its line break.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: [T; N]) -> String {
        let mut row = String::new();
        for (cell, width) in cells.iter().zip(&mut self.widths) {
            let cell = cell.as_ref();
            *width = cell.chars().count().min(WIDEST).max(*width);
            // A string takes every text.
            let _ = write!(row, "{cell:width$}  ", width = *width);
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
        assert_eq!(table.row(["a", ""]), "a\n");
        assert_eq!(table.row(["a", "b"]), "a      b\n");
        let long = "x".repeat(WIDEST + 9);
        assert_eq!(table.row([long.as_str(), "b"]), format!("{long}  b\n"));
        assert_eq!(table.row(["a", "b"]).len(), WIDEST + 4);
    }
}
