//! The locks that a client says in its record to hold, or to wait for.
//!
//! They form one string of bounded length. Each entry has a letter for the kind, `h` for a hold or `w` for a wait, its
//! age and its renewed lease in milliseconds, the owners, and the names of the hold and the lock, each after its length.
//! `lh65000;30000;7;38:6f0c…:35:stock` is a hold of
//! a reentrant lock.

use crate::command::Kind;
use bytes::Bytes;
use std::time::Duration;

/// The most entries of a record.
pub const MOST: usize = 64;

/// The longest text of them.
const MOST_BYTES: usize = 16 * 1024;

/// The use that a client makes of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the session builds it")]
pub struct LockUse {
    /// The key of the lock, which has the prefix of the client.
    pub key: String,
    /// The kind of the lock.
    pub kind: Kind,
    /// The name of the hold; `None` for a request that waits.
    pub hold: Option<String>,
    /// The owners that go on only when this ends, by their numbers in the client: of a hold the one that may re-enter it, if it has a name; of a
    /// request its own, and those in whose scopes it is made.
    pub owners: Vec<u64>,
    /// How long it has lasted.
    pub lasted: Duration,
    /// The lease to which the client renews the hold; `None` for a request, and for a hold without renewals.
    pub lease: Option<Duration>,
}

impl LockUse {
    /// Whether both are the same use, though one of them may have lasted longer.
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

/// The uses as one text, as many of the first of them as have room.
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

/// The uses in a text. What follows an entry that cannot be read is left out: the client may be newer.
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

/// A name behind its length, and what follows it.
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
