//! The texts of a page, for HTML and for live updates.

use super::cell::{Cell, NOTHING, short};
use super::command;
use super::past::LATELY;
use super::query::{PAGE, Query, address_of, word};
use super::sample::Sample;
use crate::args::KindWord;
use crate::duration::show;
use crate::moment;
use crate::overview::column::Column;
use crate::overview::journal::Journal;
use crate::overview::order::in_order;
use crate::overview::row::{Held, Row};
use crate::overview::{Picture, Server, Totals, words};
use crate::shown::{counted, shown};
use clap::ValueEnum as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of cached queries per scan.
const REMEMBERED: usize = 64;

/// The smallest visible number of grants per second.
const LEAST: f64 = 0.05;

/// The texts of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    /// The headline: the number of locks, or the state of one lock.
    pub(super) summary: String,
    /// Numbers, with the ids of their elements.
    pub(super) tiles: Vec<(String, String)>,
    /// The outage, the warnings, or the scan interval.
    pub(super) status: String,
    pub(super) is_warning: bool,
    /// The start of the scan behind the view.
    pub(super) looked: Option<Instant>,
    /// The tables with their ids.
    pub(super) tables: Vec<(&'static str, Arc<Lines>)>,
    /// The ids of the holders that the page can free.
    pub(super) holders: Vec<String>,
}

/// The lines of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// The row numbers, such as `rows 1 to 100 of 10000`.
    pub(super) counts: String,
    /// Number of pages.
    pub(super) pages: usize,
    pub(super) lines: Vec<Line>,
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// A unique key. In the table of all locks, the name of the lock.
    pub(super) key: String,
    pub(super) class: &'static str,
    pub(super) cells: Vec<Cell>,
}

/// A cache of lines, shared by browsers with the same query.
#[derive(Debug, Default)]
pub(super) struct Views {
    prefix: String,
    known: Mutex<Known>,
}

/// The cached lines of some rows.
#[derive(Debug, Default)]
struct Known {
    rows: Arc<Vec<Row>>,
    lines: HashMap<Query, Arc<Lines>>,
    tiles: Vec<(String, String)>,
    /// The edition of the rows, and the sorted row numbers of each query. Inspections of some rows keep the order,
    /// because sorting thousands of rows is expensive.
    edition: u64,
    orders: HashMap<Query, Arc<Vec<usize>>>,
}

impl Views {
    pub(super) fn with_prefix(prefix: String) -> Self {
        Self { prefix, known: Mutex::default() }
    }

    /// Returns the table of all locks.
    pub(super) fn of_table(&self, sample: &Sample, query: &Query, every: Duration, journal: &Mutex<Journal>) -> View {
        let (picture, now) = (&sample.picture, Instant::now());
        let (status, is_warning) = status(picture, now, every);
        let (lines, mut tiles) = self.lines(picture, query);
        let lost = journal.lock().unwrap_or_else(PoisonError::into_inner).lost_within(LATELY);
        tiles.push(("lost".to_owned(), lost.to_string()));
        let count = |(id, count): &(String, String)| (id == "locks").then(|| count.parse::<u64>().ok()).flatten();
        let summary = match (&picture.table, tiles.iter().find_map(count)) {
            (Some(_), Some(count)) => counted(count, "lock"),
            _ => "no scan yet".to_owned(),
        };
        let looked = picture.table.as_ref().map(|table| table.begun);
        View { summary, tiles, status, is_warning, looked, tables: vec![("locks", lines)], holders: Vec::new() }
    }

    /// Returns the lines, and the tiles of all rows.
    fn lines(&self, picture: &Picture, query: &Query) -> (Arc<Lines>, Vec<(String, String)>) {
        let (rows, mut known) = (&picture.rows, self.known.lock().unwrap_or_else(PoisonError::into_inner));
        if known.edition != picture.edition || known.orders.len() >= REMEMBERED {
            *known = Known { edition: picture.edition, ..Known::default() };
        }
        if !Arc::ptr_eq(&known.rows, rows) || known.tiles.is_empty() {
            (known.rows, known.lines, known.tiles) = (rows.clone(), HashMap::new(), tiles(picture));
        }
        if let Some(lines) = known.lines.get(query) {
            return (lines.clone(), known.tiles.clone());
        }
        let order = known.orders.entry(query.clone()).or_insert_with(|| Arc::new(order(rows, query))).clone();
        let lines = Arc::new(lines(rows, &order, query, &self.prefix));
        known.lines.insert(query.clone(), lines.clone());
        (lines, known.tiles.clone())
    }
}

/// Returns the indices of the rows that match a query, in the query's sort order.
pub(super) fn order(rows: &[Row], query: &Query) -> Vec<usize> {
    let mut order = in_order(rows, &query.filter, &query.kinds(), query.sort);
    order.retain(|at| query.show.fits(&rows[*at]));
    // One column shows queues and listening clients.
    if matches!(query.sort.column, Column::Waiters | Column::Queue) {
        let waiting = |at: &usize| rows[*at].found.waiting();
        let compare = |one: &usize, other: &usize| waiting(other).cmp(&waiting(one));
        order.sort_by(|one, other| if query.sort.is_reversed { compare(other, one) } else { compare(one, other) });
    }
    order
}

fn tiles(picture: &Picture) -> Vec<(String, String)> {
    let Totals { locks, held, waiting, problems, grants } = picture.totals();
    let counts = [("locks", locks as u64), ("held", held as u64), ("waiting", waiting), ("problems", problems as u64)];
    let mut tiles: Vec<_> = counts.iter().map(|(id, count)| ((*id).to_owned(), count.to_string())).collect();
    tiles.push(("grants".to_owned(), format!("{grants:.1}")));
    for kind in KindWord::value_variants() {
        let is_of = |row: &&Row| !row.is_gone && row.found.kind == kind.found();
        tiles.push((format!("kind-{}", word(*kind)), picture.rows.iter().filter(is_of).count().to_string()));
    }
    tiles
}

