//! The line of a connection: its queued calls, and the numbers of calls in flight.

use super::super::connection::STALL;
use super::Queued;
use leasehold_core::batch::MOST;
use std::collections::VecDeque;
use tokio::time::Instant;

/// The calls for one connection.
#[derive(Default)]
pub(super) struct Line {
    queue: VecDeque<Queued>,
    /// Number of direct calls in flight.
    out: usize,
    /// Number of calls in batches without a reply.
    in_batches: usize,
    senders: usize,
    /// A sender is about to take the queue, since this instant.
    collecting: Option<Instant>,
    /// A sender has taken calls that are not on the connection yet. Later calls must wait, to keep the order.
    unwritten: bool,
}

impl Line {
    /// Whether a call may be direct: it overtakes no other, and few direct calls are in flight. With more than twice as many in flight in total,
    /// a batch costs the server and the callers less.
    pub(super) fn has_room(&self, direct: usize) -> bool {
        self.queue.is_empty() && !self.unwritten && self.out < direct && self.out + self.in_batches <= 2 * direct
    }

    /// Counts a direct call.
    pub(super) const fn go_out(&mut self) {
        self.out += 1;
    }

    /// Records the end of a direct call.
    pub(super) const fn come_back(&mut self) {
        self.out -= 1;
    }

    /// Queues a call.
    pub(super) fn push(&mut self, queued: Queued) {
        self.queue.push_back(queued);
    }

    /// Whether to start another sender, up to `most`. Counts it at once. A full batch gains nothing by waiting, so it gets a sender beyond the
    /// limit.
    pub(super) fn wants_sender(&mut self, most: usize) -> bool {
        let may_start = self.senders < most || self.queue.len() >= MOST as usize;
        let wants = may_start && !self.queue.is_empty() && self.collecting.is_none() && !self.unwritten;
        if wants {
            self.senders += 1;
            self.collecting = Some(Instant::now());
        }
        wants
    }

    /// Whether to start a sender in place of one that has not begun for [`STALL`], because its runtime is blocked. Counts it at once.
    pub(super) fn wants_replacement(&mut self) -> bool {
        let is_stalled = self.collecting.is_some_and(|since| since.elapsed() >= STALL);
        let wants = is_stalled && !self.queue.is_empty() && !self.unwritten;
        self.senders += usize::from(wants);
        wants
    }

    /// Whether there are senders.
    pub(super) const fn has_senders(&self) -> bool {
        self.senders > 0
    }

    /// Takes the calls of the next batch. Returns `None`, and ends the sender, if the queue is empty or another sender is about to write. That
    /// sender takes the rest. A replacement leaves the mark of the stalled sender, so that no other starts there.
    pub(super) fn take(&mut self, is_replacement: bool) -> Option<Vec<Queued>> {
        if !is_replacement {
            self.collecting = None;
        }
        if self.queue.is_empty() || self.unwritten {
            self.senders -= 1;
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

    /// The last taken calls are on the connection, or were dropped.
    pub(super) const fn wrote(&mut self) {
        self.unwritten = false;
    }

    /// Records the end of a batch of `calls` calls.
    pub(super) const fn land(&mut self, calls: usize) {
        self.in_batches = self.in_batches.saturating_sub(calls);
    }

    /// Records that a sender was dropped with its runtime. Takes all calls, unless there is another sender.
    pub(super) fn abandon(&mut self) -> Vec<Queued> {
        self.senders -= 1;
        self.collecting = None;
        if self.senders > 0 {
            return Vec::new();
        }
        self.in_batches = 0;
        self.unwritten = false;
        self.take_queued()
    }

    /// Takes the queued calls.
    pub(super) fn take_queued(&mut self) -> Vec<Queued> {
        self.queue.drain(..).collect()
    }

    /// Whether the line is empty: no calls, no senders.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.out == 0 && self.senders == 0
    }
}
