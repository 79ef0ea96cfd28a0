//! The line of the requests of one client that wait for a lock: which of them contends on the server, what it is doing, and who follows.

use crate::session::Ticket;
use crate::session::lock::line::ahead::Ahead;
use crate::session::lock::wait_queue::WaitQueue;
use crate::time::Instant;

mod ahead;

/// The line of a lock.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The requests that wait, the contender aside.
    queue: WaitQueue,
    /// The one that may ask the server. If there is none while requests wait, their futures have not been polled when it was their turn.
    contender: Option<Ticket>,
    phase: Phase,
    /// A notice came while the contender's command was under way.
    notice_came: bool,
    ahead: Ahead,
}

/// The activity of the contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No request waits.
    #[default]
    Idle,
    /// It may ask, and has until then to be polled; for ever, if all waiting futures are never polled.
    Due(Instant),
    /// Its command is under way, or being settled.
    Trying,
    /// It waits for the server to confirm the subscription.
    Subscribing,
    /// It waits for a notice, until then at most.
    Sleeping(Instant),
    /// Its own client has sent the release: it may ask behind that. If it is not polled it goes on to wait for a notice, until then at most.
    Ahead(Instant),
    /// It leaves the server in peace until then.
    BackingOff(Instant),
    /// It waits for another task of this client to let go.
    Gated,
}

/// What a request leaves behind that has left the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the next request may have to be woken"]
pub(crate) enum AfterLeaving {
    /// No request waits any more.
    Empty,
    /// It was not the contender: nothing changes for the others.
    Unchanged,
    /// The contender's turn is free, and the next one may ask at once.
    TurnIsOpen,
    /// The next one waits where the contender did.
    NextWaits,
}

/// The end of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