/// Returns the rows on the page of a query, and the number of pages.
pub(super) fn page_of<'a>(order: &'a [usize], query: &Query) -> (&'a [usize], usize, usize) {
    let pages = order.len().div_ceil(PAGE).max(1);
    let first = (query.page.min(pages) - 1) * PAGE;
    (&order[first..order.len().min(first + PAGE)], first, pages)
}

fn lines(rows: &[Row], order: &[usize], query: &Query, prefix: &str) -> Lines {
    let (visible, first, pages) = page_of(order, query);
    let visible: Vec<_> = visible.iter().map(|at| line(&rows[*at], prefix)).collect();
    let counts = match visible.len() {
        0 => "no lock matches".to_owned(),
        count => format!("rows {} to {} of {}", first + 1, first + count, order.len()),
    };
    Lines { counts, pages, lines: visible }
}

fn line(row: &Row, prefix: &str) -> Line {
    let found = &row.found;
    let class = match (row.is_gone, found.waiting()) {
        _ if !found.problems.is_empty() => "problem",
        (true, _) => "gone",
        (false, 1..) => "waited",
        (false, 0) => "",
    };
    let [holder, host, pid] = match found.holds.first() {
        Some(first) if found.kind != leasehold::inspect::FoundKind::Semaphore => {
            let [holder, host, pid] = Cell::of_process(first.process.as_deref(), &short(&first.id), first.half);
            let more = found.held.saturating_sub(1);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            [Cell::text(holder.text + &more), host, pid]
        }
        _ => [&found.holder, NOTHING, NOTHING].map(Cell::text),
    };
    let held = match row.held {
        Held::Unknown => None,
        Held::Said(time) => Some(show(time)),
        Held::AtLeast(time) => Some(format!("> {}", show(time))),
    };
    let waiting = found.queue.or(found.listeners).filter(|waiting| *waiting > 0);
    let cells = vec![
        Cell::link(&found.name, address_of("lock", &[("name", &found.name)])),
        Cell::text(found.kind.word()),
        holder,
        host,
        pid,
        Cell::time(row.since).or_earlier(row.is_older),
        Cell::or_nothing(held),
        Cell::or_nothing(found.lease.map(show)),
        Cell::or_nothing(waiting.map(|waiting| waiting.to_string())),
        Cell::or_nothing(found.wait.map(show)),
        Cell::or_nothing(row.grants.filter(|grants| *grants >= LEAST).map(|grants| format!("{grants:.1}"))),
        Cell::command(command::of_lock(prefix, found)),
        Cell::text(&found.problems),
    ];
    Line { key: found.name.clone(), class, cells }
}

fn status(picture: &Picture, now: Instant, every: Duration) -> (String, bool) {
    if let Some(outage) = outage(&picture.server, now) {
        return (outage, true);
    }
    match (&picture.table, picture.scanning) {
        (Some(table), _) if !words::gaps(table).is_empty() => (shown(&words::gaps(table).join("; ")), true),
        (Some(table), _) => (words::pace(table.took, every), false),
        (None, Some(scanning)) => (words::first_scan(scanning, now), false),
        (None, None) => (String::new(), false),
    }
}

/// Returns the outage of the server, with its start.
pub(super) fn outage(server: &Server, now: Instant) -> Option<String> {
    let Server::Away { since, .. } = server else { return None };
    let since = moment::before(now.saturating_duration_since(*since));
    words::outage(server, now).map(|outage| shown(&format!("{outage} (since {since})")))
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
        let (lines, tiles) = views.lines(&picture, &query);
        assert_eq!((lines.counts.as_str(), lines.pages, lines.lines.len()), ("rows 101 to 200 of 10000", 100, PAGE));
        assert_eq!(lines.lines[0].key, "stock:9899");
        assert!(tiles.contains(&("held".to_owned(), "10000".to_owned())), "{tiles:?}");
        assert!(Arc::ptr_eq(&lines, &views.lines(&picture, &query).0), "cached within a scan");
        let none = views.lines(&picture, &Query::of(Some("filter=nothing"))).0;
        assert_eq!((none.counts.as_str(), none.pages), ("no lock matches", 1));
        let last = views.lines(&picture, &Query::of(Some("page=4000000000"))).0;
        assert_eq!(last.counts, "rows 9901 to 10000 of 10000");
        for page in 1..200 {
            views.lines(&picture, &query.at_page(page));
        }
        let known = views.known.lock().expect("no panic").orders.len();
        assert!(known <= REMEMBERED, "{known}");
    }

    #[test]
    fn views_choose_rows_and_waiters_of_all_kinds_are_compared() {
        let rows = [
            row(Found { listeners: Some(2), ..lock("listened") }),
            row(Found { listeners: None, queue: Some(3), ..lock("queued") }),
            row(Found { problems: "no time to live".to_owned(), ..lock("odd") }),
            row(lock("free").when_free()),
        ];
        let names = |query: &str| {
            let order = order(&rows, &Query::of(Some(query)));
            order.into_iter().map(|at| rows[at].found.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names("show=problems"), ["odd"]);
        assert_eq!(names("show=waiting"), ["queued", "listened"]);
        assert_eq!(names("show=held"), ["odd", "queued", "listened"]);
        assert_eq!(names("sort=waiters")[..2], ["queued", "listened"]);
        assert_eq!(names("sort=waiters&reversed=1")[2..], ["listened", "queued"]);
    }
}
