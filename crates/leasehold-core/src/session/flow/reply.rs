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
    pub(crate) fn handle_own_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        flight: FlightId,
        result: Result<Reply, LinkError>,
    ) {
        // The future that hands in the reply polls right afterwards, so it is awake.
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.waker().take();
        }
        self.handle_reply(now, ticket, flight, result);
    }

    /// The outcome of a call that a request's future sent, handed in by that future or by the background.
    pub(super) fn handle_reply(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::Plane;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::{AcquireRequest, Session, Step, Via};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    const VIA: Via = Via { plane: Plane::Foreground, epoch: Epoch(1) };

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn future_that_hands_in_its_reply_is_not_woken_for_it() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let now = Instant::from_nanos(1_000_000_000);
        let name = LockName::new("", "stock").expect("a name");
        let ticket = session.acquire(now, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, &waker) else {
            panic!("it is sent at once")
        };
        let grant = Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec());
        session.handle_reply(now, ticket, flight, Ok(grant));
        let Step::Done(Ok(Some(granted))) = session.poll_acquire(now, ticket, VIA, &waker) else { panic!("a grant") };

        let ticket = session.release(now, granted.hold, granted.renewed);
        let Step::Send(flight, _) = session.poll_release(now, ticket, VIA, &waker) else {
            panic!("it is sent at once")
        };
        session.handle_reply(now, ticket, flight, Ok(Reply::Int(1)));
        assert!(matches!(session.poll_release(now, ticket, VIA, &waker), Step::Done(Ok(()))));

        session.take_woken().into_iter().for_each(Waker::wake);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    }
}
