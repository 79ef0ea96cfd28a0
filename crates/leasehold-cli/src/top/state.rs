//! The state of the table: rows, order, filter and mode.

use super::keys::Key;
use crate::overview::column::Column;
use crate::overview::order::{Sort, in_order};
use crate::overview::row::Row;
use crate::overview::scans::{Told, Wanted};
use crate::overview::{Overview, Picture};

/// The state of the table.
#[derive(Debug)]
pub(super) struct State {
    /// The URL of the server without secrets.
    place: String,
    wanted: Wanted,
    overview: Overview,
    /// The sorted numbers of the matching rows.
    order: Vec<usize>,
    sort: Sort,
    filter: String,
    mode: Mode,
    is_paused: bool,
    /// The name of the selected lock, which may have left the table.
    selected: Option<String>,
    /// The scroll position, and the number of rows on the screen.
    first: usize,
    page: usize,
}

/// The mode, which defines the meaning of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Table,
    /// Filter input. Escape restores the previous filter.
    Filter {
        before: String,
    },
    /// The help, scrolled to this line.
    Help {
        first: usize,
    },
    /// The state of one lock, scrolled to this line. Empty before the first reply.
    Inspect {
        name: String,
        lines: Vec<String>,
        first: usize,
    },
}

/// The request of a key to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Quit,
    Stop,
    Redraw,
}

impl State {
    pub(super) fn new(place: String, wanted: Wanted, column: Column) -> Self {
        Self {
            place,
            wanted,
            overview: Overview::default(),
            order: Vec::new(),
            sort: Sort { column, is_reversed: false },
            filter: String::new(),
            mode: Mode::Table,
            is_paused: false,
            selected: None,
            first: 0,
            page: 0,
        }
    }

    /// Handles an event of the scans.
    pub(super) fn take(&mut self, told: Told) {
        match told {
            // The scan started before the pause.
            Told::Done(_) if self.is_paused => self.overview.answers(),
            Told::Some(_) if self.is_paused => {}
            told => {
                let changes_rows = matches!(told, Told::Done(_) | Told::Some(_));
                self.overview.take(told);
                if changes_rows {
                    self.arrange();
                }
            }
        }
    }

    /// Handles a key. Returns a request to the program.
    pub(super) fn press(&mut self, key: Key) -> Asked {
        match (key, &mut self.mode) {
            (Key::Interrupt, _) => return Asked::Quit,
            (Key::Stop, _) => return Asked::Stop,
            (Key::Redraw, _) => return Asked::Redraw,
            (_, Mode::Filter { .. }) => self.type_filter(key),
            (Key::Character('q'), _) | (Key::Escape, Mode::Table) => return Asked::Quit,
            (Key::Character('?') | Key::Escape, Mode::Help { .. })
            | (Key::Enter | Key::Escape, Mode::Inspect { .. }) => {
                self.mode = Mode::Table;
            }
            (_, Mode::Help { first }) => *first = scrolled(*first, key, self.page),
            (_, Mode::Inspect { lines, first, .. }) => {
                *first = scrolled(*first, key, self.page).min(lines.len().saturating_sub(1));
            }
            (Key::Character(letter), Mode::Table) => self.press_letter(letter),
            (Key::Enter, Mode::Table) => self.inspect(),
            (_, Mode::Table) => self.select(key),
        }
        Asked::Nothing
    }

    /// Moves the selection, and scrolls to it.
    fn select(&mut self, key: Key) {
        let Some(last) = self.order.len().checked_sub(1) else { return };
        let at = match (self.selected_at(), key) {
            // The first key selects the first row on the screen.
            (None, Key::Up | Key::Down) => self.first,
            (at, key) => scrolled(at.unwrap_or(self.first), key, self.page),
        };
        let at = at.min(last);
        self.selected = Some(self.picture().rows[self.order[at]].found.name.clone());
        self.first = self.first.min(at).max((at + 1).saturating_sub(self.page));
        self.keep_within();
    }

    /// Inspects the selected lock, or the first lock on the screen.
    fn inspect(&mut self) {
        if self.selected_at().is_none() {
            self.select(Key::Down);
        }
        if let Some(name) = self.selected.clone() {
            self.mode = Mode::Inspect { name, lines: Vec::new(), first: 0 };
        }
    }

    /// Returns the index of the selected row in the order.
    fn selected_at(&self) -> Option<usize> {
        let name = self.selected.as_ref()?;
        self.order.iter().position(|at| self.picture().rows[*at].found.name == *name)
    }

