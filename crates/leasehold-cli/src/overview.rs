//! The table of `top` and `serve`.
//!
//! `overview/scans.rs` scans the server and sends the results to this file, which does no I/O. `overview/history.rs`
//! derives rates and ages from several scans, and `overview/order.rs` sorts the rows.

pub(crate) mod column;
mod filter;
pub(crate) mod foreign;
mod history;
pub(crate) mod journal;
pub(crate) mod order;
pub(crate) mod row;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod scans;
pub(crate) mod words;

use history::History;
use journal::Journal;
use row::Row;
use scans::{Glance, Scan, Told};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The current picture and the history of the scans.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    picture: Picture,
    history: History,
    /// The row numbers by lock name.
    places: HashMap<String, usize>,
}

/// The locks of the last scan. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) server: Server,
    /// The start of the current scan, and the number of locks so far.
    pub(crate) scanning: Option<(Instant, usize)>,
    /// The scan that found the rows. `None` before the first scan.
    pub(crate) table: Option<Table>,
    pub(crate) rows: Arc<Vec<Row>>,
    /// Increases when the set of rows changes. Row numbers are stable within an edition.
    pub(crate) edition: u64,
}

/// The state of the server at the last scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Server {
    #[default]
    Answers,
    Away {
        since: Instant,
        why: String,
    },
}

/// The scan behind a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    pub(crate) is_cut: bool,
    /// The message about names that this user may not inspect.
    pub(crate) unseen: Option<String>,
}

/// The numbers of locks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) locks: usize,
    pub(crate) held: usize,
    pub(crate) waiting: u64,
    pub(crate) problems: usize,
    /// Grants of all locks per second.
    pub(crate) grants: f64,
}

impl Overview {
    /// Creates an overview that also records past holds.
    pub(crate) fn recorded(journal: Arc<Mutex<Journal>>) -> Self {
        Self { history: History::recorded(journal), ..Self::default() }
    }

    /// Handles an event of the scans.
    pub(crate) fn take(&mut self, told: Told) {
        match told {
            Told::Begun(at) => self.picture.scanning = Some((at, 0)),
            Told::Progress(found) => {
                if let Some((_, so_far)) = &mut self.picture.scanning {
                    *so_far = found;
                }
            }
            Told::Done(scan) => {
                self.answers();
                self.add(scan);
            }
            Told::Some(glance) => self.glance(glance),
            Told::Failed { at, why } => {
                self.picture.scanning = None;
                let since = if let Server::Away { since, .. } = self.picture.server { since } else { at };
                self.picture.server = Server::Away { since, why };
            }
        }
    }

    /// Ends a scan that left the rows unchanged.
    pub(crate) fn answers(&mut self) {
        (self.picture.scanning, self.picture.server) = (None, Server::Answers);
    }

    pub(crate) const fn picture(&self) -> &Picture {
        &self.picture
    }

    fn add(&mut self, scan: Scan) {
        let took = scan.ended.saturating_duration_since(scan.begun);
        self.picture.table = Some(Table { begun: scan.begun, took, is_cut: scan.is_cut, unseen: scan.unseen });
        let rows = self.history.add(scan.begun, scan.ended, scan.found);
        self.places = rows.iter().enumerate().map(|(at, row)| (row.found.name.clone(), at)).collect();
        self.picture.rows = Arc::new(rows);
        self.picture.edition += 1;
    }

    /// Updates the rows of some locks.
    fn glance(&mut self, glance: Glance) {
        let changed = self.history.glance(glance);
        if changed.is_empty() {
            return;
        }
        let rows = Arc::make_mut(&mut self.picture.rows);
        for row in changed {
            match self.places.get(&row.found.name) {
                Some(at) => rows[*at] = row,
                None => {
                    self.places.insert(row.found.name.clone(), rows.len());
                    rows.push(row);
                    self.picture.edition += 1;
                }
            }
        }
    }
}

impl Picture {
    pub(crate) fn totals(&self) -> Totals {
        self.rows.iter().fold(Totals::default(), |sum, row| {
            let grants = sum.grants + row.grants.unwrap_or_default();
            if row.is_gone {
                return Totals { grants, ..sum };
            }
            Totals {
                locks: sum.locks + 1,
                held: sum.held + usize::from(!row.found.holds.is_empty()),
                waiting: sum.waiting + row.found.waiting(),
                problems: sum.problems + usize::from(!row.found.problems.is_empty()),
                grants,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::sample::lock;
    use super::*;

    #[test]
    fn outage_is_as_old_as_its_first_failure() {
        let (mut overview, now) = (Overview::default(), Instant::now());
        overview.take(Told::Done(Scan { begun: now, ended: now, found: vec![lock("a")], is_cut: false, unseen: None }));
        for seconds in [0, 1] {
            let at = now + Duration::from_secs(seconds);
            overview.take(Told::Failed { at, why: format!("reason {seconds}") });
        }
        let picture = overview.picture();
        assert_eq!(picture.server, Server::Away { since: now, why: "reason 1".to_owned() });
        assert_eq!(picture.totals().locks, 1, "the table stays");
        overview.take(Told::Done(Scan { begun: now, ended: now, found: Vec::new(), is_cut: false, unseen: None }));
        assert_eq!(overview.picture().server, Server::Answers);
    }
}
