//! The line at a connection: the calls that are queued, and how many are out by themselves.

use super::{Queued, Taken};
use leasehold_core::batch::MOST;
use std::collections::VecDeque;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The calls that want one connection.
#[derive(Debug, Default)]
pub(super) struct Line {
    queue: VecDeque<Entry>,
    /// How many calls are out by themselves.
    out: usize,
    drivers: usize,
    /// A driver is on its way to the queue.
    collecting: bool,
    /// A driver has taken calls that are not on the connection yet. Until they are, nothing may follow them.
    unwritten: bool,
    /// The batches whose replies have not been handed out.
    flying: Vec<Flying>,
}

#[derive(Debug)]
struct Flying {
    calls: usize,
    landed: CancellationToken,
}

#[derive(Debug)]
enum Entry {
    Call(Queued),
    Probe(oneshot::Sender<()>),
}

impl Line {
    /// Whether a call may go out by itself: it overtakes none, and few are out. Where more than twice as many are under way, the server and the
    /// other callers have less to do if a driver takes it along.
    pub(super) fn has_room(&self, direct: usize) -> bool {
        self.queue.is_empty() && !self.unwritten && self.out < direct && self.out + self.in_batches() <= 2 * direct
    }

    /// How many calls are in batches.
    fn in_batches(&self) -> usize {
        self.flying.iter().filter(|flying| !flying.landed.is_cancelled()).map(|flying| flying.calls).sum()
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
        self.queue.push_back(Entry::Call(queued));
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
    pub(super) fn take(&mut self) -> Option<Taken> {
        self.collecting = false;
        if self.queue.is_empty() || self.unwritten {
            self.drivers -= 1;
            return None;
        }
        let mut taken = Taken::default();
        let mut room = MOST;
        while let Some(entry) = self.queue.front() {
            if let Entry::Call(queued) = entry {
                match room.checked_sub(queued.weight) {
                    Some(left) => room = left,
                    None => break,
                }
            }
            match self.queue.pop_front() {
                Some(Entry::Call(queued)) => taken.calls.push(queued),
                Some(Entry::Probe(probe)) => taken.probes.push(probe),
                None => break,
            }
        }
        self.unwritten = true;
        let landed = CancellationToken::new();
        self.flying.retain(|flying| !flying.landed.is_cancelled());
        self.flying.push(Flying { calls: taken.calls.len(), landed: landed.clone() });
        taken.landed = Some(landed.drop_guard());
        Some(taken)
    }

    /// The calls that were taken last are on the connection, or never will be.
    pub(super) const fn wrote(&mut self) {
        self.unwritten = false;
    }

    /// Takes everything, because a driver has ended before its time: the runtime has.
    pub(super) fn abandon(&mut self) -> Vec<Queued> {
        self.drivers -= 1;
        (self.collecting, self.unwritten) = (false, false);
        self.take_queued()
    }

    /// Takes the calls that are queued. Probes behind them have nothing to wait for.
    pub(super) fn take_queued(&mut self) -> Vec<Queued> {
        self.queue.drain(..).filter_map(Entry::call).collect()
    }

    /// Puts a probe behind the calls that are queued. What it gives ends when their replies have been handed out; `None` where there are none.
    pub(super) fn probe(&mut self) -> Option<oneshot::Receiver<()>> {
        (!self.queue.is_empty()).then(|| {
            let (probe, probed) = oneshot::channel();
            self.queue.push_back(Entry::Probe(probe));
            probed
        })
    }

    /// The batches whose replies have not been handed out.
    pub(super) fn flying(&self) -> Vec<CancellationToken> {
        self.flying.iter().map(|flying| flying.landed.clone()).collect()
    }

    /// Whether nothing happens here.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.out == 0 && self.drivers == 0
    }
}

impl Entry {
    fn call(self) -> Option<Queued> {
        match self {
            Self::Call(queued) => Some(queued),
            Self::Probe(_) => None,
        }
    }
}
