//! The one table of timers, in the order in which they are due.

use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::ids::{ChannelId, LockId};
use crate::time::Instant;
use std::collections::BTreeSet;

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A lock's line: a turn lapses, a sleep ends, or a failed attempt is to be repeated.
    Lock(LockId),
    /// A hold: its deadline passes, its renewal is due, or its count is to be lowered.
    Hold(HoldNumber),
    /// A channel: a subscription, or its end, is tried again.
    Channel(ChannelId),
    /// End of the subscription of a lock whose channel stays subscribed between holds.
    Listening(LockId),
    /// A request: the caller's patience ends.
    Request(Ticket),
}

/// Timers, each set at most once: the setter remembers for when, and takes it back with that.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Moves `timer` from where `slot` says that it stands to `to`.
    pub(super) fn set(&mut self, timer: Timer, slot: &mut Option<Instant>, to: Option<Instant>) {
        if *slot == to {
            return;
        }
        if let Some(at) = slot.take() {
            self.0.remove(&(at, timer));
        }
        if let Some(at) = to.filter(|at| *at != Instant::FAR_FUTURE) {
            self.0.insert((at, timer));
            *slot = Some(at);
        }
    }

    /// Takes out one timer that is due at `now`. Its slot still names it; setting it again is harmless.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.0.first()?.0 > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
