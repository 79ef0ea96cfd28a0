//! Changes of a hold's count: how they are sent, and what becomes of one whose outcome is not known.

use super::hold::{Aim, Change};
use super::request::{Request, Ticket, Via};
use super::{CallId, Event, FlightId, Session, replicas};
use crate::call::Call;
use crate::command::{Acquired, Line};
use crate::link::{LinkError, Plane};
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::time::Instant;
use std::task::Waker;
use std::time::Duration;

impl Session {
    /// Takes the outcome of a call that a request's future sent. A call that has been given up is ignored.
    pub fn handle_reply(&mut self, now: Instant, ticket: Ticket, flight: FlightId, result: Result<Reply, LinkError>) {
        let Some(number) = self.hold_of(ticket).filter(|number| self.is_flying(*number, flight)) else { return };
        match self.requests.get(&ticket) {
            Some(Request::Acquire(acquire)) if acquire.hold == Some(number) => {
                self.handle_first_reply(now, ticket, number, result);
            }
            Some(Request::Acquire(_)) => self.handle_enter_reply(now, ticket, number, result),
            Some(Request::Release(_)) => self.handle_lowered(now, number, result),
            Some(Request::Pause(_)) | None => {}
        }
    }

    /// Whether the call is still the one that the request waits for. If it is not, its future is to be dropped; if it is, `waker` is woken
    /// when that changes, even if the request was woken for something else before, or is polled by another task now.
    pub fn is_current(&mut self, ticket: Ticket, flight: FlightId, waker: &Waker) -> bool {
        let current = self.hold_of(ticket).is_some_and(|number| self.is_flying(number, flight));
        if let Some(request) = self.requests.get_mut(&ticket).filter(|_| current) {
            *request.waker() = Some(waker.clone());
        }
        current
    }

    /// Asks whether a call may be sent once more, because the server says that it did not apply it: it does not know the script, or another
    /// node has the slot. The call is on its way from now on, and not answered. A call that may not has been given up.
    pub fn may_resend(&mut self, now: Instant, ticket: Ticket, flight: FlightId) -> bool {
        let Some(number) = self.hold_of(ticket).filter(|number| self.is_flying(*number, flight)) else { return false };
        if let Some(change) = self.holds.get_mut(&number).and_then(|hold| hold.change.as_mut()) {
            change.last_sent = now;
        }
        true
    }

    /// Notes that a change of `number` is sent, and how it will be known.
    pub(super) fn begin_change(
        &mut self,
        now: Instant,
        number: HoldNumber,
        by: Option<Ticket>,
        aim: Aim,
        via: Via,
        call: &Call,
    ) -> FlightId {
        let (via, replicas) = (via.for_call(call), call.replicas());
        let flight = FlightId(self.next_id());
        let lease = by.and_then(|ticket| self.acquire_of(ticket)).map_or(Duration::ZERO, |acquire| acquire.wish.lease);
        if let Some(hold) = self.holds.get_mut(&number) {
            let (Aim::Raise(target) | Aim::Lower(target)) = aim;
            let before = hold.count.begin_change(target);
            hold.change = Some(Change {
                flight,
                by,
                aim,
                before,
                plane: via.plane,
                epoch: via.epoch,
                sent_at: now,
                last_sent: now,
                lease: lease.min(hold.deadline.latest().since(now)),
                settling: false,
                replicas,
                acknowledged: None,
            });
        }
        if by.is_some() {
            let pause = replicas.map_or(Duration::ZERO, |replicas| replicas.within);
            self.watch_flight(now, number, flight, pause);
        }
        flight
    }

    /// Takes the outcome of an acquire. `None` where it is not known: the call is settled first, and a request that has no
    /// more time for that is told so.
    pub(super) fn raise_ends(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) -> Option<(Change, Result<Acquired, LinkError>)> {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        if let Err(LinkError::Unknown(why)) = &outcome {
            self.note_trouble(now, ticket, why, true);
            self.unsettle(number);
            if self.acquire_of(ticket).is_some_and(|acquire| acquire.last) {
                let error = self.trouble_error(ticket);
                self.fail_acquire(now, ticket, error);
            }
            return None;
        }
        if outcome.is_ok() {
            self.server_answered();
            self.touch(now, number);
        }
        let change = self.end_change(number)?;
        self.touch(now, number);
        Some((change, outcome))
    }

    /// Decodes the reply to an acquire, and notes how many replicas acknowledged it.
    fn raised(&mut self, number: HoldNumber, reply: &Reply) -> Result<Acquired, DecodeError> {
        let verbs = self.verbs_of(number);
        let change = self.holds.get_mut(&number).and_then(|hold| hold.change.as_mut());
        let Some(change) = change.filter(|change| change.replicas.is_some()) else { return verbs.acquired(reply) };
        let (reply, acknowledged) = replicas::split(reply)?;
        change.acknowledged = Some(acknowledged);
        verbs.acquired(reply)
    }

    /// Takes the change whose outcome has come.
    pub(super) fn end_change(&mut self, number: HoldNumber) -> Option<Change> {
        self.holds.get_mut(&number)?.change.take()
    }

