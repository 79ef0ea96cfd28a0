//! Other clients that want a lock which is handed on among the tasks of this one: whether there are any, and what they get.
//!
//! The reply to a release tells how many connections were told of it. Where none but this client listens, only the time bounds how long it keeps
//! the lock, and it asks again at once: a client that comes meanwhile is counted by the next release, and is let in after the hold behind that. Who
//! polls is never counted, so that others are let in from time to time all the same.

use crate::command::Listeners;
use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::lock::rivals::Rivals;
use crate::session::parts::Parts;
use crate::settings::HandOver;
use crate::time::Instant;

impl Parts {
    /// How far a lock is handed on. The time alone is a bound where no other client wants it.
    pub(super) fn hand_over_limits(&self, lock: LockId) -> Option<HandOver> {
        let limits = self.settings.hand_over?;
        Some(match self.locks[lock].rivals() {
            Rivals::Possible => limits,
            Rivals::None { .. } => HandOver { most: u32::MAX, ..limits },
        })
    }

    /// A hold has ended, and the server told so many connections: whether other clients want the lock. A node of a cluster does not know who
    /// listens at the others, unless the message is for its shard alone.
    pub(in crate::session) fn note_listeners(&mut self, lock: LockId, listeners: Listeners) {
        let counts_all = !self.settings.cluster || self.settings.publish == b"SPUBLISH"[..];
        let only_self = match listeners {
            Listeners::None => true,
            Listeners::One => self.subscriptions.listens(lock, |_| true) && self.subscriptions.is_confirmed(lock),
            Listeners::Several => false,
        };
        self.locks[lock].note_rivals(!(counts_all && only_self));
    }

    /// The hold is released to the server, and was handed on before: the contender leaves other clients the time to ask first, if there may be
    /// some. A pause for none would cost a client behind a slow network more time than the holds themselves.
    pub(super) fn pause_behind(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number) else { return };
        let lock = hold.lock();
        let others = self.locks[lock].rivals().get_a_head_start();
        let Some(pause) = hold.pause_behind(others) else { return };
        let line = self.locks[lock].line();
        if line.contender().is_some() && line.is_at_rest() {
            self.locks[lock].line_mut().back_off(now + pause);
            self.set_lock_timer(lock);
        }
    }
}

#[cfg(test)]
mod tests;
