//! Asking beside the contender: a lock that several may hold at once lets the waiters of a client in beside each other.
//!
//! The contender finds out whether there is room. Each grant invites further waiters, twice as many each time, and these ask at the same
//! time. The first that finds the lock busy ends the round: the invitations that are left are void, and all wait behind the contender
//! again. So a hundred waiters of a free lock get in within a few round trips, and of a thousand waiters for one permit a release has two
//! or three ask.

use super::Session;
use super::contend::Phase;
use super::queue::waiter;
use super::request::{Place, Ticket};
use crate::command::Line;

/// How many waiters of a client may ask beside the contender.
#[derive(Debug)]
pub(super) struct Invitations {
    /// An invitation of an earlier round is void.
    round: u64,
    /// How many waiters the next grant invites.
    width: usize,
}

impl Invitations {
    /// The first grant after a busy answer invites so many.
    const FIRST: usize = 1;
    /// No grant invites more than so many.
    const MOST: usize = 64;

    pub(super) const fn new() -> Self {
        Self { round: 0, width: Self::FIRST }
    }

    /// The lock is busy: nobody is invited any more.
    pub(super) const fn end_round(&mut self) {
        self.round += 1;
        self.width = Self::FIRST;
    }
}

impl Session {
    /// A waiter of a shared lock was granted: others are likely to get in beside it.
    pub(super) fn invite(&mut self, lock: usize) {
        let state = &mut self.locks[lock];
        if state.kind.verbs().line() != Line::Shared {
            return;
        }
        let Invitations { round, width } = state.invitations;
        let requests = &self.requests;
        let uninvited = |ticket: &&Ticket| {
            waiter(requests, **ticket).is_some_and(|acquire| !acquire.dormant && acquire.invited != Some(round))
        };
        let invited: Vec<Ticket> = state.queue.iter().filter(uninvited).take(width).copied().collect();
        state.invitations.width = (width * 2).min(Invitations::MOST);
        for ticket in invited {
            if let Some(acquire) = self.acquire_of_mut(ticket) {
                acquire.invited = Some(round);
            }
            self.wake(ticket);
        }
    }

    /// Whether a request may ask beside the contender: it is invited, or it is its last attempt.
    pub(super) fn may_ask_beside(&self, ticket: Ticket) -> bool {
        let Some(acquire) = self.acquire_of(ticket) else { return false };
        let lock = &self.locks[acquire.lock];
        let waits = acquire.place == Place::Line && lock.contender != Some(ticket);
        let invited = acquire.invited == Some(lock.invitations.round) && acquire.hold.is_none();
        waits && lock.kind.verbs().line() == Line::Shared && (acquire.last || invited) && !self.is_gated(acquire.lock)
    }

    /// Whether a request that does not wait asks the server although others of its client are ahead. It does where they may all get in, and
    /// where nobody has asked yet: the one whose turn it is may be a future that nobody polls.
    pub(super) fn tries_beside(&self, lock: usize) -> bool {
        let state = &self.locks[lock];
        let shared = state.kind.verbs().line() == Line::Shared;
        (shared || matches!(state.phase, Phase::Due(_))) && !self.is_gated(lock)
    }
}
