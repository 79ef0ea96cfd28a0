//! Names of locks, and the keys and channels derived from them.

mod reserved;

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// The prefix of channels that announce releases.
const CHANNEL: &str = "redisson_lock__channel";

/// The maximum length of a name with its prefix, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// A validated lock name, from which its keys and channels derive.
///
/// Clones share the text. Encoding a call builds its keys and channels.
///
/// The layout matches Redisson's: the lock's key is the plain name, and its channel is `redisson_lock__channel:{name}`.
/// A name with an opening brace is its own hash tag and gets no additional braces.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LockName {
    /// The prefix and the name.
    raw: Arc<str>,
    /// The length of the prefix, below [`MAX_NAME_BYTES`].
    prefix: u16,
}

impl LockName {
    /// Validates `name`, and prepends `prefix`.
    ///
    /// # Errors
    ///
    /// [`NameError::Empty`], [`NameError::TooLong`] and [`NameError::Reserved`].
    pub fn new(prefix: &str, name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let bytes = prefix.len() + name.len();
        if bytes > MAX_NAME_BYTES {
            return Err(NameError::TooLong { bytes });
        }
        let raw = [prefix, name].concat();
        if let Some(form) = reserved::form(&raw) {
            return Err(NameError::Reserved { name: name.to_owned(), form });
        }
        let prefix = u16::try_from(prefix.len()).map_err(|_| NameError::TooLong { bytes })?;
        Ok(Self { raw: raw.into(), prefix })
    }

    /// The caller's name, without the prefix.
    pub fn as_str(&self) -> &str {
        &self.raw[usize::from(self.prefix)..]
    }

    /// The key of the lock: prefix and name.
    pub fn key(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// The key of the lock, as bytes to send.
    pub fn to_key(&self) -> Bytes {
        Bytes::copy_from_slice(self.key())
    }

    /// A name derived from the lock: `prefix:{name}`, or `prefix:name` if the name has an opening brace (Redisson's
    /// rule).
    pub fn prefixed(&self, prefix: &str) -> Bytes {
        Bytes::from(tagged(prefix, &self.raw).concat())
    }

    /// A name derived from the lock: `{name}:suffix`, or `name:suffix` if the name has an opening brace (Redisson's
    /// rule).
    pub fn suffixed(&self, suffix: &str) -> Bytes {
        let raw = &self.raw;
        Bytes::from(if raw.contains('{') { format!("{raw}:{suffix}") } else { format!("{{{raw}}}:{suffix}") })
    }

    /// A name derived from the lock that always adds braces: `prefix{name}` (Redisson's rule for the channel of a
    /// count-down latch).
    pub fn braced(&self, prefix: &str) -> Bytes {
        Bytes::from(format!("{prefix}{{{}}}", self.raw))
    }

    /// The channel that announces releases of the lock.
    pub fn channel(&self) -> Bytes {
        self.prefixed(CHANNEL)
    }

    /// The parts of [`LockName::channel`].
    pub(crate) fn channel_parts(&self) -> [&[u8]; 4] {
        tagged(CHANNEL, &self.raw).map(str::as_bytes)
    }

    /// Returns whether this is [`LockName::channel`], without building it.
    pub(crate) fn is_channel(&self, channel: &[u8]) -> bool {
        let rest = channel.strip_prefix(CHANNEL.as_bytes()).and_then(|rest| rest.strip_prefix(b":"));
        let braced = rest.and_then(|rest| rest.strip_prefix(b"{")?.strip_suffix(b"}"));
        if self.raw.contains('{') { rest == Some(self.key()) } else { braced == Some(self.key()) }
    }

    /// Prefix and name, as a shared key for maps.
    pub(crate) const fn shared(&self) -> &Arc<str> {
        &self.raw
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Checks that a caller's name, or a part of a name, begins and ends with a visible character.
///
/// Names are compared byte by byte. Trailing white space from a configuration file makes a different name, so two
/// programs would use two locks.
///
/// # Errors
///
/// [`NameError::UnseenEnd`].
pub fn check_ends(given: &str) -> Result<(), NameError> {
    let mut ends = given.chars().next().into_iter().chain(given.chars().next_back());
    if ends.any(is_unseen) { Err(NameError::UnseenEnd { name: given.to_owned() }) } else { Ok(()) }
}

/// White space, control characters and zero-width characters: byte order marks, joiners, direction marks.
fn is_unseen(character: char) -> bool {
    let without_width = matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    without_width || character.is_whitespace() || character.is_control()
}

/// The error of an invalid name. Nothing was sent to a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    /// See [troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting).
    #[error("the name of a lock must not be empty")]
    Empty,
    /// The name, or the prefix, begins or ends with an invisible character.
    /// See [troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting).
    #[error(
        "the name {name:?} begins or ends with white space or another invisible character: remove it, because a program \
         that uses the name without it uses another lock"
    )]
    UnseenEnd {
        /// The name, or the prefix.
        name: String,
    },
    /// Prefix and name together are longer than [`MAX_NAME_BYTES`].
    /// See [troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting).
    #[error(
        "the name of the lock has {bytes} bytes with its prefix, more than the maximum of {MAX_NAME_BYTES}: shorten it"
    )]
    TooLong {
        /// The length of prefix and name.
        bytes: usize,
    },
    /// The name has the form of another lock's key, such as its queue. Scripts of that lock would delete this lock
    /// during a hold.
    /// See [troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting).
    #[error(
        "the lock {name:?} cannot be used: with its prefix it has the form `{form}`, which is reserved for keys \
         of other locks; use another name or prefix"
    )]
    Reserved {
        /// The caller's name.
        name: String,
        /// The form of these keys.
        form: &'static str,
    },
    /// A Redis Cluster would place the lock and its channel in different slots.
    /// See [troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting).
    #[error(
        "the lock {name:?} cannot be used on a cluster: its braces put the lock and its channel into different hash slots; \
         use a name without braces; except for a latch, balanced braces around a non-empty part work too"
    )]
    Unplaceable {
        /// The caller's name.
        name: String,
    },
}

