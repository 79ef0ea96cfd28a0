//! Finds names similar to a free lock's name, which may contain a typo or lack a prefix.

use leasehold::Client;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Timeout of the search, which scans all keys of the server.
const SEARCH: Duration = Duration::from_secs(1);

/// Maximum number of names in the hint.
const NAMED: usize = 3;

/// Returns a hint for a user who may mean another lock. `None` without a similar lock, or without the rights to search.
pub(crate) async fn hint(client: &Client, name: &str) -> Option<String> {
    let (mut search, end) = (client.locks("*"), Instant::now() + SEARCH);
    let mut found = Vec::new();
    while let Ok(Some(Ok(state))) = timeout_at(end, search.next()).await {
        if let Some(distance) = distance(name, &state.name) {
            found.push((distance, state.name));
        }
    }
    found.sort_unstable();
    let names: Vec<_> = found.iter().take(NAMED).map(|(_, name)| format!("{name:?}")).collect();
    (!names.is_empty()).then(|| format!("no lock has the name {name:?}; similar: {}", names.join(", ")))
}

/// Returns the distance between two names. `None` if they are not similar. Names that differ only in numbers are not
/// similar.
fn distance(name: &str, other: &str) -> Option<usize> {
    if without_numbers(name) == without_numbers(other) {
        return None;
    }
    let [name, other] = [name, other].map(str::to_lowercase);
    let edits = edits(&name, &other);
    let is_part = name.len().min(other.len()) >= 3 && (name.contains(&other) || other.contains(&name));
    (is_part || edits <= 1 + name.chars().count() / 6).then_some(edits)
}

/// Returns the parts between the numbers of a name.
fn without_numbers(name: &str) -> Vec<&str> {
    let mut parts: Vec<_> = name.split(|next: char| next.is_ascii_digit()).collect();
    parts.dedup_by(|next, before| next.is_empty() && before.is_empty());
    parts
}

/// Returns the number of inserted, deleted and replaced characters.
fn edits(name: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, one) in name.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, two) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(one != *two);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_and_prefixes_are_similar_and_other_words_are_not() {
        for (name, other) in [
            ("stock", "shop:stock"),
            ("shop:stock", "stock"),
            ("bakcup", "backup"),
            ("Backup", "backup"),
            ("nightly-report", "nightly-report@1795831200000"),
            ("nightly-reprot", "nightly-report"),
            ("a", "b"),
        ] {
            assert!(distance(name, other).is_some(), "{name} {other}");
        }
        for (name, other) in [
            ("stock", "till"),
            ("a", "backup"),
            ("backup", "restore"),
            ("", "x:stock"),
            ("order:62", "order:2"),
            ("order:1001", "order:1002"),
        ] {
            assert!(distance(name, other).is_none(), "{name} {other}");
        }
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
