//! Dispatches each reply to its flow.

use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::CallId;
use crate::session::hold::change::CountChange;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::time::Instant;

impl Parts {
    /// See [`Session::handle_called`](crate::session::Session::handle_called).
    pub(crate) fn handle_called(&mut self, now: Instant, id: CallId, result: Result<Reply, LinkError>) {
        let Some(purpose) = self.pending.take(id) else { return };
        self.unanswered.answered(|id| self.pending.contains(id));
        match purpose {
            Purpose::Request(number) => self.handle_reply(now, number, id, result),
            Purpose::Renewal(batch) => self.handle_renewed(now, batch, result),
            Purpose::Restoration(number) => self.handle_restored(now, number, result),
            Purpose::Lowering(number) => {
                self.note_lowered(now, number, result.is_ok());
                self.handle_lowered(now, number, result);
                self.lower_more(now);
            }
            Purpose::Heartbeat(lock) => self.handle_heartbeat(now, lock, result),
            Purpose::Record => self.handle_recorded(now, &result),
            Purpose::Nothing => {}
        }
    }

    /// Handles the outcome of a request's change.
    fn handle_reply(&mut self, now: Instant, number: HoldNumber, id: CallId, result: Result<Reply, LinkError>) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.is_flying(id)) else { return };
        let Some(change) = hold.change() else { return };
        let Some(ticket) = change.by() else { return };
        if let CountChange::LowerTo(_) = change.aim() {
            return self.handle_lowered(now, number, result);
        }
        match self.requests.acquire(ticket).filter(|_| hold.raising() == Some(ticket)) {
            Some(acquire) if acquire.hold() == Some(number) => self.handle_first_reply(now, ticket, number, result),
            Some(acquire) if acquire.entering() == Some(number) => {
                self.handle_enter_reply(now, ticket, number, result);
            }
            _ => return self.handle_abandoned_reply(now, number, result),
        }
        // The next poll reads the outcome or sends the next call.
        self.wake(ticket);
    }

    /// Handles the reply to a call whose request ended or no longer needs it. The background reverts the call's effect.
    fn handle_abandoned_reply(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        match result {
            Err(LinkError::Unknown(_)) => self.begin_settling(number),
            Err(LinkError::NotSent(_)) => {
                let Some(change) = self.end_change(number) else { return };
                if let Some(hold) = self.holds.known_mut(number) {
                    hold.undo_change(&change);
                }
                self.reconcile(now, number);
            }
            Ok(_) | Err(LinkError::Refused(_)) => self.change_settled(now, number, true),
        }
    }
}