    /// Returns the lock to inspect.
    pub(super) fn inspected(&self) -> Option<&str> {
        match &self.mode {
            Mode::Inspect { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Shows the state of a lock, unless the user has left its page.
    pub(super) fn take_inspected(&mut self, of: &str, now: Vec<String>) {
        if let Mode::Inspect { name, lines, .. } = &mut self.mode
            && name == of
        {
            *lines = now;
        }
    }

    fn press_letter(&mut self, letter: char) {
        match letter {
            '/' => self.mode = Mode::Filter { before: self.filter.clone() },
            '?' => self.mode = Mode::Help { first: 0 },
            'p' => self.is_paused = !self.is_paused,
            letter => {
                let Some(column) = Column::of_key(letter) else { return };
                let is_reversed = column == self.sort.column && !self.sort.is_reversed;
                self.sort = Sort { column, is_reversed };
                self.first = 0;
                self.arrange();
            }
        }
    }

    fn type_filter(&mut self, key: Key) {
        match (key, &self.mode) {
            (Key::Character(letter), _) => self.filter.push(letter),
            (Key::Backspace, _) => {
                self.filter.pop();
            }
            (Key::Escape, Mode::Filter { before }) => {
                self.filter.clone_from(before);
                self.mode = Mode::Table;
            }
            (Key::Enter, _) => self.mode = Mode::Table,
            _ => return,
        }
        self.first = 0;
        self.arrange();
    }

    /// Sets the number of rows on the screen and the last scroll position of the help.
    pub(super) fn fit(&mut self, page: usize, last_help: usize) {
        self.page = page;
        self.keep_within();
        if let Mode::Help { first } = &mut self.mode {
            *first = (*first).min(last_help);
        }
    }

    /// Filters and sorts the rows.
    fn arrange(&mut self) {
        self.order = in_order(&self.picture().rows, &self.filter, &[], self.sort);
        self.keep_within();
    }

    fn keep_within(&mut self) {
        self.first = self.first.min(self.order.len().saturating_sub(self.page));
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(super) const fn picture(&self) -> &Picture {
        self.overview.picture()
    }

    pub(super) const fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) const fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns the name of the selected lock.
    pub(super) fn selected(&self) -> Option<&str> {
        self.selected.as_deref()
    }

    /// Returns the scroll position, from 0.
    pub(super) const fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of matching rows.
    pub(super) fn shown(&self) -> usize {
        self.order.len()
    }

    /// Returns the rows on the screen.
    pub(super) fn visible(&self) -> impl Iterator<Item = &Row> {
        self.order.iter().skip(self.first).take(self.page).map(|at| &self.picture().rows[*at])
    }
}

/// Returns the first line after a scroll key.
const fn scrolled(first: usize, key: Key, page: usize) -> usize {
    match key {
        Key::Up => first.saturating_sub(1),
        Key::Down => first.saturating_add(1),
        Key::PageUp => first.saturating_sub(page),
        Key::PageDown => first.saturating_add(page),
        Key::Home => 0,
        Key::End => usize::MAX,
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::state;
    use super::*;
    use crate::overview::row::Found;
    use crate::overview::sample::lock;
    use crate::overview::scans::{Glance, Scan};
    use std::time::Instant;

    fn names(state: &State) -> Vec<&str> {
        state.visible().map(|row| row.found.name.as_str()).collect()
    }

    /// Returns a table of locks with these numbers of waiters, on a screen of two rows.
    fn table(waiters: &[(&str, u64)]) -> State {
        let mut state = state();
        let found = waiters.iter().map(|(name, waiting)| Found { listeners: Some(*waiting), ..lock(name) });
        let now = Instant::now();
        state.take(Told::Done(Scan { begun: now, ended: now, found: found.collect(), is_cut: false, unseen: None }));
        state.fit(2, 0);
        state
    }

    fn press(state: &mut State, keys: &str) {
        for key in keys.chars() {
            assert_eq!(state.press(Key::Character(key)), Asked::Nothing, "{key}");
        }
    }

    #[test]
    fn same_key_twice_turns_the_order_round() {
        let mut state = table(&[("a", 1), ("b", 3), ("c", 2)]);
        assert_eq!(names(&state), ["b", "c"], "equal grants sort by waiters");
        press(&mut state, "n");
        assert_eq!(names(&state), ["a", "b"]);
        press(&mut state, "n");
        assert_eq!(names(&state), ["c", "b"]);
        press(&mut state, "w");
        assert_eq!((names(&state), state.sort().is_reversed), (vec!["b", "c"], false));
    }

    #[test]
    fn filter_is_typed_and_given_up() {
        let mut state = table(&[("stock:1", 1), ("stock:2", 2), ("order:1", 3)]);
        press(&mut state, "/ord");
        assert_eq!((names(&state), state.filter()), (vec!["order:1"], "ord"));
        press(&mut state, "q");
        assert_eq!(state.shown(), 0, "a q in the filter does not quit");
        state.press(Key::Backspace);
        state.press(Key::Enter);
        press(&mut state, "/x");
        state.press(Key::Escape);
        assert_eq!((state.filter(), state.mode()), ("ord", &Mode::Table));
        assert_eq!(state.press(Key::Escape), Asked::Quit);
    }

    #[test]
    fn scrolling_stays_within_the_rows() {
        let mut state = table(&[("a", 0), ("b", 0), ("c", 0), ("d", 0), ("e", 0)]);
        let mut after = |keys: &[Key]| {
            for key in keys {
                state.press(*key);
            }
            names(&state).concat()
        };
        assert_eq!(after(&[Key::Up]), "ab");
        assert_eq!(after(&[Key::Down]), "ab");
        assert_eq!(after(&[Key::PageDown]), "cd");
        assert_eq!(after(&[Key::PageDown, Key::Down]), "de");
        assert_eq!(after(&[Key::PageUp]), "cd");
        assert_eq!(after(&[Key::End]), "de");
        assert_eq!(after(&[Key::Home]), "ab");
        state.press(Key::End);
        state.fit(5, 0);
        assert_eq!(names(&state).concat(), "abcde", "a taller screen shows all");
    }

    #[test]
    fn enter_inspects_the_selected_lock_wherever_the_order_moves_it() {
        let mut state = table(&[("a", 3), ("b", 2), ("c", 1)]);
        assert_eq!((state.selected(), state.inspected()), (None, None));
        state.press(Key::Down);
        state.press(Key::Down);
        assert_eq!(state.selected(), Some("b"));
        press(&mut state, "nn");
        state.press(Key::Down);
        assert_eq!(state.selected(), Some("a"), "the order is c, b, a");
        state.press(Key::Up);
        state.press(Key::Enter);
        assert_eq!(state.inspected(), Some("b"));
        state.take_inspected("c", vec!["late".to_owned()]);
        state.take_inspected("b", vec!["b: held".to_owned(), "holder".to_owned()]);
        state.press(Key::End);
        let lines = ["b: held", "holder"].map(str::to_owned).into();
        assert_eq!(state.mode(), &Mode::Inspect { name: "b".to_owned(), lines, first: 1 });
        assert_eq!(state.press(Key::Escape), Asked::Nothing);
        assert_eq!((state.mode(), state.inspected()), (&Mode::Table, None));
        let mut empty = table(&[]);
        empty.press(Key::Enter);
        assert_eq!(empty.mode(), &Mode::Table);
    }

    #[test]
    fn keys_work_in_every_mode() {
        for keys in ["", "/a", "?"] {
            let mut state = table(&[("a", 0)]);
            press(&mut state, keys);
            assert_eq!(state.press(Key::Interrupt), Asked::Quit, "{keys:?}");
            assert_eq!(state.press(Key::Stop), Asked::Stop, "{keys:?}");
        }
        let mut state = table(&[("a", 0)]);
        press(&mut state, "?");
        assert_eq!(state.press(Key::Character('q')), Asked::Quit);
        state.press(Key::Escape);
        assert_eq!(state.mode(), &Mode::Table);
    }

    #[test]
    fn rows_of_the_first_scan_come_before_its_end() {
        let mut state = state();
        state.fit(2, 0);
        let begun = Instant::now();
        state.take(Told::Begun(begun));
        let found = vec![("a".to_owned(), Some(lock("a")))];
        state.take(Told::Some(Glance { begun, ended: begun, found }));
        assert_eq!((names(&state), state.picture().table.is_none()), (vec!["a"], true));
        let found = vec![lock("a"), lock("b")];
        state.take(Told::Done(Scan { begun, ended: begun, found, is_cut: false, unseen: None }));
        assert_eq!(names(&state), ["a", "b"]);
    }

    #[test]
    fn table_stands_still_while_it_is_paused() {
        let mut state = table(&[("a", 0)]);
        press(&mut state, "p");
        let now = Instant::now();
        state.take(Told::Done(Scan { begun: now, ended: now, found: vec![lock("b")], is_cut: false, unseen: None }));
        assert_eq!(names(&state), ["a"]);
        press(&mut state, "p");
        assert!(!state.is_paused());
    }
}
