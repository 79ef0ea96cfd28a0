//! The words of a command, encoded for the wire.

use bytes::Bytes;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Index;

/// The words of a command: consecutive bulk strings.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a> {
    encoded: &'a [u8],
    count: usize,
}

impl<'a> Words<'a> {
    /// The `count` bulk strings in `encoded`.
    pub(crate) const fn new(encoded: &'a [u8], count: usize) -> Self {
        Self { encoded, count }
    }

    /// The encoded bytes.
    pub(super) const fn encoded(self) -> &'a [u8] {
        self.encoded
    }

    /// Number of words.
    pub const fn len(self) -> usize {
        self.count
    }

    /// Returns whether the list is empty.
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Iterates over the words.
    pub const fn iter(self) -> WordsIter<'a> {
        WordsIter(self.encoded)
    }

    /// The word at an index.
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.iter().nth(index)
    }

    /// The first word.
    pub fn first(self) -> Option<&'a [u8]> {
        self.get(0)
    }

    /// Copies the words.
    pub fn to_vec(self) -> Vec<Bytes> {
        self.iter().map(Bytes::copy_from_slice).collect()
    }
}

impl Index<usize> for Words<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.get(index).unwrap_or_else(|| panic!("word {index} of {self:?}"))
    }
}

impl<'a> IntoIterator for Words<'a> {
    type Item = &'a [u8];
    type IntoIter = WordsIter<'a>;

    fn into_iter(self) -> WordsIter<'a> {
        self.iter()
    }
}

/// Iterates over [`Words`].
#[derive(Clone, Debug)]
pub struct WordsIter<'a>(&'a [u8]);

impl<'a> Iterator for WordsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b'\r')?;
        let len = self.0[1..end].iter().fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
        let (word, rest) = self.0[end + 2..].split_at(len);
        self.0 = &rest[2..];
        Some(word)
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.to_vec()).finish()
    }
}

/// Hashes as a slice of the words.
impl Hash for Words<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.count);
        self.iter().for_each(|word| word.hash(state));
    }
}

impl<const N: usize> PartialEq<[&str; N]> for Words<'_> {
    fn eq(&self, other: &[&str; N]) -> bool {
        self.iter().eq(other.iter().map(|word| word.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::bulk;

    #[test]
    fn words_are_read_as_they_were_written() {
        let mut encoded = Vec::new();
        bulk(&mut encoded, &[b"a\r\n$1", b"", b"b"]);
        bulk(&mut encoded, &[]);
        bulk(&mut encoded, &[b"18446744073709551615"]);
        let words = Words::new(&encoded, 3);
        assert_eq!(words, ["a\r\n$1b", "", "18446744073709551615"]);
        assert_eq!((words.first(), words.get(3)), (Some(&b"a\r\n$1b"[..]), None));
        assert_eq!((words.len(), &words[2][..3], words.to_vec().len()), (3, &b"184"[..], 3));
        assert_eq!(format!("{words:?}"), r#"[b"a\r\n$1b", b"", b"18446744073709551615"]"#);
        assert!(Words::default().is_empty());
    }
}
