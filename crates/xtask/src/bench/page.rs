//! The page of a run: its facts, a table and pictures for each row, and the figures of every round beside it.

use super::{
    chart::{self, Bars},
    figures::Figures,
    row::{Metric, Row, Shown},
};
use crate::record;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) struct Page<'r> {
    pub(crate) facts: &'r [(&'static str, String)],
    pub(crate) rows: &'r [Row],
    pub(crate) figures: &'r Figures,
    /// The peers that are not in all tables, with the reason.
    pub(crate) left_out: &'r [String],
}

impl Page<'_> {
    /// Writes `bench.md` into the folder, and the pictures and `rounds.tsv` into `bench` below it.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, String> {
        let beside = folder.join("bench");
        let put = |path: &Path, text: String| {
            fs::write(path, text).map_err(|error| format!("{} cannot be written: {error}", path.display()))
        };
        fs::create_dir_all(&beside).map_err(|error| format!("{} cannot be made: {error}", beside.display()))?;
        for row in self.rows {
            for picture in row.pictures() {
                let groups = self.bars(*row, picture.metric);
                let has_base = picture.metric.shown == Shown::ToBase;
                let drawn = chart::draw(picture.title, picture.scale, has_base, &groups);
                put(&beside.join(format!("{}.svg", picture.file)), drawn)?;
            }
        }
        put(&beside.join("rounds.tsv"), self.figures.as_text())?;
        let path = folder.join("bench.md");
        put(&path, self.text())?;
        Ok(path)
    }

    fn text(&self) -> String {
        let left_out: Vec<_> = self.left_out.iter().map(|one| format!("- {one}\n")).collect();
        let left_out =
            if left_out.is_empty() { String::new() } else { format!("\nLeft out:\n\n{}", left_out.concat()) };
        format!(
            "# Figures of `cargo xtask bench`\n\nFor readers of [performance](../performance.md) who want the figures of the last recorded \
             run.\n`cargo xtask record bench` wrote this page.\n\n{}\nEvery figure is the median of the rounds, with the least and the \
             greatest in brackets. Most are ratios to a base that was measured in the\nsame round, which the table names; only those can be \
             compared with another machine. [The figures of every round](bench/rounds.tsv) are\nas they were measured.\n{left_out}\n{}",
            record::table(self.facts),
            self.sections(true)
        )
    }

    /// The tables alone, for a terminal.
    pub(crate) fn tables(&self) -> String {
        self.sections(false)
    }

    fn sections(&self, pictures: bool) -> String {
        let section = |row: &Row| {
            let tables: Vec<_> = self.figures.cases(*row).iter().map(|case| self.table(*row, case)).collect();
            let tables = if tables.is_empty() { "It was not measured.\n".to_owned() } else { tables.join("\n") };
            let shown = row.pictures().iter().filter(|_| pictures);
            let shown: String =
                shown.map(|picture| format!("\n![{}](bench/{}.svg)\n", picture.title, picture.file)).collect();
            format!("## {}\n\n{}\n\n{tables}{shown}", row.title(), row.about())
        };
        self.rows.iter().map(section).collect::<Vec<_>>().join("\n")
    }

    /// A line for each peer, a column for each metric.
    fn table(&self, row: Row, case: &str) -> String {
        let has_base = row.metrics().iter().any(|metric| metric.shown == Shown::ToBase);
        let case_and_base = if has_base { format!("{case}, to {}", row.base()) } else { case.to_owned() };
        let peers = self.figures.peers(row, case);
        let cell = |peer: &str, metric: &Metric| match metric.shown {
            Shown::ToBase if peer == row.base() => "1".to_owned(),
            _ => self.figures.claim(row, case, peer, metric).map(|claim| claim.to_string()).unwrap_or_default(),
        };
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([case_and_base].into_iter().chain(row.metrics().iter().map(|metric| metric.name.to_owned())));
        for peer in peers {
            let cells = row.metrics().iter().map(|metric| cell(peer, metric));
            table.add_row([peer.to_owned()].into_iter().chain(cells));
        }
        format!("{table}\n")
    }

    fn bars(&self, row: Row, metric: &Metric) -> Vec<Bars<'_>> {
        let bars = |case| {
            let peers = self.figures.peers(row, case).into_iter();
            let bars = peers.filter_map(|peer| Some((peer, self.figures.claim(row, case, peer, metric)?))).collect();
            Bars { case, bars }
        };
        self.figures.cases(row).into_iter().map(bars).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{P50, P99};
    use super::*;

    #[test]
    fn page_has_facts_tables_pictures_and_those_left_out() {
        let mut figures = Figures::default();
        for (peer, figure) in [("bare fred", 200.0), ("leasehold", 230.0)] {
            figures.add(Row::Wake, "one waiter", peer, &P50, figure);
        }
        figures.add(Row::Wake, "one waiter", "leasehold", &P99, 900.0);
        let left_out = ["redsync: there is no Go here".to_owned()];
        let facts = [("machine", "2 cores".to_owned())];
        let page = Page { facts: &facts, rows: &[Row::Wake, Row::Hot], figures: &figures, left_out: &left_out };
        let text = page.text();
        for part in [
            "| machine | 2 cores |",
            "- redsync: there is no Go here",
            "](bench/wake-up.svg)",
            "one waiter, to bare fred",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("It was not measured."), "a row without figures says so: {text}");
        let row = text.lines().find(|line| line.starts_with("| leasehold")).expect("a line");
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "leasehold", "1.15", "", ""], "a figure without its base is no ratio");
        assert!(!page.tables().contains("svg"));
    }
}
