//! Takes bytes for choices, numbers and texts.

use bytes::Bytes;
use leasehold_core::reply::Reply;

/// Bytes that are read from the front. When they are used up, all choices are the first.
pub(crate) struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Any number, mostly one that a script could mean.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            choice @ 0..=99 => i64::from(choice % 12) - 4,
            100..=149 => i64::from(self.byte()) * 100,
            150..=199 => 1_800_000_000_000 + i64::from(self.byte()),
            200..=229 => {
                self.one_of(&[i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1, i64::from(u32::MAX), 2_147_483_648, -5])
            }
            _ => i64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// At most `most` bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = self.below(most + 1).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    pub(crate) fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }

    /// Any reply of a script, mostly one that begins like an answer of ours.
    pub(crate) fn reply(&mut self) -> Reply {
        match self.byte() % 8 {
            0 => Reply::Nil,
            1 => Reply::Int(self.number()),
            2 => self.part(),
            _ => {
                let length = self.below(9);
                Reply::Array((0..length).map(|_| self.part()).collect())
            }
        }
    }

    fn part(&mut self) -> Reply {
        match self.byte() % 16 {
            0..=9 => Reply::Int(self.number()),
            10 => Reply::Bulk(Bytes::from(self.number().to_string())),
            11 => Reply::Bulk(Bytes::copy_from_slice(self.bytes(40))),
            12 => Reply::Bulk(Bytes::from(self.one_of(&["zset", "read", "write", "6f0c:7", "0123456789abcdef", "+7"]))),
            13 => Reply::Nil,
            14 => Reply::Array(Vec::new()),
            _ => Reply::Array(vec![Reply::Int(self.number())]),
        }
    }
}
