//! The report of a run, in Markdown: a table for each row and each size of its work.

use crate::{
    figures::Figures,
    row::{Metric, Row, Shown},
};

/// The tables of the rows.
pub(crate) fn page(rows: &[Row], figures: &Figures) -> String {
    let section = |row: &Row| {
        let tables: Vec<_> = figures.cases(*row).iter().map(|case| table(*row, case, figures)).collect();
        let tables = if tables.is_empty() { "Not measured.\n".to_owned() } else { tables.join("\n") };
        format!("\n## {}\n\n{}\n\n{tables}", row.title(), row.about())
    };
    rows.iter().map(section).collect()
}

/// A line for each peer, a column for each metric.
fn table(row: Row, case: &str, figures: &Figures) -> String {
    let metrics = row.metrics();
    let has_base = metrics.iter().any(|metric| metric.shown == Shown::ToBase);
    let head = if has_base { format!("{case}, to {}", row.base()) } else { case.to_owned() };
    let cell = |peer: &str, metric: &Metric| match metric.shown {
        Shown::ToBase if peer == row.base() => "1".to_owned(),
        _ => figures.claim(row, case, peer, metric).map(|claim| claim.to_string()).unwrap_or_default(),
    };
    let mut lines = vec![[head].into_iter().chain(metrics.iter().map(|metric| metric.name.to_owned())).collect()];
    for peer in figures.peers(row, case) {
        let cells = metrics.iter().map(|metric| cell(peer, metric));
        lines.push([peer.to_owned()].into_iter().chain(cells).collect());
    }
    markdown(&lines)
}

/// A table whose first line is the head, with columns of equal width.
fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..columns).map(width).collect();
    let shown = |line: &Vec<String>| {
        let cells = line.iter().zip(widths.iter().copied()).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: String = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect();
    let mut shown: Vec<_> = lines.iter().map(shown).collect();
    shown.insert(1, format!("|{rule}\n"));
    shown.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{P50, P99};

    #[test]
    fn page_has_a_table_of_ratios_for_each_row() {
        let mut figures = Figures::default();
        for (peer, figure) in [("bare fred", 200.0), ("leasehold", 230.0)] {
            figures.add(Row::Wake, "one waiter", peer, &P50, figure);
        }
        figures.add(Row::Wake, "one waiter", "leasehold", &P99, 900.0);
        let text = page(&[Row::Wake, Row::Hot], &figures);
        let table = "| one waiter, to bare fred | p50  | p99 |\n\
                     |--------------------------|------|-----|\n\
                     | bare fred                | 1    | 1   |\n\
                     | leasehold                | 1.15 |     |\n";
        assert!(text.contains(table), "a figure without its base is no ratio: {text}");
        assert!(text.ends_with("Not measured.\n"), "{text}");
    }
}
