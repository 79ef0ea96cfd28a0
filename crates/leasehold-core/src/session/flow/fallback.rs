//! The results for callers while the server is out of reach: an error, the lock within this client, or a guard that excludes no other.
//!
//! A hold that is granted without the server is **degraded**. It has nothing on the server, so its count there is 0. If it excludes the
//! other tasks of this client, the background asks the server again and again, until it is granted there too, or refused: then it is lost. To
//! be sure that two tasks of this client never hold at once, every request for such a lock waits for the task that has it here, whether the
//! server can be reached or not.

use crate::call::Replicas;
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::flow::restore::RESTORE;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::LocalPlace;
use crate::session::{Event, Fallback, Ticket};
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Whether a request, whose call was certainly not applied, is to do without the server from now on.
    pub(super) fn falls_back(&mut self, now: Instant, ticket: Ticket) -> bool {
        let seen = self.outages.note_failure(now);
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let since = self.outage_of(acquire.lock()).map_or(seen, |outage| seen.min(outage.since()));
        let first = acquire.entering().is_none() && acquire.beside().is_none();
        let nothing_there = acquire
            .hold()
            .and_then(|number| self.holds.get(number))
            .is_none_or(|hold| hold.on_server() == 0 && !hold.has_change());
        acquire.wish().fallback != Fallback::Fail
            && first
            && nothing_there
            && !acquire.failures().is_outcome_unknown()
            && now >= since + self.settings.unreachable_after
    }

    /// Grants without the server.
    pub(super) fn degrade(&mut self, now: Instant, ticket: Ticket) {
        let known = self.requests.acquire(ticket).and_then(|acquire| acquire.hold());
        let Some(number) = known.or_else(|| self.begin_hold(now, ticket)) else { return };
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        let renewed = acquire.wish().renewed;
        let restore_at = (acquire.wish().fallback == Fallback::Local).then_some(now + RESTORE);
        hold.grant_locally(now, renewed, restore_at);
        let granted = hold.granted(number, renewed);
        match restore_at {
            Some(until) => acquire.grant(granted, until),
            None => drop(acquire.end(Ok(Some(granted)))),
        }
        let (lock, owner, place, permits) = (hold.lock(), hold.owner(), acquire.place(), hold.permits());
        self.locks[lock].add_held(permits);
        self.leave_queue(ticket, lock);
        self.out.tell(Event::Degraded { name: self.locks[lock].name().clone() });
        self.set_hold_timer(number);
        if let Some(owner) = owner {
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
        }
        if place == LocalPlace::Line {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, Duration::ZERO);
        }
        self.set_request_timer(now, ticket);
        self.wake(ticket);
    }

    /// Ends an acquire that cannot reach the server: by what it falls back to, where that is so and nothing was sent that may have been
    /// applied, and otherwise by an error. Where it would fall back to what another task of this client has, it waits for that one.
    pub(super) fn end_unreachable(&mut self, now: Instant, ticket: Ticket) {
        let error = self.failure_error(ticket);
        if matches!(error, AcquireError::Unreachable(_)) && self.falls_back(now, ticket) {
            if self.requests.known_acquire(ticket).is_some_and(|acquire| self.is_gated(acquire.lock())) {
                self.stand_at_gate(now, ticket);
            } else {
                self.degrade(now, ticket);
            }
        } else {
            self.fail_acquire(now, ticket, error);
        }
    }

    /// Re-enters a hold that was granted without the server; the server does not count its guards. An acquire without a
    /// fallback fails while the hold is degraded, because its caller relies on the server's grant.
    pub(super) fn enter_by_itself(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        let needs_server = acquire.wish().fallback == Fallback::Fail;
        let is_degraded = self.holds.get(number).is_some_and(|hold| hold.is_degraded());
        match acquire.wish().replicas {
            None if needs_server && is_degraded => {
                let why =
                    "the owner's hold was granted without the server, and this acquire has no fallback".to_owned();
                self.fail_acquire(now, ticket, AcquireError::Unreachable(why));
            }
            None => self.grant_entry(now, ticket, number),
            // Nothing is written that a replica could acknowledge.
            Some(Replicas { at_least: wanted, .. }) => {
                self.fail_acquire(now, ticket, AcquireError::NotReplicated { acknowledged: 0, wanted });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::LinkError;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LEASE: Duration = Duration::from_secs(4);

    fn granted() -> Result<Reply, LinkError> {
        Ok(Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec()))
    }

    #[test]
    fn restored_hold_survives_an_older_grant() {
        let settings = Settings { unreachable_after: Duration::ZERO, ..Settings::default() };
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1);
        let name = || LockName::new("", "stock").expect("a name");
        let asks = |session: &mut Session, wish: AcquireRequest| {
            let ticket = session.acquire(NOW, wish);
            let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
            (ticket, flight)
        };
        // Each of them asks for a place of its own. The server grants this one, and what it granted ends there before the reply comes.
        let (_other, granting) = asks(&mut session, AcquireRequest::new(name(), Kind::Fair, LEASE));
        let local = AcquireRequest { fallback: Fallback::Local, ..AcquireRequest::new(name(), Kind::Fair, LEASE) };
        let (ticket, mut flight) = asks(&mut session, local);
        let guard = loop {
            session.handle_called(NOW, flight, Err(LinkError::NotSent("not connected".to_owned())));
            match session.step_acquire(NOW, ticket, Waker::noop()) {
                Step::Send(again, _) => flight = again,
                Step::Done(Ok(Some(guard))) => break guard,
                step => panic!("it falls back: {step:?}"),
            }
        };
        let later = NOW + RESTORE;
        session.handle_timeout(later);
        let call = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/acquire" => Some(id),
            _ => None,
        });
        session.handle_called(later, call.expect("the server is asked again"), granted());
        assert!(!guard.cell.is_degraded());
        session.handle_called(later, granting, granted());
        assert_eq!(guard.cell.ended(later), None, "the server granted it after the other one");
    }
}
