//! The locks that a client's record lists as held or requested.
//!
//! The locks form a string of bounded length. An entry has a letter for the kind, and `h` for a hold or `w` for a wait.
//! The age, the renewed lease (both in milliseconds) and the owners follow. The names of the hold and the lock come
//! last, each after its length. `lh65000;30000;7;38:6f0c…:35:stock` is a hold of a reentrant lock.

use crate::command::Kind;
use bytes::Bytes;
use std::time::Duration;

/// Maximum number of entries in a record.
pub const MOST: usize = 64;

/// Maximum length of the string.
const MOST_BYTES: usize = 16 * 1024;

/// A client's use of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it")]
pub struct LockUse {
    /// The key of the lock, including the client's prefix.
    pub key: String,
    /// The kind of the lock.
    pub kind: Kind,
    /// The name of the hold; `None` for a waiting request.
    pub hold: Option<String>,
    /// The owners that this use blocks, by their numbers in the client. For a hold: the named owner that may re-enter
    /// it. For a request: its own owner, and the owners whose scopes contain the request.
    pub owners: Vec<u64>,
    /// The age of the hold or request.
    pub lasted: Duration,
    /// The lease to which renewals extend the hold; `None` for a request, and for a hold without renewals.
    pub lease: Option<Duration>,
}

impl LockUse {
    /// Returns whether both uses are equal, apart from their age.
    pub fn is_same(&self, other: &Self) -> bool {
        Self { lasted: other.lasted, ..self.clone() } == *other
    }
}

/// Each kind with its letter in a record.
const LETTERS: [(Kind, char); 11] = [
    (Kind::Lock, 'l'),
    (Kind::Fair, 'f'),
    (Kind::FencedFair, 'F'),
    (Kind::Fenced, 't'),
    (Kind::Spin, 'p'),
    (Kind::Simple, 's'),
    (Kind::Read, 'r'),
    (Kind::Write, 'w'),
    (Kind::Semaphore, 'c'),
    (Kind::Permits, 'e'),
    (Kind::Latch, 'a'),
];

/// Encodes as many of the uses as fit, in order.
pub fn encode(uses: &[LockUse]) -> Bytes {
    let mut text = String::new();
    for lock in uses.iter().take(MOST) {
        let entry = entry(lock);
        if text.len() + entry.len() > MOST_BYTES {
            break;
        }
        text += &entry;
    }
    Bytes::from(text)
}

fn entry(lock: &LockUse) -> String {
    let letter = LETTERS.iter().find(|(kind, _)| *kind == lock.kind).map_or('?', |(_, letter)| *letter);
    let state = if lock.hold.is_some() { 'h' } else { 'w' };
    let owners: Vec<String> = lock.owners.iter().map(u64::to_string).collect();
    let lease = lock.lease.unwrap_or_default();
    let mut entry = format!("{letter}{state}{};{};{};", lock.lasted.as_millis(), lease.as_millis(), owners.join(","));
    for name in [lock.hold.as_deref().unwrap_or_default(), &lock.key] {
        entry.push_str(&format!("{}:{name}", name.len()));
    }
    entry
}

/// Decodes uses. Ignores everything from the first unreadable entry on, because the client may be newer.
pub fn decode(mut text: &str) -> Vec<LockUse> {
    let mut uses = Vec::new();
    while let Some((lock, rest)) = read(text).filter(|_| uses.len() < MOST) {
        uses.push(lock);
        text = rest;
    }
    uses
}

fn read(text: &str) -> Option<(LockUse, &str)> {
    let mut letters = text.chars();
    let (letter, state) = (letters.next()?, letters.next()?);
    let kind = LETTERS.iter().find(|(_, known)| *known == letter)?.0;
    let (lasted, rest) = letters.as_str().split_once(';')?;
    let (lease, rest) = rest.split_once(';')?;
    let (owners, rest) = rest.split_once(';')?;
    let owners = owners.split(',').filter(|owner| !owner.is_empty());
    let owners = owners.map(|owner| owner.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let (hold, rest) = named(rest)?;
    let (key, rest) = named(rest)?;
    let hold = match state {
        'h' => Some(hold.to_owned()),
        'w' => None,
        _ => return None,
    };
    let lasted = Duration::from_millis(lasted.parse().ok()?);
    let lease = Some(Duration::from_millis(lease.parse().ok()?)).filter(|lease| !lease.is_zero());
    Some((LockUse { key: key.to_owned(), kind, hold, owners, lasted, lease }, rest))
}

/// Splits off a name with a length prefix. Returns the name and the rest.
fn named(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(key: &str, hold: Option<&str>) -> LockUse {
        let (key, hold) = (key.to_owned(), hold.map(str::to_owned));
        let lease = hold.is_some().then_some(Duration::from_secs(30));
        LockUse { key, kind: Kind::Lock, hold, owners: vec![7, 8], lasted: Duration::from_millis(1_500), lease }
    }

    #[test]
    fn uses_go_through_a_text_and_back() {
        let mut uses = vec![lock("stock:1001", Some("a:1")), lock("é;3:\n", None), lock("", Some(""))];
        uses[1].owners.clear();
        for (kind, _) in LETTERS {
            uses.push(LockUse { kind, ..lock("stock", None) });
        }
        let text = encode(&uses);
        assert_eq!(decode(std::str::from_utf8(&text).expect("a text")), uses);
        assert_eq!(LETTERS.map(|(kind, _)| kind), Kind::ALL, "each kind has a letter");
    }

    #[test]
    fn a_text_is_bounded_and_its_first_entries_count() {
        let many: Vec<_> = (0..100).map(|number| lock(&format!("lock:{number}"), None)).collect();
        let text = encode(&many);
        assert_eq!(decode(std::str::from_utf8(&text).expect("a text")), many[..MOST]);
        let long: Vec<_> = (0..40).map(|_| lock(&"x".repeat(1_024), None)).collect();
        let text = encode(&long);
        assert!(text.len() <= MOST_BYTES);
        assert_eq!(decode(std::str::from_utf8(&text).expect("a text")).len(), 15);
    }

    #[test]
    fn garbage_ends_the_list_and_is_no_error() {
        let good = entry(&lock("stock", None));
        for garbage in [
            "",
            "x",
            "lw",
            "lw1",
            "lw1;;",
            "lw1;0;",
            "lw1;0;;0:",
            "lw1;0;;0:9:abc",
            "?w1;0;;0:1:a",
            "lx1;0;;0:1:a",
            "lw1;a;;0:1:a",
            "lw1;0;a;0:1:a",
            "lw1;0;;0:1:é",
        ] {
            assert_eq!(decode(&format!("{good}{garbage}")).len(), 1, "{garbage}");
        }
    }
}
