//! What a hold is: asked for, queued, held, or ended.

use crate::error::HoldEnd;

/// The state of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HoldState {
    /// A first acquire of it may be on the server.
    #[default]
    Asking,
    /// It has a place in a queue, or a mark, on the server.
    Queued,
    /// It was granted.
    Held(CountedBy),
    /// It was granted, and its guards were told that it has ended.
    Ended(CountedBy, HoldEnd),
}

/// Who counts the guards of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedBy {
    /// The server.
    Server,
    /// The client, because it was granted without the server, which has it since.
    ClientSince,
    /// The client, and the server does not have it yet: the hold is degraded, and keeps out the other tasks of this client alone.
    ClientAlone,
    /// The client, and the server is never to have it: the hold is degraded, and keeps out no other.
    PassedThrough,
}

impl HoldState {
    /// Whether it was ever granted.
    pub(crate) const fn is_granted(self) -> bool {
        self.counted_by().is_some()
    }

    /// Whether it has a place, or a mark, on the server, and was not granted.
    pub(crate) fn is_queued(self) -> bool {
        self == Self::Queued
    }

    /// Whether it was granted without the server, which does not have it yet.
    pub(crate) fn is_degraded(self) -> bool {
        matches!(self.counted_by(), Some(CountedBy::ClientAlone | CountedBy::PassedThrough))
    }

    /// Whether the server is asked for it again and again, because it was granted without it.
    pub(crate) fn is_restorable(self) -> bool {
        self == Self::Held(CountedBy::ClientAlone)
    }

    /// Whether it was granted without the server, which does not count its guards since then.
    pub(crate) fn is_counted_by_client(self) -> bool {
        self.counted_by().is_some_and(|by| by != CountedBy::Server)
    }

    /// How it ended, if it has.
    pub(crate) const fn end(self) -> Option<HoldEnd> {
        match self {
            Self::Ended(_, end) => Some(end),
            Self::Asking | Self::Queued | Self::Held(_) => None,
        }
    }

    /// The server has given it a place. Says whether it had none before.
    pub(crate) fn take_place(&mut self) -> bool {
        debug_assert!(!self.is_granted(), "a granted hold takes no place");
        std::mem::replace(self, Self::Queued) != Self::Queued
    }

    /// Its place is gone, or the server has given that up for a grant. Says whether it had one.
    pub(crate) fn leave_place(&mut self) -> bool {
        let was_queued = self.is_queued();
        if was_queued {
            *self = Self::Asking;
        }
        was_queued
    }

    /// It is granted.
    pub(crate) fn grant(&mut self, by: CountedBy) {
        debug_assert!(!self.is_granted(), "a hold is granted once");
        *self = Self::Held(by);
    }

    /// What was granted is nothing that can be held.
    pub(crate) const fn forget_grant(&mut self) {
        *self = Self::Asking;
    }

    /// The server has what was granted without it.
    pub(crate) fn restore(&mut self) {
        debug_assert!(self.is_restorable(), "only a hold that the server is asked for is restored");
        *self = Self::Held(CountedBy::ClientSince);
    }

    /// It ends. The first end is the one that counts: says whether this is it.
    pub(crate) fn finish(&mut self, end: HoldEnd) -> bool {
        if self.end().is_some() {
            return false;
        }
        let by = self.counted_by();
        debug_assert!(by.is_some(), "a hold that was not granted has no end that a guard could be told");
        *self = Self::Ended(by.unwrap_or(CountedBy::Server), end);
        true
    }

    const fn counted_by(self) -> Option<CountedBy> {
        match self {
            Self::Held(by) | Self::Ended(by, _) => Some(by),
            Self::Asking | Self::Queued => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossReason;

    const LOST: HoldEnd = HoldEnd::Lost(LossReason::Removed);

    #[test]
    fn place_is_taken_and_left_once() {
        let mut state = HoldState::default();
        assert!(state.take_place() && !state.take_place() && state.is_queued() && !state.is_granted());
        assert!(state.leave_place() && !state.leave_place() && !state.is_queued());
    }

    #[test]
    fn first_end_counts_and_keeps_who_counted() {
        for by in [CountedBy::Server, CountedBy::ClientSince, CountedBy::ClientAlone, CountedBy::PassedThrough] {
            let mut state = HoldState::Queued;
            state.grant(by);
            let degraded = matches!(by, CountedBy::ClientAlone | CountedBy::PassedThrough);
            let by_client = by != CountedBy::Server;
            assert_eq!(state.is_restorable(), by == CountedBy::ClientAlone);
            assert_eq!((state.is_degraded(), state.is_counted_by_client()), (degraded, by_client));
            assert_eq!(state.end(), None);
            assert!(state.finish(LOST) && !state.finish(HoldEnd::Released));
            assert_eq!((state.is_granted(), state.end()), (true, Some(LOST)));
            assert_eq!((state.is_degraded(), state.is_counted_by_client()), (degraded, by_client));
        }
    }

    #[test]
    fn restored_hold_is_still_counted_by_its_client() {
        let mut state = HoldState::default();
        state.grant(CountedBy::ClientAlone);
        state.restore();
        assert!(!state.is_degraded() && state.is_counted_by_client());
    }
}
