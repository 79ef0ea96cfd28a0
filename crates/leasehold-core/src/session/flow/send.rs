//! Builds and queues calls about holds, and tracks each call until its reply.

use crate::call::{Call, Replicas};
use crate::command::{AcquireArgs, Acquired, KindProtocol, ReleaseArgs, WaitPolicy};
use crate::owner::{HoldName, HoldNumber};
use crate::reply::{DecodeError, Reply};
use crate::session::hold::Hold;
use crate::session::hold::change::{Change, CountChange};
use crate::session::lock::Lock;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::session::{CallId, Outgoing, Ticket, replicas};
use crate::settings::Settings;
use crate::time::Instant;
use std::time::Duration;

/// Extra time for a call beyond the command timeout. By then the link reports its own error, which may prove that it sent nothing.
const LATE: Duration = Duration::from_millis(20);

/// The call that lowers a hold's count to the number of its guards.
pub(super) fn give(now: Instant, lock: &Lock, hold: &Hold, settings: &Settings) -> Call {
    lock.protocol().release(&ReleaseArgs {
        name: lock.name(),
        keys: lock.keys(),
        hold: &hold.key(),
        count: hold.wanted(),
        granted: hold.is_surely_granted(now),
        keep: hold.left_of_least_time(now),
        settings,
    })
}