impl Line {
    /// A line in which no request waits.
    pub(crate) const fn new() -> Self {
        Self { queue: WaitQueue::new(), contender: None, phase: Phase::Idle, notice_came: false, ahead: Ahead::new() }
    }

    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.contender.is_none() && self.queue.is_empty()
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.contender.is_some())
    }

    /// The request that may ask the server.
    pub(crate) const fn contender(&self) -> Option<Ticket> {
        self.contender
    }

    /// Whether this request is the contender.
    pub(crate) fn is_contender(&self, ticket: Ticket) -> bool {
        self.contender == Some(ticket)
    }

    /// Whether this request is the contender, and may ask now.
    pub(crate) fn is_turn_of(&self, ticket: Ticket) -> bool {
        self.is_contender(ticket) && matches!(self.phase, Phase::Due(_) | Phase::Ahead(_))
    }

    /// What the contender is doing.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the turn is due, whosever it is.
    pub(crate) const fn is_due(&self) -> bool {
        matches!(self.phase, Phase::Due(_))
    }

    /// Whether the contender waits without asking, and learns from notices alone.
    pub(crate) const fn listens(&self) -> bool {
        matches!(self.phase, Phase::Sleeping(_) | Phase::Ahead(_) | Phase::Subscribing)
    }

    /// Whether the contender has nothing on its way, and nothing has failed for it: it waits for a release, or is about to ask.
    pub(crate) const fn is_at_rest(&self) -> bool {
        self.listens() || self.is_due()
    }

    /// The requests behind the contender, in order.
    pub(crate) const fn queue(&self) -> &WaitQueue {
        &self.queue
    }

    /// The contender, and the requests behind it in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = Ticket> {
        self.contender.into_iter().chain(self.queue.iter())
    }

    /// When the contender's phase ends by itself.
    pub(crate) const fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Due(until) if self.contender.is_some() => Some(until),
            Phase::Sleeping(until) | Phase::Ahead(until) | Phase::BackingOff(until) => Some(until),
            _ => None,
        }
    }

    /// The first request comes: it is its turn, and it has until then to be polled.
    pub(crate) fn begin(&mut self, ticket: Ticket, until: Instant) {
        debug_assert!(self.is_empty(), "a request is first in an empty line");
        self.contender = Some(ticket);
        self.phase = Phase::Due(until);
    }

    /// A request comes that does not contend.
    pub(crate) fn push(&mut self, ticket: Ticket, end: End) {
        match end {
            End::Front => self.queue.push_front(ticket),
            End::Back => self.queue.push_back(ticket),
        }
    }

    /// A request of the line takes the contender's turn, and that one goes to this end of the queue.
    pub(crate) fn replace_contender(&mut self, ticket: Ticket, end: End) {
        self.queue.remove(ticket);
        if let Some(contender) = self.contender.replace(ticket) {
            self.push(contender, end);
        }
    }

    /// The contender does not use its turn, and goes to this end of the queue.
    pub(crate) fn step_back(&mut self, ticket: Ticket, end: End) {
        debug_assert!(self.is_contender(ticket), "only the contender has a turn");
        self.contender = None;
        self.push(ticket, end);
    }

    /// Makes the first request that is awake the contender, if there is none.
    pub(crate) fn pick(&mut self, is_awake: impl Fn(Ticket) -> bool) {
        if self.contender.is_none() {
            self.contender = self.queue.iter().find(|ticket| is_awake(*ticket));
            if let Some(contender) = self.contender {
                self.queue.remove(contender);
            }
        }
    }

    /// A request leaves the queue behind the contender, if it stands there.
    pub(crate) fn leave_queue(&mut self, ticket: Ticket) {
        self.queue.remove(ticket);
    }

    /// A request leaves the line.
    pub(crate) fn leave(&mut self, now: Instant, ticket: Ticket) -> AfterLeaving {
        if !self.is_contender(ticket) {
            self.queue.remove(ticket);
            return if self.is_empty() { AfterLeaving::Empty } else { AfterLeaving::Unchanged };
        }
        self.contender = None;
        if self.phase == Phase::Trying {
            self.phase = Phase::Due(now);
        }
        if self.is_due() { AfterLeaving::TurnIsOpen } else { AfterLeaving::NextWaits }
    }

    /// The contender is granted the lock. Says whether it asked ahead of its notice.
    #[must_use]
    pub(crate) const fn contender_leaves(&mut self) -> bool {
        self.contender = None;
        self.ahead.granted()
    }

    /// This client sends a release. Says whether the contender, which sleeps, is to ask behind it.
    #[must_use]
    pub(crate) fn ask_ahead(&mut self) -> bool {
        let Phase::Sleeping(until) = self.phase else { return false };
        let asks = self.contender.is_some() && self.ahead.note_release();
        if asks {
            self.phase = Phase::Ahead(until);
        }
        asks
    }

    /// It is the contender's turn, until then.
    pub(crate) const fn set_due(&mut self, until: Instant) {
        self.phase = Phase::Due(until);
    }

    /// The contender's command is sent.
    pub(crate) const fn begin_attempt(&mut self) {
        self.ahead.begin(matches!(self.phase, Phase::Ahead(_)));
        self.phase = Phase::Trying;
        self.notice_came = false;
    }

    /// The contender has asked before it became so. Its answer may be older than what makes it its turn: it asks once more after it.
    pub(crate) const fn await_older_attempt(&mut self) {
        self.phase = Phase::Trying;
        self.notice_came = true;
    }

    /// The contender was told that the lock is taken. It asks again at once if a notice came meanwhile; it waits for its subscription if that
    /// is not `confirmed`; and it sleeps otherwise.
    pub(crate) fn wait(&mut self, confirmed: bool, due_until: Instant, sleep_until: Instant) {
        self.ahead.refused();
        self.phase = match (confirmed, self.notice_came) {
            (false, _) => Phase::Subscribing,
            (true, true) => Phase::Due(due_until),
            (true, false) => Phase::Sleeping(sleep_until),
        };
    }

    /// The next contender waits for a release, whatever the last one heard.
    pub(crate) const fn wait_for_release(&mut self, confirmed: bool, sleep_until: Instant) {
        self.phase = if confirmed { Phase::Sleeping(sleep_until) } else { Phase::Subscribing };
    }

    /// The contender sleeps until then, unless a notice comes.
    pub(crate) const fn sleep(&mut self, until: Instant) {
        self.phase = Phase::Sleeping(until);
    }

    /// The contender leaves the server in peace until then.
    pub(crate) const fn back_off(&mut self, until: Instant) {
        self.phase = Phase::BackingOff(until);
    }

    /// The contender waits for another task of this client.
    pub(crate) const fn gate(&mut self) {
        self.phase = Phase::Gated;
    }

    /// A notice came. Says whether it is the contender's turn now; if its command is under way, it asks once more after it.
    #[must_use]
    pub(crate) const fn note_notice(&mut self) -> bool {
        match self.phase {
            Phase::Sleeping(_) | Phase::Ahead(_) => return true,
            Phase::Trying => self.notice_came = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::BackingOff(_) | Phase::Gated => {}
        }
        false
    }

    /// The server has confirmed the subscription; earlier releases were missed. Returns whether it is the contender's
    /// turn now. If its command is in flight, the reply may be older, so it retries once after that reply.
    #[must_use]
    pub(crate) fn note_confirmed(&mut self) -> bool {
        self.phase == Phase::Subscribing || self.note_notice()
    }

    /// Notices may have been missed: the contender asks at `at` or before, and once more if its command is under way.
    pub(crate) fn note_missed_notices(&mut self, at: Instant) {
        match &mut self.phase {
            Phase::Sleeping(until) | Phase::Ahead(until) | Phase::BackingOff(until) => *until = at.min(*until),
            Phase::Trying => self.notice_came = true,
            Phase::Idle | Phase::Due(_) | Phase::Subscribing | Phase::Gated => {}
        }
    }

    /// The contender, if it sleeps, does so until `at` at most. Says whether it sleeps.
    pub(crate) fn wake_by(&mut self, at: Instant) -> bool {
        let (Phase::Sleeping(until) | Phase::Ahead(until)) = &mut self.phase else { return false };
        *until = at.min(*until);
        true
    }

    /// The answer that has come tells more than the notice before it.
    pub(crate) const fn forget_notice(&mut self) {
        self.notice_came = false;
    }

    /// Takes the queue out; the contender stays.
    pub(crate) fn take_queue(&mut self) -> WaitQueue {
        std::mem::take(&mut self.queue)
    }

    /// Puts a queue in the place of the one that was taken out.
    pub(crate) fn put_queue(&mut self, queue: WaitQueue) {
        self.queue = queue;
    }

    /// No request waits any more.
    pub(crate) fn end(&mut self) {
        debug_assert!(self.is_empty(), "no waiter is forgotten");
        self.phase = Phase::Idle;
        self.notice_came = false;
    }
}

#[cfg(test)]
mod tests;