    /// No reply will come, or no request waits for it: nothing is sent for this hold until it is settled.
    pub(super) fn unsettle(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let Some(change) = &mut hold.change else { return };
        if change.settling {
            return;
        }
        change.settling = true;
        let (plane, epoch) = (change.plane, change.epoch);
        hold.doubt_lowering();
        let key = self.locks[hold.lock].name.key().clone();
        self.settle(plane, epoch, key, number);
    }

    /// No copy of the hold's change can be applied any more, as far as that can be known.
    pub(super) fn change_settled(&mut self, now: Instant, number: HoldNumber, proven: bool) {
        // It may have been applied until now.
        self.touch(now, number);
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.change = None;
        hold.clean_up.unproven |= !proven;
        hold.clean_up.not_before = now;
        match hold.raising {
            Some(ticket) if !hold.granted => self.try_again(now, ticket),
            Some(ticket) => {
                // An entry is taken back before it is tried again: guards that are released must not wait for a future that is perhaps
                // never polled.
                hold.raising = None;
                hold.clean_up.by_lifeline = true;
                hold.waiting.push(ticket);
            }
            None => hold.clean_up.by_lifeline = true,
        }
        self.attend(now, number);
    }

    /// The count that the request was raising is not wanted any more. Its calls are settled and taken back.
    pub(super) fn forsake(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        self.outlast_place(now, number);
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.waiting.retain(|waiting| *waiting != ticket);
        if hold.raising == Some(ticket) {
            hold.raising = None;
            hold.clean_up.by_lifeline = true;
        }
        let sent_by_it = hold.change.as_ref().is_some_and(|change| change.by == Some(ticket));
        if sent_by_it {
            self.unsettle(number);
        }
        self.attend(now, number);
    }

    /// No lease ends a place in a queue, and its reply may not have been read: a place that is not given up stays for as long as the queue
    /// is used.
    pub(super) fn outlast_place(&mut self, now: Instant, number: HoldNumber) {
        let idle = self.settings.fair.idle;
        let in_places = self.verbs_of(number).line() == Line::Places;
        if let Some(hold) = self.holds.get_mut(&number).filter(|hold| hold.placed || in_places) {
            hold.clean_up.until = hold.clean_up.until.max(now + idle);
        }
    }

    /// A future has not been polled although its call was answered: the lifeline goes on in its place. It settles the call first, because
    /// the future may be polled yet, and send the call once more.
    pub(super) fn take_over(&mut self, now: Instant, number: HoldNumber, flight: FlightId) {
        if !self.is_flying(number, flight) {
            return;
        }
        self.outlast_place(now, number);
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let Some(ticket) = hold.change.as_ref().and_then(|change| change.by) else { return };
        hold.doubt_lowering();
        if hold.raising == Some(ticket) {
            hold.raising = None;
        }
        match self.requests.get_mut(&ticket) {
            Some(Request::Acquire(acquire)) => {
                acquire.hold = None;
                acquire.overtaken = acquire.overtaken.saturating_add(1);
                let name = self.locks[hold.lock].name.clone();
                self.out.tell(Event::TurnPassed { name });
                self.turn_missed(now, ticket);
            }
            Some(Request::Release(_)) => hold.waiting.push(ticket),
            Some(Request::Pause(_)) | None => {}
        }
        self.unsettle(number);
        self.note_given_up(number);
        if self.acquire_of(ticket).is_some_and(|acquire| acquire.last) {
            self.end_busy(now, ticket);
        }
        self.wake(ticket);
    }

    /// The server has left a caller's call without a reply for the whole command timeout.
    pub(super) fn give_up_flight(&mut self, now: Instant, number: HoldNumber, flight: FlightId) {
        let by = self.holds.get(&number).and_then(|hold| hold.change.as_ref()).and_then(|change| change.by);
        let Some(ticket) = by.filter(|_| self.is_flying(number, flight)) else { return };
        let why = "no reply came within the command timeout".to_owned();
        self.handle_reply(now, ticket, flight, Err(LinkError::Unknown(why)));
        // Its future is to drop the call.
        self.wake(ticket);
    }

    /// Whether a reply to this call may still come.
    pub(super) fn is_flying(&self, number: HoldNumber, flight: FlightId) -> bool {
        self.holds
            .get(&number)
            .and_then(|hold| hold.change.as_ref())
            .is_some_and(|change| change.flight == flight && !change.settling)
    }

    /// The hold that a request has to do with.
    fn hold_of(&self, ticket: Ticket) -> Option<HoldNumber> {
        match self.requests.get(&ticket)? {
            Request::Acquire(acquire) => acquire.hold.or_else(|| acquire.entering()),
            Request::Release(release) => Some(release.hold),
            Request::Pause(_) => None,
        }
    }

    /// A route by the lifeline. Its epoch is not known here: the driver sends at once, and settling covers every epoch
    /// up to the present one.
    pub(super) const fn by_lifeline() -> Via {
        Via { plane: Plane::Lifeline, epoch: crate::link::Epoch(u64::MAX) }
    }

    /// Sends a call on the lifeline.
    pub(super) fn call_by_lifeline(&mut self, call: Call) -> CallId {
        let id = CallId(self.next_id());
        self.out.act(super::Action::Call { id, call });
        id
    }
}
