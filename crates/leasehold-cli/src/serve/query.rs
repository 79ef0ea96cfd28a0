//! The query of a URL: filter, kind, order and page.

use crate::args::{Column, KindWord};
use crate::overview::order::Sort;
use crate::overview::row::Row;
use clap::ValueEnum;
use form_urlencoded::{Serializer, parse};
use leasehold::inspect::FoundKind;

/// Number of rows on a page.
pub(super) const PAGE: usize = 100;

/// The default order: problems, then waits, then the oldest holds.
const FIRST: Column = Column::Problems;

/// Maximum length of a filter in characters.
const LONGEST_FILTER: usize = 200;

/// Which locks a table shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Show {
    #[default]
    All,
    Problems,
    Waiting,
    Held,
}

impl Show {
    pub(super) fn fits(self, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Problems => !row.found.problems.is_empty(),
            Self::Waiting => row.found.waiting() > 0,
            Self::Held => !row.found.holds.is_empty(),
        }
    }
}

/// The query of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Query {
    pub(super) filter: String,
    pub(super) kind: Option<KindWord>,
    pub(super) show: Show,
    pub(super) sort: Sort,
    /// The page number, from 1.
    pub(super) page: usize,
}

impl Query {
    /// Parses the query. Ignores invalid parts.
    pub(super) fn of(query: Option<&str>) -> Self {
        let value = |name: &str| value(query, name);
        let column = value("sort").and_then(|word| Column::from_str(&word, true).ok());
        Self {
            filter: value("filter").unwrap_or_default().chars().take(LONGEST_FILTER).collect(),
            kind: value("kind").and_then(|word| KindWord::from_str(&word, true).ok()),
            show: value("show").and_then(|word| Show::from_str(&word, true).ok()).unwrap_or_default(),
            sort: Sort { column: column.unwrap_or(FIRST), is_reversed: value("reversed").is_some() },
            page: value("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
        }
    }

    /// Returns the requested kinds. Empty means every kind.
    pub(super) fn kinds(&self) -> Vec<FoundKind> {
        self.kind.map(KindWord::found).into_iter().collect()
    }

    /// Returns the URL of a page with these rows.
    pub(super) fn address(&self, path: &str) -> String {
        let mut query = Serializer::new(String::new());
        if !self.filter.is_empty() {
            query.append_pair("filter", &self.filter);
        }
        if let Some(kind) = self.kind {
            query.append_pair("kind", &word(kind));
        }
        if self.show != Show::All {
            query.append_pair("show", &word(self.show));
        }
        if self.sort.column != FIRST {
            query.append_pair("sort", &word(self.sort.column));
        }
        if self.sort.is_reversed {
            query.append_pair("reversed", "1");
        }
        if self.page > 1 {
            query.append_pair("page", &self.page.to_string());
        }
        match query.finish() {
            query if query.is_empty() => path.to_owned(),
            query => format!("{path}?{query}"),
        }
    }

    /// Returns the first page for one kind, or for all kinds.
    pub(super) fn of_kind(&self, kind: Option<KindWord>) -> Self {
        Self { kind, page: 1, ..self.clone() }
    }

    /// Returns the first page for another choice of locks.
    pub(super) fn showing(&self, show: Show) -> Self {
        Self { show, page: 1, ..self.clone() }
    }

    /// Returns whether the rows have the default order.
    pub(super) fn has_default_order(&self) -> bool {
        self.sort == Sort { column: FIRST, is_reversed: false }
    }

    /// Returns the first page, sorted by a column. Selecting the current column reverses the order.
    pub(super) fn sorted_by(&self, column: Column) -> Self {
        let is_reversed = column == self.sort.column && !self.sort.is_reversed;
        Self { sort: Sort { column, is_reversed }, page: 1, ..self.clone() }
    }

    /// Returns another page of these rows.
    pub(super) fn at_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }
}

/// Returns the first value with this name.
pub(super) fn value(query: Option<&str>, name: &str) -> Option<String> {
    let found = parse(query.unwrap_or_default().as_bytes()).find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Builds a URL with a query.
pub(super) fn address_of(path: &str, pairs: &[(&str, &str)]) -> String {
    format!("{path}?{}", Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// Returns the command-line word of a value.
pub(super) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let sort = Sort { column: Column::Queue, is_reversed: true };
        let query = Query {
            filter: "a&b=<\u{1}ö".to_owned(),
            kind: Some(KindWord::FencedFair),
            show: Show::Waiting,
            sort,
            page: 7,
        };
        assert_eq!(Query::of(None).address("./"), "./", "the default view has a short URL");
        let address = query.address("/");
        assert!(address.bytes().all(|byte| byte.is_ascii_graphic()), "{address}");
        assert_eq!(Query::of(address.strip_prefix("/?")), query);
    }

    #[test]
    fn nonsense_counts_as_absent() {
        let nonsense = Query::of(Some("page=-1&sort=%ff&kind=none&page=x&filter=%ff"));
        assert_eq!(nonsense, Query { filter: "\u{fffd}".to_owned(), ..Query::of(None) });
        let long = "x".repeat(10_000);
        assert_eq!(Query::of(Some(&format!("filter={long}&page=0"))).filter.len(), LONGEST_FILTER);
    }
}
