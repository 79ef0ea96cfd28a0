//! A property that a busy machine may spoil now and then is shown in one round of several.

use std::fmt::Debug;

/// Rounds of a measurement of which one must be good.
///
/// A machine that is held up breaks single ones, by a thread that does not run for a tenth of a second. A fault of the code shows in every
/// round.
///
/// ```
/// use leasehold_test_support::Rounds;
///
/// let mut rounds = Rounds::default();
/// loop {
///     let calls = 4;
///     if rounds.end_with(calls == 4, calls) {
///         break;
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct Rounds {
    spoiled: Vec<String>,
}

impl Rounds {
    /// How many there are at most.
    pub const MOST: usize = 6;

    /// Whether this round was good, and there is to be no other.
    ///
    /// # Panics
    ///
    /// When no round of all was good; the text has `what` of each.
    #[track_caller]
    pub fn end_with(&mut self, good: bool, what: impl Debug) -> bool {
        if good {
            return true;
        }
        self.spoiled.push(format!("{what:?}"));
        assert!(self.spoiled.len() < Self::MOST, "no round was good: {}", self.spoiled.join(", "));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Rounds;

    #[test]
    fn one_good_round_is_enough() {
        let mut rounds = Rounds::default();
        assert!((1..Rounds::MOST).all(|round| !rounds.end_with(false, round)));
        assert!(rounds.end_with(true, "good"));
    }

    #[test]
    #[should_panic(expected = "no round was good: 1, 2, 3, 4, 5, 6")]
    fn only_spoiled_rounds_are_a_failure() {
        let mut rounds = Rounds::default();
        for round in 1..=Rounds::MOST {
            rounds.end_with(false, round);
        }
    }
}
