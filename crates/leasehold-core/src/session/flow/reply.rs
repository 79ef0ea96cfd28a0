//! Replies: to which flow each belongs.

use crate::link::{Epoch, LinkError};
use crate::reply::Reply;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::session::request::Request;
use crate::session::{CallId, FlightId, Ticket};
use crate::time::Instant;

impl Parts {
    /// See [`Session::handle_reply`](crate::session::Session::handle_reply).
    pub(crate) fn handle_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        flight: FlightId,
        result: Result<Reply, LinkError>,
    ) {
        let Some(number) = self.hold_of(ticket).filter(|number| self.is_flying(*number, flight)) else { return };
        match self.requests.get(&ticket) {
            Some(Request::Acquire(acquire)) if acquire.hold() == Some(number) => {
                self.handle_first_reply(now, ticket, number, result);
            }
            Some(Request::Acquire(_)) => self.handle_enter_reply(now, ticket, number, result),
            Some(Request::Release(_)) => self.handle_lowered(now, number, result),
            Some(Request::Pause(_)) | None => {}
        }
    }

    /// See [`Session::handle_called`](crate::session::Session::handle_called).
    pub(crate) fn handle_called(&mut self, now: Instant, id: CallId, epoch: Epoch, result: Result<Reply, LinkError>) {
        let Some(purpose) = self.pending.take(id) else { return };
        if let Purpose::Restoration(number) | Purpose::Lowering(number) = purpose
            && let Some(hold) = self.holds.get_mut(number)
        {
            hold.note_epoch(epoch);
        }
        match purpose {
            Purpose::Renewal(batch) => self.handle_renewed(now, batch, result),
            Purpose::Restoration(number) => self.handle_restored(now, number, result),
            Purpose::Lowering(number) => {
                self.note_lowered(now, number, result.is_ok());
                self.handle_lowered(now, number, result);
                self.lower_more(now);
            }
            Purpose::Heartbeat(lock) => self.handle_heartbeat(now, lock, result),
            Purpose::Record => self.handle_recorded(now, &result),
        }
    }
}
