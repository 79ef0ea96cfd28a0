//! The deadline of a hold: until when this client may believe in it.
//!
//! The instant itself stands in the [`HoldCell`], where guards read it, and which caps it by the longest time for which the lock is to be
//! held. This is what decides about it: which replies make it later, and which make it earlier. It is the heart of invariant 4. A hold that is
//! granted without the server has another one (`Hold::grant_locally`, `Hold::restore`). The margin is [`Settings::margin`].

use crate::hold_cell::HoldCell;
use crate::settings::Settings;
use crate::time::Instant;
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Deadline {
    /// The end of the longest time for which the lock is to be held.
    latest: Instant,
    /// When the last reply was read that said how much of the lease is left.
    told_at: Instant,
    /// When such a reply has last contradicted the deadline.
    contradicted_at: Instant,
}

/// What a reply means for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Observed {
    /// The deadline stands.
    Holds,
    /// The deadline was too late. It is earlier now, and has not passed.
    Contradicted,
    /// The deadline has passed: the hold is lost.
    Passed,
}

impl Deadline {
    /// The deadline of a hold that is begun now, and held until `latest` at most.
    pub(crate) const fn until(latest: Instant) -> Self {
        Self { latest, told_at: Instant::from_nanos(0), contradicted_at: Instant::from_nanos(0) }
    }

    /// The hold is begun anew now in the place of the one that the server has, and held until `latest` at most.
    pub(crate) const fn pass_on(&mut self, latest: Instant) {
        self.latest = latest;
    }

    /// Until when a client may believe in the rest of a lease that a server named when it executed a command.
    pub(crate) fn from_reply(sent_at: Instant, left: Duration) -> Instant {
        sent_at + left - Settings::margin(left)
    }

    /// The end of the longest time for which the lock is to be held; [`Instant::FAR_FUTURE`] if there is none.
    pub(crate) const fn latest(&self) -> Instant {
        self.latest
    }

    /// A reply was read that said how much of the lease is left.
    pub(crate) const fn note_reply(&mut self, now: Instant) {
        self.told_at = now;
    }

    /// Whether a command that was sent at `sent_at` was sent after the last reply had been read, and so is newer than all that is known.
    pub(crate) fn is_older_than(&self, sent_at: Instant) -> bool {
        self.told_at < sent_at
    }

    /// Looks whether a reply contradicts the deadline, without taking anything from it that would make it later.
    ///
    /// A deadline stands while the replies that come after allow for it, so that a slow one takes nothing away. The reply to a command that
    /// was sent after the last reply was read tells of less than the deadline promises: however long it was under way, a clock has been
    /// stepped, or a failover has lost a renewal. Then nothing counts that was sent before this was known. Two commands that are on their way
    /// at the same time may be executed in any order, and contradict nothing of each other.
    pub(crate) fn observe_reply(
        &mut self,
        cell: &HoldCell,
        now: Instant,
        sent_at: Instant,
        left: Duration,
    ) -> Observed {
        let contradicted = sent_at >= self.told_at && cell.deadline() > now + left;
        self.told_at = now;
        if contradicted {
            self.contradicted_at = now;
            cell.set_deadline(Self::from_reply(sent_at, left));
        }
        match now < cell.deadline() {
            false => Observed::Passed,
            true if contradicted => Observed::Contradicted,
            true => Observed::Holds,
        }
    }

    /// Makes the deadline later by the reply to a grant or a renewal. Says whether the hold is not yet known to be lost.
    pub(crate) fn extend(&self, cell: &HoldCell, sent_at: Instant, left: Duration) -> bool {
        let known = cell.deadline();
        let later = if sent_at < self.contradicted_at { known } else { known.max(Self::from_reply(sent_at, left)) };
        cell.set_deadline(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::{ClientId, HoldName, HoldNumber};

    const LEASE: Duration = Duration::from_secs(30);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
    }

    /// A hold that was granted by a call that was sent at 0 and answered at 10 ms.
    fn granted() -> (Deadline, HoldCell) {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        let cell = HoldCell::new(name, 1, at(0), Instant::FAR_FUTURE);
        let mut deadline = Deadline::until(Instant::FAR_FUTURE);
        assert!(deadline.extend(&cell, at(0), LEASE));
        deadline.note_reply(at(10));
        (deadline, cell)
    }

    #[test]
    fn deadline_is_reckoned_from_the_send_less_a_margin() {
        let (_, cell) = granted();
        assert_eq!(cell.deadline(), at(0) + LEASE - Settings::margin(LEASE));
    }

    #[test]
    fn replies_hold_contradict_or_come_too_late() {
        // When the command was sent, when its reply is read, how many milliseconds were left, and what that means.
        let rows = [
            (10_000, 10_005, 30_000, Observed::Holds),
            // A slow reply takes nothing away: the deadline stands as long as the rest allows for it.
            (10_000, 14_000, 30_000, Observed::Holds),
            (10_000, 10_005, 20_000, Observed::Holds),
            // The server has less than was promised.
            (10_000, 10_005, 5_000, Observed::Contradicted),
            (10_000, 14_000, 4_500, Observed::Contradicted),
            // By the time that it is read, that has passed, too.
            (10_000, 16_000, 5_000, Observed::Passed),
            // It was under way together with the grant, and may have been executed before it.
            (5, 20, 5_000, Observed::Holds),
            (10_000, 29_700, 1, Observed::Passed),
        ];
        for (sent_at, read_at, left, expected) in rows {
            let (mut deadline, cell) = granted();
            let observed = deadline.observe_reply(&cell, at(read_at), at(sent_at), Duration::from_millis(left));
            assert_eq!(observed, expected, "sent at {sent_at}, read at {read_at}, {left} left");
        }
    }

    #[test]
    fn renewal_sent_before_a_contradiction_extends_nothing() {
        let (mut deadline, cell) = granted();
        let observed = deadline.observe_reply(&cell, at(10_005), at(10_000), Duration::from_secs(5));
        assert_eq!(observed, Observed::Contradicted);
        let earlier = cell.deadline();
        assert!(deadline.extend(&cell, at(10_001), LEASE));
        assert_eq!(cell.deadline(), earlier, "it may have been executed before the clock was stepped");
        assert!(deadline.extend(&cell, at(10_006), LEASE));
        assert!(cell.deadline() > earlier);
    }

    #[test]
    fn a_deadline_that_was_seen_to_pass_is_not_extended() {
        let (deadline, cell) = granted();
        assert!(cell.ended(at(40_000)).is_some(), "a guard looks");
        assert!(!deadline.extend(&cell, at(20_000), LEASE));
    }

    #[test]
    fn a_command_is_newer_than_the_last_reply_or_not() {
        let (deadline, _) = granted();
        assert!(deadline.is_older_than(at(11)) && !deadline.is_older_than(at(10)));
    }
}
