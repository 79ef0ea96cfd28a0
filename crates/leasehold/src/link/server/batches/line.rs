//! The line at a connection: the calls that are queued, and how many are under way.

use super::Queued;
use leasehold_core::batch::MOST;
use std::collections::VecDeque;

/// The calls that want one connection.
#[derive(Default)]
pub(super) struct Line {
    queue: VecDeque<Queued>,
    /// How many calls are out by themselves.
    out: usize,
    /// How many calls are in batches that are not answered.
    in_batches: usize,
    drivers: usize,
    /// A driver is on its way to the queue.
    collecting: bool,
    /// A driver has taken calls that are not on the connection yet. Until they are, nothing may follow them.
    unwritten: bool,
}

impl Line {
    /// Whether a call may go out by itself: it overtakes none, and few are out. Where more than twice as many are under way, the server and the
    /// other callers have less to do if a driver takes it along.
    pub(super) fn has_room(&self, direct: usize) -> bool {
        self.queue.is_empty() && !self.unwritten && self.out < direct && self.out + self.in_batches <= 2 * direct
    }

    /// A call goes out by itself.
    pub(super) const fn go_out(&mut self) {
        self.out += 1;
    }

    /// A call that was out by itself is back.
    pub(super) const fn come_back(&mut self) {
        self.out -= 1;
    }

    /// Puts a call at the end.
    pub(super) fn push(&mut self, queued: Queued) {
        self.queue.push_back(queued);
    }

    /// Whether another driver is to be started, of so many at most. It counts from now on. A full batch has nothing to wait for, and gets a driver
    /// of its own.
    pub(super) fn wants_driver(&mut self, most: usize) -> bool {
        let may_start = self.drivers < most || self.queue.len() >= MOST as usize;
        let wants = may_start && !self.queue.is_empty() && !self.collecting && !self.unwritten;
        if wants {
            self.drivers += 1;
            self.collecting = true;
        }
        wants
    }

    /// Takes the next calls to be sent as one. If there is none, or another driver is about to write, the driver that asks has come to its
    /// end. The other one takes what is left.
    pub(super) fn take(&mut self) -> Option<Vec<Queued>> {
        self.collecting = false;
        if self.queue.is_empty() || self.unwritten {
            self.drivers -= 1;
            return None;
        }
        let mut taken = Vec::new();
        let mut room = MOST;
        while let Some(left) = self.queue.front().and_then(|queued| room.checked_sub(queued.weight)) {
            room = left;
            taken.extend(self.queue.pop_front());
        }
        self.unwritten = true;
        self.in_batches += taken.len();
        Some(taken)
    }

    /// The calls that were taken last are on the connection, or never will be.
    pub(super) const fn wrote(&mut self) {
        self.unwritten = false;
    }

    /// A batch of so many calls is answered.
    pub(super) const fn land(&mut self, calls: usize) {
        self.in_batches = self.in_batches.saturating_sub(calls);
    }

    /// Takes everything, because a driver has ended before its time: the runtime has.
    pub(super) fn abandon(&mut self) -> Vec<Queued> {
        self.drivers -= 1;
        self.in_batches = 0;
        (self.collecting, self.unwritten) = (false, false);
        self.take_queued()
    }

    /// Takes the calls that are queued.
    pub(super) fn take_queued(&mut self) -> Vec<Queued> {
        self.queue.drain(..).collect()
    }

    /// Whether nothing happens here.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.out == 0 && self.drivers == 0
    }
}
