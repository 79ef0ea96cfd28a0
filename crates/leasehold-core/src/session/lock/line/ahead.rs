//! Asking ahead: the contender of a queue on the server asks as soon as its own client has sent the release, and does not wait for the notice.
//!
//! The acquire goes behind the release on the same connection, so that the server has freed the lock when it comes to it. It is granted where
//! the next of the queue is of this client; otherwise it is a command in vain. The server decides in any case.

/// How many releases go by without it, at most, after it was in vain.
const MOST_SPARED: u8 = 64;

/// Whether asking ahead is worth a command. After an attempt in vain it is left out for a release, then for two, four, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    attempt: Attempt,
    /// For how many releases it is left out from now on.
    spared: u8,
    /// For how many it was left out after the last attempt in vain; 0 where the last attempt was granted.
    last_spared: u8,
}

/// The contender's attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attempt {
    /// None is under way, or it waited for its turn.
    #[default]
    InTurn,
    /// It asks ahead.
    Ahead,
}

impl Ahead {
    /// Nothing is known yet.
    pub(super) const fn new() -> Self {
        Self { attempt: Attempt::InTurn, spared: 0, last_spared: 0 }
    }

    /// A release is sent. Says whether the contender is to ask behind it.
    #[must_use]
    pub(super) const fn note_release(&mut self) -> bool {
        let asks = self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        asks
    }

    /// The contender asks.
    pub(super) const fn begin(&mut self, ahead: bool) {
        self.attempt = if ahead { Attempt::Ahead } else { Attempt::InTurn };
    }

    /// It has the lock. Says whether it asked ahead.
    #[must_use]
    pub(super) const fn granted(&mut self) -> bool {
        let asked_ahead = matches!(self.attempt, Attempt::Ahead);
        if asked_ahead {
            (self.attempt, self.last_spared) = (Attempt::InTurn, 0);
        }
        asked_ahead
    }

    /// It does not have the lock.
    pub(super) fn refused(&mut self) {
        if std::mem::take(&mut self.attempt) == Attempt::Ahead {
            self.last_spared = (self.last_spared * 2).clamp(1, MOST_SPARED);
            self.spared = self.last_spared;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of so many releases, if the answer to each attempt is this.
    fn attempts(ahead: &mut Ahead, releases: u32, granted: bool) -> u32 {
        let mut attempts = 0;
        for _ in 0..releases {
            let asks = ahead.note_release();
            ahead.begin(asks);
            attempts += u32::from(asks);
            if granted {
                assert_eq!(ahead.granted(), asks);
            } else {
                ahead.refused();
            }
        }
        attempts
    }

    #[test]
    fn asking_in_vain_becomes_rare_and_one_grant_brings_it_back() {
        let mut ahead = Ahead::new();
        assert_eq!(attempts(&mut ahead, 100, true), 100);
        assert_eq!(attempts(&mut ahead, 7, false), 3, "it leaves out one release, then two, then four");
        attempts(&mut ahead, 1_000, false);
        assert!(attempts(&mut ahead, 650, false) <= 10, "one release of 65");
        let (mut again, mut releases) = (0, 0);
        while again == 0 {
            again = attempts(&mut ahead, 1, true);
            releases += 1;
        }
        assert!(releases <= 65, "it is tried again: {releases}");
        assert_eq!(attempts(&mut ahead, 100, true), 100);
    }

    #[test]
    fn attempt_in_turn_tells_nothing_of_asking_ahead() {
        let mut ahead = Ahead::new();
        ahead.begin(false);
        ahead.refused();
        assert!(ahead.note_release());
        ahead.begin(true);
        ahead.refused();
        ahead.begin(false);
        assert!(!ahead.granted());
        assert!(!ahead.note_release(), "the grant was in turn");
    }
}