/// The hash slot of a key in Redis Cluster, from 0 to 16383 (Redis Cluster specification, "Hash tags"). It is the
/// CRC-16 of the part between the first `{` and the next `}`. If that part is empty or missing, the CRC covers the
/// whole key.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key
        .iter()
        .position(|byte| *byte == b'{')
        .map(|open| &key[open + 1..])
        .and_then(|rest| rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close]))
        .filter(|tag| !tag.is_empty())
        .unwrap_or(key);
    crc16(tag) % 16_384
}

/// The parts of a derived name by Redisson's rule: `prefix:{name}`, or `prefix:name` if the name has an opening brace.
fn tagged<'a>(prefix: &'a str, name: &'a str) -> [&'a str; 4] {
    if name.contains('{') { [prefix, ":", name, ""] } else { [prefix, ":{", name, "}"] }
}

/// CRC-16/XMODEM, polynomial 0x1021.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new("", name).expect("the name is valid")
    }

    #[test]
    fn derives_redissons_names() {
        assert_eq!(name("stock").channel(), "redisson_lock__channel:{stock}");
        assert_eq!(name("{shop}:stock").channel(), "redisson_lock__channel:{shop}:stock");
        let prefixed = LockName::new("app:", "stock").expect("the name is valid");
        assert_eq!(prefixed.to_key(), "app:stock");
        assert_eq!(prefixed.as_str(), "stock");
        assert_eq!(prefixed.prefixed("redisson_lock_queue"), "redisson_lock_queue:{app:stock}");
        assert_eq!(prefixed.suffixed("timeout"), "{app:stock}:timeout");
        assert_eq!(name("{shop}:stock").suffixed("timeout"), "{shop}:stock:timeout");
        assert_eq!(prefixed.braced("latch__"), "latch__{app:stock}");
        assert_eq!(name("{shop}:stock").braced("latch__"), "latch__{{shop}:stock}");
    }

    #[test]
    fn channel_is_known_without_its_name_being_made() {
        let names = ["stock", "{shop}:stock", "a{b", "}", "{}"].map(name);
        let channels = names.each_ref().map(LockName::channel);
        let others = ["", "redisson_lock__channel", "redisson_lock__channel:", "redisson_lock__channel:stock"];
        let others = others.map(|other| Bytes::from_static(other.as_bytes()));
        for lock in &names {
            for channel in channels.iter().chain(&others) {
                assert_eq!(lock.is_channel(channel), lock.channel() == *channel, "{lock:?}, {channel:?}");
            }
        }
    }

    #[test]
    fn refuses_what_no_server_should_see() {
        assert_eq!(LockName::new("app:", ""), Err(NameError::Empty));
        let form = "leasehold:1:…";
        let reserved = |name: &str| Err(NameError::Reserved { name: name.to_owned(), form });
        assert_eq!(LockName::new("", "leasehold:1:fence:{v}"), reserved("leasehold:1:fence:{v}"));
        assert_eq!(LockName::new("leasehold:", "1:stock"), reserved("1:stock"), "the prefix belongs to it");
        assert!(LockName::new("app:", "leasehold:1:fence:{v}").is_ok(), "and keeps it apart from what is of others");
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(LockName::new("", &long), Err(NameError::TooLong { bytes: MAX_NAME_BYTES + 1 }));
    }

    #[test]
    fn ends_that_nobody_sees_are_refused() {
        for seen in ["", "a", "a b", "a\nb", "{a b}", "é", "e\u{301}", "a\u{200d}b"] {
            assert_eq!(check_ends(seen), Ok(()), "{seen:?}");
        }
        for unseen in
            [" ", "\n", "a ", " a", "a\n", "a\r\n", "\ta", "a\u{a0}", "a\0", "\u{feff}a", "a\u{200b}", "\u{202e}a"]
        {
            assert_eq!(check_ends(unseen), Err(NameError::UnseenEnd { name: unseen.to_owned() }), "{unseen:?}");
        }
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
