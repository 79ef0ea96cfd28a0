//! The locks that fit a pattern, look after look: `top` draws them, and `serve` shows them in a browser.
//!
//! `overview/looks.rs` looks at the server, and tells this file, which does no I/O. `overview/history.rs` adds what no single look tells, and
//! `overview/order.rs` puts the rows in order.

pub(crate) mod column;
mod filter;
pub(crate) mod foreign;
mod history;
pub(crate) mod looks;
pub(crate) mod order;
pub(crate) mod row;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod words;

use history::History;
use looks::{Glance, Look, Told};
use row::Row;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The picture, and what the next one needs of the looks until now.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    picture: Picture,
    history: History,
    /// The numbers of the rows of the picture.
    places: HashMap<String, usize>,
}

/// The locks as the last look has found them. A copy costs little.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) server: Server,
    /// The begin of the look under way, and how many locks it has found.
    pub(crate) looking: Option<(Instant, usize)>,
    /// The look that the rows are of; `None` before the first one.
    pub(crate) table: Option<Table>,
    pub(crate) rows: Arc<Vec<Row>>,
    /// Another number where there are other rows, or all of them were looked at. While it is the same, a row keeps its number.
    pub(crate) edition: u64,
}

/// The server, as the last look has found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Server {
    #[default]
    Answers,
    Away {
        since: Instant,
        why: String,
    },
}

/// The look that a table shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    pub(crate) is_cut: bool,
    /// The words for names at which this user may not look, if there are some.
    pub(crate) unseen: Option<String>,
}

/// How many locks there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) locks: usize,
    pub(crate) held: usize,
    pub(crate) waiting: u64,
    pub(crate) problems: usize,
}

impl Overview {
    /// Takes in what is told of the looks.
    pub(crate) fn take(&mut self, told: Told) {
        match told {
            Told::Begun(at) => self.picture.looking = Some((at, 0)),
            Told::Progress(found) => {
                if let Some((_, so_far)) = &mut self.picture.looking {
                    *so_far = found;
                }
            }
            Told::Done(look) => {
                self.answers();
                self.add(look);
            }
            Told::Some(glance) => self.glance(glance),
            Told::Failed { at, why } => {
                self.picture.looking = None;
                let since = if let Server::Away { since, .. } = self.picture.server { since } else { at };
                self.picture.server = Server::Away { since, why };
            }
        }
    }

    /// A look has ended, and the rows stay as they are.
    pub(crate) fn answers(&mut self) {
        (self.picture.looking, self.picture.server) = (None, Server::Answers);
    }

    pub(crate) const fn picture(&self) -> &Picture {
        &self.picture
    }

    fn add(&mut self, look: Look) {
        let took = look.ended.saturating_duration_since(look.begun);
        self.picture.table = Some(Table { begun: look.begun, took, is_cut: look.is_cut, unseen: look.unseen });
        let rows = self.history.add(look.begun, look.ended, look.found);
        self.places = rows.iter().enumerate().map(|(at, row)| (row.found.name.clone(), at)).collect();
        self.picture.rows = Arc::new(rows);
        self.picture.edition += 1;
    }

    /// Puts the rows of some locks in the places of those that they had.
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
        let there = self.rows.iter().filter(|row| !row.is_gone);
        there.fold(Totals::default(), |sum, row| Totals {
            locks: sum.locks + 1,
            held: sum.held + usize::from(!row.found.ids.is_empty()),
            waiting: sum.waiting + row.found.waiting(),
            problems: sum.problems + usize::from(!row.found.problems.is_empty()),
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
        overview.take(Told::Done(Look { begun: now, ended: now, found: vec![lock("a")], is_cut: false, unseen: None }));
        for seconds in [0, 1] {
            let at = now + Duration::from_secs(seconds);
            overview.take(Told::Failed { at, why: format!("reason {seconds}") });
        }
        let picture = overview.picture();
        assert_eq!(picture.server, Server::Away { since: now, why: "reason 1".to_owned() });
        assert_eq!(picture.totals().locks, 1, "the table stays");
        overview.take(Told::Done(Look { begun: now, ended: now, found: Vec::new(), is_cut: false, unseen: None }));
        assert_eq!(overview.picture().server, Server::Answers);
    }
}
