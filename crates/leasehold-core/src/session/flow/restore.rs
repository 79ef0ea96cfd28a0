//! Asking the server for a hold that was granted without it.

use crate::command::{AcquireArgs, Acquired};
use crate::error::LossReason;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::Event;
use crate::session::hold::change::CountChange;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::time::Instant;
use std::time::Duration;

/// How long a degraded hold waits before the server is asked again, at most; at least half of it.
pub(super) const RESTORE: Duration = Duration::from_millis(250);

impl Parts {
    /// Asks the server for what was granted without it.
    pub(super) fn restore(&mut self, now: Instant, number: HoldNumber) {
        let again = now + RESTORE / 2 + self.jitter(RESTORE / 2);
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.stop_renewals();
        if hold.has_change() {
            hold.restore_at(again);
            return;
        }
        let lock = &self.locks[hold.lock()];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: lock.name(),
            keys: lock.keys(),
            hold: hold.key(),
            beside: None,
            count: 1,
            // A lease that is not renewed ends when it was to end.
            lease: hold.lease().min(hold.cell().deadline().since(now)).max(Duration::from_millis(1)),
            not_after: None,
            waits: false,
            placed: false,
            prefer_writers: None,
            settings: &self.settings,
        });
        self.begin_change(now, number, None, CountChange::RaiseTo(1), Self::by_background(), &call);
        let id = self.call_by_background(call);
        self.pending.insert(id, Purpose::Restoration(number));
    }

    /// Takes what the server says to that.
    pub(super) fn handle_restored(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let protocol = self.protocol_of(number);
        let outcome = match result {
            Ok(reply) => protocol.acquired(&reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        let again = now + RESTORE / 2 + self.jitter(RESTORE / 2);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.restore_at(again);
        }
        if let Err(LinkError::Unknown(_)) = &outcome {
            self.begin_settling(number);
            self.set_hold_timer(number);
            return;
        }
        let Some(change) = self.end_change(number) else { return };
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        match outcome {
            Ok(Acquired::Held { left, .. }) if hold.is_live() => {
                hold.restore(now, &change, left);
                let name = self.locks[hold.lock()].name().clone();
                self.out.tell(Event::Restored { name });
                self.outages.note_answer();
                self.schedule_renewal(now, number);
            }
            // It is not needed any more: it is lowered like every other count that is too high.
            Ok(Acquired::Held { .. }) => {
                hold.leave_to_background();
                hold.extend_clean_up(now);
            }
            Ok(_) => {
                hold.note_absent();
                self.outages.note_answer();
                self.lose(now, number, LossReason::NotRestored);
            }
            // A script that failed in its middle may have granted it: it is asked for again, or taken back with its guard.
            Err(LinkError::Refused(refusal)) if !refusal.proves_nothing_done() => hold.extend_clean_up(now),
            // An earlier attempt may have been carried out, although its reply did not come.
            Err(_) => hold.undo_restoration(&change),
        }
        self.reconcile(now, number);
    }
}