impl Parts {
    /// The protocol of the kind of a hold's lock.
    pub(super) fn protocol_of(&self, number: HoldNumber) -> &'static dyn KindProtocol {
        let kind = self.holds.get(number).map(|hold| self.locks[hold.lock()].kind());
        kind.unwrap_or_default().protocol()
    }

    /// The call that raises a hold's count to `count` for a request.
    pub(super) fn ask(
        &self,
        number: HoldNumber,
        ticket: Ticket,
        count: u32,
        lease: Duration,
        not_after: Option<u64>,
    ) -> Option<Call> {
        let hold = self.holds.get(number)?;
        let acquire = self.requests.acquire(ticket)?;
        let lock = &self.locks[hold.lock()];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: lock.name(),
            keys: lock.keys(),
            hold: &hold.key(),
            beside: acquire.beside(),
            count,
            lease,
            not_after,
            waits: acquire.wish().patience != crate::session::Patience::Try,
            placed: acquire.had_place(),
            prefer_writers: acquire.wish().prefer_writers,
            settings: &self.settings,
        });
        let replicas = replicas::both(hold.replicas(), acquire.wish().replicas);
        Some(call.with_replicas(replicas).repeating(acquire.has_polled()))
    }

    /// Queues a call that changes the count of `number`. `by` is the request; `None` for the background.
    pub(super) fn send_change(
        &mut self,
        now: Instant,
        number: HoldNumber,
        by: Option<Ticket>,
        aim: CountChange,
        call: Call,
    ) {
        let replicas = call.replicas();
        let id = CallId(self.next_id());
        let lease =
            by.and_then(|ticket| self.requests.acquire(ticket)).map_or(Duration::ZERO, |acquire| acquire.wish().lease);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.begin_change(Change::new(now, id, by, aim, self.resets).with_lease(lease).with_replicas(replicas));
        }
        let purpose = match (by, aim) {
            (Some(_), _) => Purpose::Request(number),
            (None, CountChange::LowerTo(_)) => Purpose::Lowering(number),
            (None, CountChange::RaiseTo(_)) => Purpose::Restoration(number),
        };
        self.send(now, id, call, purpose, by.is_some());
    }

    /// See [`Session::poll_call`](crate::session::Session::poll_call).
    pub(crate) fn poll_call(&mut self) -> Option<Outgoing> {
        // A suspended thread may send late: skip calls that the session has given up.
        let (id, call, of_request) =
            std::iter::from_fn(|| self.out.poll_call()).find(|(id, ..)| self.pending.contains(*id))?;
        Some(Outgoing { id, call, of_request })
    }

    /// Queues a background call that changes no hold count.
    pub(super) fn send_by_background(&mut self, now: Instant, call: Call, purpose: Purpose) {
        let id = CallId(self.next_id());
        self.send(now, id, call, purpose, false);
    }

    fn send(&mut self, now: Instant, id: CallId, call: Call, purpose: Purpose, of_request: bool) {
        let within = call.replicas().map_or(Duration::ZERO, |replicas| replicas.within);
        self.pending.insert(id, purpose);
        self.out.call(id, call, of_request);
        self.unanswered.push(now + self.settings.command_timeout + within + LATE, id, |id| self.pending.contains(id));
    }

    /// Ends and returns the hold's change in flight.
    pub(super) fn end_change(&mut self, number: HoldNumber) -> Option<Change> {
        self.holds.get_mut(number)?.end_change()
    }

    /// Extends the clean-up by the queue's idle time. A place in a queue has no lease, and the client may have missed the reply about it.
    pub(super) fn outlast_place(&mut self, now: Instant, number: HoldNumber) {
        let idle = self.settings.fair.idle;
        let in_places = self.protocol_of(number).wait_policy() == WaitPolicy::ServerQueue;
        if let Some(hold) = self.holds.get_mut(number).filter(|hold| hold.is_queued() || in_places) {
            hold.keep_until(now + idle);
        }
    }

    /// Decodes the reply to an acquire, and notes how many replicas acknowledged it.
    pub(super) fn raised(&mut self, number: HoldNumber, reply: &Reply) -> Result<Acquired, DecodeError> {
        let protocol = self.protocol_of(number);
        let durable = |hold: &&mut Hold| hold.change().is_some_and(|change| change.replicas().is_some());
        let Some(hold) = self.holds.get_mut(number).filter(durable) else { return protocol.acquired(reply) };
        let (reply, acknowledged) = replicas::split(reply)?;
        hold.note_replicas(acknowledged);
        protocol.acquired(reply)
    }

    /// The server time after which the script refuses a first acquire that is sent now; 0 while the server's clock is unknown.
    pub(super) fn not_after(&self, now: Instant) -> u64 {
        self.server_clock.map_or(0, |(time, at)| {
            let millis = (now.since(at) + self.settings.command_timeout).as_millis();
            time.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
        })
    }

    /// Stores the server's time. The server read it after the call left, so an estimate from it is never behind.
    pub(super) fn note_time(&mut self, sent_at: Instant, time: Option<u64>) {
        if let Some(time) = time {
            self.server_clock = Some((time, sent_at));
        }
    }

    /// The replicas that must acknowledge a hold.
    pub(super) fn replicas_of(&self, number: HoldNumber) -> Option<Replicas> {
        self.holds.get(number)?.replicas()
    }

    /// Creates the hold for an acquire, before its first call.
    pub(super) fn begin_hold(&mut self, now: Instant, ticket: Ticket) -> Option<HoldNumber> {
        self.requests.acquire(ticket)?;
        let number = self.new_hold();
        let acquire = self.requests.acquire_mut(ticket)?;
        let (wish, lock) = (acquire.wish(), &self.locks[acquire.lock()]);
        // Whether the client receives requests of other clients before the server can show the mark.
        let hears = self.listening.contains(acquire.lock()) && self.subscriptions.hears(acquire.lock());
        let may_linger = wish.may_linger() && lock.protocol().is_asked_for() && !lock.is_local() && hears;
        let linger = wish.linger.filter(|_| may_linger && !self.contended.is_contended(now, lock.name().key()));
        let marked = linger.map(|_| self.client.marked_field(number));
        let name = HoldName::new(self.client, number, marked.as_ref().or(wish.field.as_ref()));
        let mut hold = Hold::new(now, acquire.lock(), ticket, name, wish);
        linger.into_iter().for_each(|longest| hold.mark(longest.get()));
        acquire.begin(number);
        self.locks[hold.lock()].add_ref();
        self.holds.insert(number, hold);
        Some(number)
    }

    /// Restarts a hold's `max_hold` at its grant, because the hold waited in a queue.
    pub(super) fn begin_anew(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let most = self.requests.acquire(ticket).and_then(|acquire| acquire.wish().max_hold);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.begin_anew(now, most);
        }
    }
}
