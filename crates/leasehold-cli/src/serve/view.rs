//! The texts of a page, for HTML and for live changes.

use super::details::Detail;
use super::query::{PAGE, Query};
use super::sample::Sample;
use crate::moment;
use crate::overview::column::Column;
use crate::overview::order::in_order;
use crate::overview::row::Row;
use crate::overview::{Picture, Server, words};
use crate::shown::shown;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of cached queries per look.
const REMEMBERED: usize = 64;

/// The texts of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The age and totals of the table.
    pub(super) summary: String,
    /// The outage, warnings, or the interval of looks.
    pub(super) status: String,
    pub(super) is_warning: bool,
    pub(super) lines: Arc<Lines>,
    /// The ids of the holders that the page can free.
    pub(super) holders: Vec<String>,
}

/// The lines of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// The row numbers, such as `rows 1 to 100 of 10000`.
    pub(super) counts: String,
    /// Number of pages.
    pub(super) pages: usize,
    pub(super) lines: Vec<Line>,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// A unique key; in the table of all locks, the name of the lock.
    pub(super) key: String,
    pub(super) class: &'static str,
    pub(super) cells: Vec<String>,
}

/// A cache of lines, shared by browsers with the same query.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<Known>);

/// The cached lines of some rows.
#[derive(Debug, Default)]
struct Known {
    rows: Arc<Vec<Row>>,
    lines: HashMap<Query, Arc<Lines>>,
    /// The edition of the rows, and the sorted row numbers of each query. Looks at some rows keep the order, because a sort
    /// of thousands of rows costs more than the texts of a page.
    edition: u64,
    orders: HashMap<Query, Arc<Vec<usize>>>,
}

impl Views {
    /// The table of all locks.
    pub(super) fn of_table(&self, sample: &Sample, query: &Query, every: Duration) -> View {
        let (picture, now) = (&sample.picture, Instant::now());
        let summary = words::summary(picture, now).unwrap_or_else(|| "no look yet".to_owned());
        let (status, is_warning) = status(picture, now, every);
        View { summary, status, is_warning, lines: self.lines(picture, query), holders: Vec::new() }
    }

    fn lines(&self, picture: &Picture, query: &Query) -> Arc<Lines> {
        let (rows, mut known) = (&picture.rows, self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if known.edition != picture.edition || known.orders.len() >= REMEMBERED {
            *known = Known { edition: picture.edition, ..Known::default() };
        }
        if !Arc::ptr_eq(&known.rows, rows) {
            (known.rows, known.lines) = (rows.clone(), HashMap::new());
        }
        if let Some(lines) = known.lines.get(query) {
            return lines.clone();
        }
        let order = || Arc::new(in_order(rows, &query.filter, &query.kinds(), query.sort));
        let lines = Arc::new(lines(rows, known.orders.entry(query.clone()).or_insert_with(order), query));
        known.lines.insert(query.clone(), lines.clone());
        lines
    }
}

fn lines(rows: &[Row], order: &[usize], query: &Query) -> Lines {
    let pages = order.len().div_ceil(PAGE).max(1);
    let first = (query.page.min(pages) - 1) * PAGE;
    let visible: Vec<_> = order.iter().skip(first).take(PAGE).map(|at| line(&rows[*at])).collect();
    let counts = match visible.len() {
        0 => "no lock matches".to_owned(),
        count => format!("rows {} to {} of {}", first + 1, first + count, order.len()),
    };
    Lines { counts, pages, lines: visible }
}

fn line(row: &Row) -> Line {
    let class = match row {
        row if !row.found.problems.is_empty() => "problem",
        row if row.is_gone => "gone",
        _ => "",
    };
    let cells = Column::all().map(|column| column.text(row)).collect();
    Line { key: row.found.name.clone(), class, cells }
}

fn status(picture: &Picture, now: Instant, every: Duration) -> (String, bool) {
    if let Some(outage) = outage(&picture.server, now) {
        return (outage, true);
    }
    match (&picture.table, picture.looking) {
        (Some(table), _) if !words::gaps(table).is_empty() => (shown(&words::gaps(table).join("; ")), true),
        (Some(table), _) => (words::pace(table.took, every), false),
        (None, Some(looking)) => (words::first_look(looking, now), false),
        (None, None) => (String::new(), false),
    }
}

/// The outage of the server, with its start.
fn outage(server: &Server, now: Instant) -> Option<String> {
    let Server::Away { since, .. } = server else { return None };
    let since = moment::before(now.saturating_duration_since(*since));
    words::outage(server, now).map(|outage| shown(&format!("{outage} (since {since})")))
}

/// The page of one lock.
pub(super) fn of_lock(detail: &Detail) -> View {
    let outage = outage(&detail.server, Instant::now());
    let line = |(at, (label, text)): (usize, &(&str, String))| Line {
        key: at.to_string(),
        class: if *label == "WARNING" { "problem" } else { "" },
        cells: vec![(*label).to_owned(), text.clone()],
    };
    let lines = detail.lines.iter().enumerate().map(line).collect();
    View {
        summary: shown(&detail.headline),
        is_warning: outage.is_some(),
        status: outage.unwrap_or_default(),
        lines: Arc::new(Lines { counts: String::new(), pages: 1, lines }),
        holders: detail.holders.iter().map(|(id, _)| id.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::row::Found;
    use crate::overview::sample::{lock, row};

    #[test]
    fn page_of_many_locks_is_bounded_and_shared() {
        let rows: Vec<_> =
            (0..10_000).map(|at| row(Found { listeners: Some(at), ..lock(&format!("stock:{at}")) })).collect();
        let (picture, views) = (Picture { rows: Arc::new(rows), ..Picture::default() }, Views::default());
        let query = Query::of(Some("sort=waiters&page=2"));
        let lines = views.lines(&picture, &query);
        assert_eq!((lines.counts.as_str(), lines.pages, lines.lines.len()), ("rows 101 to 200 of 10000", 100, PAGE));
        assert_eq!(lines.lines[0].key, "stock:9899");
        assert!(Arc::ptr_eq(&lines, &views.lines(&picture, &query)), "made once for each look");
        let none = views.lines(&picture, &Query::of(Some("filter=nothing")));
        assert_eq!((none.counts.as_str(), none.pages), ("no lock matches", 1));
        let last = views.lines(&picture, &Query::of(Some("page=4000000000")));
        assert_eq!(last.counts, "rows 9901 to 10000 of 10000");
        for page in 1..200 {
            views.lines(&picture, &query.at_page(page));
        }
        let known = views.0.lock().expect("no panic").orders.len();
        assert!(known <= REMEMBERED, "{known}");
    }
}
