//! Ranges by index and by score.

use crate::engine::number::parse_float;
use leasehold_core::link::ServerError;
use std::ops::Range;

/// Returns the inclusive range from `start` to `stop` of `len` elements. Negative numbers count from the end.
pub(super) fn by_index(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = from_start(start).max(0);
    let end = from_start(stop).saturating_add(1).min(len);
    if start >= end {
        return 0..0;
    }
    usize::try_from(start).unwrap_or_default()..usize::try_from(end).unwrap_or_default()
}

/// A bound of a score range; a leading `(` excludes the score itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    score: f64,
    excluded: bool,
}

impl Bound {
    pub(super) fn parse(text: &[u8]) -> Result<Self, ServerError> {
        let (number, excluded) = text.strip_prefix(b"(").map_or((text, false), |number| (number, true));
        if number.is_empty() {
            // The server parses an empty string as zero here, but not as a score.
            return Ok(Self { score: 0.0, excluded });
        }
        let score = parse_float(number).ok_or_else(|| ServerError::new("ERR min or max is not a float"))?;
        Ok(Self { score, excluded })
    }

    pub(super) fn admits_from_below(self, score: f64) -> bool {
        if self.excluded { score > self.score } else { score >= self.score }
    }

    pub(super) fn admits_from_above(self, score: f64) -> bool {
        if self.excluded { score < self.score } else { score <= self.score }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_from_both_ends() {
        assert_eq!(by_index(0, -1, 3), 0..3);
        assert_eq!(by_index(-2, -1, 3), 1..3);
        assert_eq!(by_index(1, 100, 3), 1..3);
        assert_eq!(by_index(-100, 0, 3), 0..1);
        for (start, stop, len) in [(3, 5, 3), (2, 1, 3), (0, -4, 3), (0, -1, 0), (i64::MIN, i64::MIN, 3)] {
            assert!(by_index(start, stop, len).is_empty(), "{start} {stop} {len}");
        }
    }
}
