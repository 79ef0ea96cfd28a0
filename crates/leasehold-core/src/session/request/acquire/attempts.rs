//! The future of an acquire, and its attempts.

use crate::owner::HoldNumber;
use crate::session::request::acquire::Acquire;
use crate::time::Instant;
use std::task::Waker;

impl Acquire {
    /// Its future is polled. Says whether it had not been when its turn came.
    pub(crate) fn note_polled(&mut self, waker: &Waker) -> bool {
        self.waker = Some(waker.clone());
        std::mem::take(&mut self.unpolled)
    }

    /// Its turn came, and its future was not polled. Gives the hold that it had begun.
    pub(crate) const fn note_unpolled(&mut self) -> Option<HoldNumber> {
        self.unpolled = true;
        self.hold.take()
    }

    /// Whether its future has been polled since its last turn.
    pub(crate) const fn is_awake(&self) -> bool {
        !self.unpolled
    }

    /// It asks for a first grant. Gives the hold that it has begun before.
    pub(crate) const fn begin_attempt(&mut self) -> Option<HoldNumber> {
        self.attempts = self.attempts.saturating_add(1);
        self.hold
    }

    /// The attempt that is under way, or the next one, is the last.
    pub(crate) const fn make_final(&mut self) {
        self.is_final_attempt = true;
    }

    /// A call of it was not sent, and may be sent again at once. Says how often that has happened.
    pub(crate) const fn note_resend(&mut self) -> u8 {
        self.resends = self.resends.saturating_add(1);
        self.resends
    }

    /// Whether no pause after a failure lies before it.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    /// It leaves the server in peace until then.
    pub(crate) const fn retry_at(&mut self, at: Instant) {
        self.retry_at = Some(at);
    }

    /// Ends a pause after a failure. Says whether one is over now.
    pub(crate) fn end_pause(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether it found a lock busy that is polled.
    pub(crate) const fn has_polled(&self) -> bool {
        self.polls > 0
    }

    /// It found a lock busy that is polled. Gives how often it has.
    pub(crate) const fn note_poll(&mut self) -> u32 {
        self.polls = self.polls.saturating_add(1);
        self.polls
    }

    /// The caller's own back-off is to be asked, or not.
    pub(crate) const fn ask_backoff(&mut self, asks: bool) {
        self.asks_backoff = asks;
    }

    /// After which failure the caller's own back-off is to be asked, if it is; once.
    pub(crate) fn take_backoff_question(&mut self) -> Option<u32> {
        let asks = std::mem::take(&mut self.asks_backoff);
        (asks && !self.has_ended()).then_some(self.polls)
    }

    pub(in crate::session::request) const fn waker(&mut self) -> &mut Option<Waker> {
        &mut self.waker
    }

    /// The instant of its timer, as it is set.
    pub(crate) const fn timer(&self) -> Option<Instant> {
        self.timer
    }

    pub(in crate::session::request) const fn timer_slot(&mut self) -> &mut Option<Instant> {
        &mut self.timer
    }
}
