//! A hold that passes from one task to the next without the server: hand-over and lingering.
//!
//! The server goes on to have one hold, with one field and one count. The client has another one, with a number and a cell of its own: the old
//! number names nothing any more, so that nothing that knows it touches the new holder.

use crate::command::Listeners;
use crate::error::HoldEnd;
use crate::hold_cell::HoldCell;
use crate::owner::HoldNumber;
use crate::session::hold::{Count, CountedBy, Hold, HoldState};
use crate::session::lock::{LockId, Rivals};
use crate::session::release::CleanUp;
use crate::session::request::LocalPlace;
use crate::session::{AcquireRequest, Granted, LingerTime, Session, Ticket, Timer, Timers};
use crate::settings::HandOver;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// For how long a client has had a hold from the server, and how often it has handed it on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tenure {
    /// When the server was asked.
    asked_at: Instant,
    /// When its grant was received.
    since: Instant,
    handed_on: u32,
}

/// The least head start: a client that listens needs about as long to be woken and to ask.
const LEAST_HEAD_START: Duration = Duration::from_millis(1);

/// The most: the waiters of this client do not pay for a server that took long.
pub(super) const HAND_OVER_HEAD_START: Duration = Duration::from_millis(20);

/// The pause where no other client listens. It is no head start: the notice of the release comes back before the next answer then. A notice that
/// comes later has the next waiter ask for a lock that is not free.
const PAUSE_ALONE: Duration = Duration::from_micros(300);

impl Hold {
    /// The server has granted it.
    pub(super) fn begin_tenure(&mut self, asked_at: Instant, now: Instant) {
        self.tenure = Tenure { asked_at, since: now, handed_on: 0 };
    }

    /// Whether another task of the client handed it on.
    pub(super) const fn was_handed_on(&self) -> bool {
        self.tenure.handed_on > 0
    }

    /// Whether its one guard is all that the server has of it, nothing of it is on the way or due, and more than a third of its lease is left.
    pub(super) fn may_be_handed_on(&self, now: Instant) -> bool {
        let is_at_rest = self.change.is_none() && self.raising.is_none() && self.waiting.is_none();
        let is_planned = self.renew_at.is_some_and(|at| at > now);
        self.state == HoldState::Held(CountedBy::Server)
            && self.count.is_one_at_rest()
            && is_at_rest
            && is_planned
            && self.clean_up.is_at_rest()
            && self.replicas().is_none()
            && !self.keeps_busy(now)
            && self.cell.deadline().since(now) > self.lease / 3
    }

    /// Whether it is what a request wishes for. A longest time to be held that is shorter than the lease is not: the server has the hold for a
    /// lease, whatever becomes of its guard.
    pub(super) fn is_what_is_wished(&self, wish: &AcquireRequest) -> bool {
        wish.renewed
            && wish.lease == self.lease
            && wish.replicas.is_none()
            && wish.field.is_none()
            && wish.permits == self.cell.permits()
            && wish.max_hold.is_none_or(|most| most >= self.lease)
    }

    /// Whether it may be handed on once more before other clients are let in.
    pub(super) fn has_tenure_left(&self, now: Instant, limits: HandOver) -> bool {
        self.tenure.handed_on < limits.most && now.since(self.tenure.since) < limits.within
    }

    /// For how long this client does not ask again once it has released the hold to the server: twice the time in which the server granted
    /// it, if other clients may want it. `None` where its guard is not the last one, or it was never handed on.
    pub(super) fn pause_behind(&self, others: bool) -> Option<Duration> {
        let head_start = self.two_round_trips(HAND_OVER_HEAD_START);
        let is_last = self.count.wanted == 1 && self.is_live();
        (is_last && self.was_handed_on()).then_some(if others { head_start } else { PAUSE_ALONE })
    }

    /// Twice the round trip of its grant.
    pub(super) fn two_round_trips(&self, most: Duration) -> Duration {
        let round_trip = self.tenure.since.since(self.tenure.asked_at);
        (round_trip * 2).clamp(LEAST_HEAD_START, most)
    }

    /// Ends for its guard, and begins anew for the guard of a request. The server has it under the same name, and its lease goes on.
    pub(super) fn hand_on(&mut self, now: Instant, ticket: Ticket, wish: &AcquireRequest, woken: &mut Vec<Waker>) {
        self.cell.end(HoldEnd::Released, woken);
        let latest = wish.max_hold.map_or(Instant::FAR_FUTURE, |most| now + most);
        let cell = HoldCell::new(self.cell.name().clone(), self.cell.permits(), now, latest);
        cell.set_deadline(self.cell.deadline());
        self.cell = Arc::new(cell);
        let on_server = self.count.on_server;
        self.count = Count::default();
        self.count.on_server = on_server;
        self.tenure.handed_on += 1;
        self.owner = wish.owner;
        self.class.clone_from(&wish.class);
        self.begun_by = ticket;
        self.deadline.latest = latest;
        self.state = HoldState::default();
        self.clean_up = CleanUp::after(now, &self.clean_up);
        if let Some(linger) = &mut self.linger {
            linger.pass_on(wish.linger.filter(|_| wish.max_hold.is_none()).map(LingerTime::get), self.lease);
        }
        self.extras = None;
        self.timer = None;
        self.grant(wish.renewed);
    }
}

// ===== Hand-over =====
//
// Handing a hold on within the client: its guard goes, and the next waiter of the line has it, without a word to the server.
//
// The server sees one hold that lasts; for its other clients nothing has happened. So the hold must be one that the waiter could have been
// granted, and it goes to the contender alone, which is first in the line and sends nothing at that moment. It is handed on so often and for
// so long as [`HandOver`](crate::settings::HandOver) says; then it is released to the server, and its other clients are let in.
//
// | a guard goes, and | what follows |
// |---|---|
// | the contender rests, and the hold is what it wishes for | the hold is handed on |
// | the contender asks the server at this moment, or there is none | a release |
// | the hold has another guard, a change or a renewal on its way, or something to be taken back | a release |
// | a third of the lease or less is left, or it was lost, or granted without the server | a release |
// | one of both leases is not renewed, or they differ; or replicas are asked for | a release |
// | the kind is another one than the reentrant lock, or every request takes the lock within the client first | a release |
// | the server is known to be out of reach, or the client is closed | a release |
// | the hold was handed on for long enough; or often enough, and other clients may want the lock | a release |
//
// The release of a hold that was handed on before, for whatever reason, gives other clients a head start, if there may be some.

impl Session {
    /// A guard of a hold goes: hands the hold on to the next waiter of this client. Says whether it did; if not, the guard is still there.
    pub(super) fn hand_over(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> bool {
        if self.settings.hand_over.is_none() {
            return false;
        }
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.get(number) else { return false };
        let Some(limits) = self.hand_over_limits(hold.lock) else { return false };
        let may = renewed && hold.may_be_handed_on(now) && hold.has_tenure_left(now, limits);
        let next = self.next_holder(number).filter(|_| may);
        match next {
            Some(ticket) => self.pass_on(now, number, ticket),
            None => self.pause_behind(now, number),
        }
        next.is_some()
    }

    /// Whether a request that comes to an empty line need not ask the server: this client has the lock, by a hold that is about to be handed on.
    pub(super) fn expects_hand_over(&self, now: Instant, lock: LockId) -> bool {
        let Some(limits) = self.hand_over_limits(lock) else { return false };
        let hold = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        let may = hold.is_some_and(|hold| hold.may_be_handed_on(now) && hold.has_tenure_left(now, limits));
        may && self.locks[lock].protocol().may_be_handed_on() && self.is_well(lock)
    }

    /// The server can be reached as far as is known, and no task of this client keeps the others from it.
    pub(super) fn is_well(&self, lock: LockId) -> bool {
        !self.closed && !self.is_gated(lock) && self.outage_of(lock).is_none() && self.failing_since(lock).is_none()
    }

    /// The request to which a hold can be handed on: the contender, where it rests and wishes for such a hold.
    fn next_holder(&self, number: HoldNumber) -> Option<Ticket> {
        let hold = self.holds.get(number)?;
        let lock = &self.locks[hold.lock];
        if !lock.protocol().may_be_handed_on() || !lock.line().is_at_rest() || !self.is_well(hold.lock) {
            return None;
        }
        let ticket = lock.line().contender?;
        let acquire = self.requests.waiter(ticket)?;
        let rests = acquire.is_awake() && acquire.is_open() && !acquire.rests() && acquire.hold.is_none();
        (rests && !self.is_outcome_unknown(ticket) && hold.is_what_is_wished(&acquire.wish)).then_some(ticket)
    }

    /// The hold is the request's from here on.
    fn pass_on(&mut self, now: Instant, number: HoldNumber, ticket: Ticket) {
        let Some(granted) = self.renumber(now, number, ticket) else { return };
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        let (lock, next, left) = (acquire.lock, granted.hold, granted.cell.deadline().since(now));
        let until = acquire.read_until(now, self.locks[lock].wait_policy().turn(&self.settings));
        acquire.grant(granted, until);
        self.hand_overs += 1;
        self.admit_others(now, lock, next);
        self.contender_granted(now, ticket, lock, left);
        self.set_request_timer(now, ticket);
        self.wake(ticket);
    }

    /// Ends a hold for the request that had it, and begins it anew for another, under another number. Gives the grant.
    pub(super) fn renumber(&mut self, now: Instant, number: HoldNumber, ticket: Ticket) -> Option<Granted> {
        let next = self.new_hold();
        let wish = &self.requests.known_acquire(ticket)?.wish;
        let hold = self.holds.renumber(number, next)?;
        let (lock, planned) = (hold.lock, hold.next_renewal());
        self.timers.set(Timer::Hold(number), &mut hold.timer, None);
        if let Some(owner) = hold.owner {
            self.owners.remove_hold(lock, owner, number);
        }
        hold.hand_on(now, ticket, wish, &mut self.out.woken);
        let granted = hold.granted(next, wish.renewed);
        self.locks[lock].last_granted = Some(next);
        self.schedule_renewal(now, next);
        if let Some(hold) = self.holds.known_mut(next) {
            // A renewal that is planned, or a look, is not put off.
            planned.into_iter().for_each(|at| hold.look_by(at));
        }
        self.set_hold_timer(next);
        Some(granted)
    }

    /// The owner of a hold that was begun anew has it: its other requests re-enter.
    pub(super) fn admit_others(&mut self, now: Instant, lock: LockId, number: HoldNumber) {
        if let Some(owner) = self.holds.get(number).and_then(|hold| hold.owner) {
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
        }
    }
}

// ===== Other listeners of a lock =====
//
// Other clients that want a lock which is handed on among the tasks of this one: whether there are any, and what they get.
//
// The reply to a release tells how many connections were told of it. Where none but this client listens, only the time bounds how long it keeps
// the lock, and it asks again at once: a client that comes meanwhile is counted by the next release, and is let in after the hold behind that. Who
// polls is never counted, so that others are let in from time to time all the same.

impl Session {
    /// How far a lock is handed on. The time alone is a bound where no other client wants it.
    pub(super) fn hand_over_limits(&self, lock: LockId) -> Option<HandOver> {
        let limits = self.settings.hand_over?;
        Some(match self.locks[lock].rivals {
            Rivals::Possible => limits,
            Rivals::None { .. } => HandOver { most: u32::MAX, ..limits },
        })
    }

    /// A hold has ended, and the server told so many connections: whether other clients want the lock. A node of a cluster does not know who
    /// listens at the others, unless the message is for its shard alone.
    pub(super) fn note_listeners(&mut self, lock: LockId, listeners: Listeners) {
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
        let lock = hold.lock;
        let others = self.locks[lock].rivals.get_a_head_start();
        let Some(pause) = hold.pause_behind(others) else { return };
        let line = self.locks[lock].line();
        if line.contender.is_some() && line.is_at_rest() {
            self.locks[lock].line_mut().back_off(now + pause);
            self.set_lock_timer(lock);
        }
    }
}

// ===== The mark of a hold that may linger =====
//
// A hold that lingers: its last guard is gone, and it stays on the server for a while, so that the next request of its client has it at once.
//
// A hold that may linger has a mark in its name on the server. A client that finds the lock busy by such a name asks for the lock, and the
// hold lingers no longer.

/// For how many times its longest lingering a client keeps a hold from the server, guards aside: a JVM does not ask.
const TENURE: u32 = 10;

/// The longest head start of a client with a known request.
const LINGER_HEAD_START: Duration = Duration::from_millis(250);

/// Whether a hold whose name on the server has the mark stays there when its last guard is gone. One without the mark does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linger {
    /// It may linger for so long.
    For(Duration),
    /// It does not: another client wants the lock, or its last request did not ask for it.
    Declined,
    /// The hold has lingered, and its release is in flight; its last guard has already ended.
    Left,
    /// It has no guard, and is kept for the next request.
    Lingers(Stay),
}

/// For how long a hold without a guard is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    until: Instant,
    /// When it was to be renewed, had its guard stayed.
    renew_at: Instant,
}

impl Hold {
    /// Its name on the server has the mark, and it may linger for so long.
    pub(super) fn mark(&mut self, longest: Duration) {
        self.linger = Some(Box::new(Linger::For(longest.min(self.lease / 3))));
    }

    /// For how long it would be kept if its guard went now; `None` where it would be released.
    ///
    /// It is kept without a renewal, and longer than a third of its lease before its deadline.
    pub(super) fn plan_stay(&self, now: Instant) -> Option<Stay> {
        let Linger::For(longest) = self.linger.as_deref().copied()? else { return None };
        let renew_at = self.renew_at?;
        let until = (now + longest).min(renew_at).min(self.tenure.since + longest * TENURE);
        (until > now && self.may_be_handed_on(now)).then_some(Stay { until, renew_at })
    }

    /// Its guard goes, and it is kept.
    pub(super) fn begin_stay(&mut self, stay: Stay) {
        self.linger = Some(Box::new(Linger::Lingers(stay)));
    }

    /// Whether it has no guard, and is kept.
    pub(super) fn lingers(&self) -> bool {
        matches!(self.linger.as_deref(), Some(Linger::Lingers(_)))
    }

    /// Until when it is kept.
    pub(super) fn lingers_until(&self) -> Option<Instant> {
        match self.linger.as_deref() {
            Some(Linger::Lingers(stay)) => Some(stay.until),
            _ => None,
        }
    }

    /// Whether it has been kept for long enough.
    pub(super) fn has_lingered(&self, now: Instant) -> bool {
        self.lingers_until().is_some_and(|until| until <= now)
    }

    /// When it is renewed next if a request has it from now on.
    pub(super) fn next_renewal(&self) -> Option<Instant> {
        match self.linger.as_deref() {
            Some(Linger::Lingers(stay)) => Some(stay.renew_at),
            _ => self.renew_at,
        }
    }

    /// Whether a request may have it: it is kept, nothing of it is on the way, and more than a third of its lease is left.
    pub(super) fn may_be_resumed(&self, now: Instant) -> bool {
        let is_at_rest = self.change.is_none() && self.raising.is_none() && self.waiting.is_none();
        self.lingers()
            && !self.has_lingered(now)
            && is_at_rest
            && self.clean_up.is_at_rest()
            && self.cell.deadline().since(now) > self.lease / 3
    }

    /// Whether its client is to hear of others that want the lock.
    pub(super) fn is_asked_for(&self) -> bool {
        match self.linger.as_deref() {
            Some(Linger::For(_)) => self.is_live(),
            Some(Linger::Lingers(_)) => true,
            Some(Linger::Declined | Linger::Left) | None => false,
        }
    }

    /// Whether the hold lingers, or will linger after its guard's release.
    pub(super) fn may_linger(&self) -> bool {
        matches!(self.linger.as_deref(), Some(Linger::For(_) | Linger::Lingers(_)))
    }

    /// The head start of other clients after the release of a hold with the mark: two round trips, at most a quarter of
    /// a second after a known request, and less if there only `may_be` another client.
    pub(super) fn head_start(&self, is_wanted: bool, may_be: bool) -> Option<Duration> {
        self.linger.as_deref()?;
        match (is_wanted, may_be && self.was_handed_on()) {
            (true, _) => Some(self.two_round_trips(LINGER_HEAD_START)),
            (false, true) => Some(self.two_round_trips(HAND_OVER_HEAD_START)),
            (false, false) => None,
        }
    }

    /// Whether the hold has lingered, and its release is in flight.
    pub(super) fn has_left(&self) -> bool {
        self.linger.as_deref() == Some(&Linger::Left)
    }

    /// It does not linger any more. Says whether it did: then it is to be released.
    pub(super) fn decline_to_linger(&mut self) -> bool {
        let lingered = self.lingers();
        if let Some(linger) = &mut self.linger {
            **linger = if lingered { Linger::Left } else { Linger::Declined };
        }
        lingered
    }
}

impl Linger {
    /// The hold is the next request's, which would let it linger for `longest`.
    pub(super) fn pass_on(&mut self, longest: Option<Duration>, lease: Duration) {
        if !matches!(self, Self::Declined | Self::Left) {
            *self = longest.map_or(Self::Declined, |most| Self::For(most.min(lease / 3)));
        }
    }
}

// ===== Lingering =====
//
// Holds that linger: the last guard goes and the server is not told, so that the next acquire of the client costs no command.
//
// The server sees one hold that lasts, as it does of a hold that is [handed on](super::hand_over). A request has it under a new number.
//
// A hold may linger only if its client was subscribed to requests before the acquire. So the first hold of a lock does
// not linger: its grant starts the subscription, which lasts from hold to hold, until two seconds after the last hold.
//
// | what happens to a hold that may linger | what follows |
// |---|---|
// | its only guard goes, and no request of the client waits | it lingers |
// | a renewal is due or on its way, a third of the lease or less is left, or it was lost | a release |
// | another client has asked for the lock, or the hold was kept from the server for ten times as long as it may linger | a release |
// | the server or the channel is known to be out of reach, or the client is closed | a release |
// | **what happens while it lingers** | |
// | a request comes that wishes for such a hold | the request has it |
// | a request comes that wishes for another lease, for replicas, or for the lock within this client | a release, and the request asks |
// | another client asks, or ends the hold by force | a release |
// | the time is over | a release |
// | messages were missed, a connection was lost, a subscription failed, or the client closes | a release |
//
// After the release of such a hold its client gives other clients a head start, if there may be any: it sends no
// acquire for two round trips.

impl Session {
    /// A guard of a hold goes: for how long the hold is kept; `None` where it is released.
    pub(super) fn plan_stay(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<Stay> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get(number).filter(|_| renewed)?;
        let (stay, lock) = (hold.plan_stay(now)?, hold.lock);
        let may = self.locks[lock].line().is_empty() && self.subscriptions.hears(lock) && self.may_keep(lock);
        may.then_some(stay)
    }

    /// The guard goes, and the hold is kept.
    pub(super) fn begin_stay(&mut self, number: HoldNumber, stay: Stay) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.begin_stay(stay);
        }
    }

    /// A request is about to ask the server: if a hold of its lock lingers, the request has that, or the hold lingers no longer. Says whether
    /// the request has it.
    pub(super) fn resume(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(acquire) = self.requests.acquire(ticket) else { return false };
        let lock = acquire.lock;
        let Some(number) = self.lingering(lock) else { return false };
        let fits = acquire.hold.is_none()
            && acquire.is_open()
            && self.may_keep(lock)
            && !self.is_outcome_unknown(ticket)
            && self
                .holds
                .get(number)
                .is_some_and(|hold| hold.may_be_resumed(now) && hold.is_what_is_wished(&acquire.wish));
        if fits {
            self.resume_by(now, ticket, number, lock);
        } else {
            self.stop_lingering(now, number);
        }
        fits
    }

    fn resume_by(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let Some(granted) = self.renumber(now, number, ticket) else { return };
        let left = granted.cell.deadline().since(now);
        let (next, permits) = (granted.hold, u64::from(granted.cell.permits()));
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.forget_hold();
        acquire.end(Ok(Some(granted)));
        let place = acquire.place;
        self.locks[lock].add_held(permits);
        self.resumed += 1;
        self.listen_for_others(now, lock);
        self.admit_others(now, lock, next);
        if place == LocalPlace::Line {
            self.locks[lock].forget_failures();
            self.contender_granted(now, ticket, lock, left);
        }
    }

    /// The hold of a lock that lingers.
    pub(super) fn lingering(&self, lock: LockId) -> Option<HoldNumber> {
        let number = self.locks.get(lock)?.last_granted?;
        self.holds.get(number).is_some_and(|hold| hold.lingers()).then_some(number)
    }

    /// Whether holds of a lock may linger: the server is well as far as is known, and no request takes the lock within this client.
    fn may_keep(&self, lock: LockId) -> bool {
        self.is_well(lock) && !self.is_local(lock)
    }

    /// A hold lingers no longer: it is released, as one is whose guard was dropped.
    pub(super) fn stop_lingering(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let (lock, lingered) = (hold.lock, hold.decline_to_linger());
        self.drop_unwanted_notices(lock);
        if lingered {
            self.let_others_in(now, number);
            // A hold whose lease is over by now is forgotten, and the lock perhaps with it.
            self.clean_up_by_background(now, number);
        }
    }

    /// Releases a hold that has lingered for long enough. Says whether it has.
    pub(super) fn end_stay(&mut self, now: Instant, number: HoldNumber) -> bool {
        let is_over = self.holds.get(number).is_some_and(|hold| hold.has_lingered(now));
        if is_over {
            self.stop_lingering(now, number);
        }
        is_over
    }

    /// Another client wants the lock: what this client has of it does not linger.
    pub(super) fn give_way(&mut self, now: Instant, lock: LockId) {
        self.contended.note(now, self.locks[lock].name.key());
        let listened = self.listening.end(lock, &mut self.timers);
        if let Some(number) = self.locks[lock].last_granted.filter(|number| self.holds.contains(*number)) {
            self.stop_lingering(now, number);
        }
        if listened {
            self.drop_unwanted_notices(lock);
            self.locks.unref(lock, &mut self.timers);
        }
    }

    /// Starts the subscription to requests after a grant for an acquire that wants its hold to linger.
    pub(super) fn listen_for_others(&mut self, now: Instant, lock: LockId) {
        let is_quiet = !self.contended.is_contended(now, self.locks[lock].name.key());
        if !is_quiet || !self.may_keep(lock) {
            return;
        }
        match self.listening.keep(now, lock, &mut self.timers) {
            Kept::Not => return,
            Kept::New => self.locks[lock].add_ref(),
            Kept::Longer => {}
        }
        self.want_notices(lock);
    }

    /// Ends the subscription of a lock after its last hold, unless something still refers to the lock.
    pub(super) fn listening_is_due(&mut self, now: Instant, lock: LockId) {
        if !self.listening.contains(lock) {
            return;
        }
        if self.locks[lock].refs() > 1 {
            let _ = self.listening.keep(now, lock, &mut self.timers);
        } else {
            self.stop_listening(lock);
        }
    }

    fn stop_listening(&mut self, lock: LockId) {
        if self.listening.end(lock, &mut self.timers) {
            self.drop_unwanted_notices(lock);
            self.locks.unref(lock, &mut self.timers);
        }
    }

    /// Ends all subscriptions to requests, because the client ends.
    pub(super) fn stop_all_listening(&mut self) {
        let listening: Vec<LockId> = self.listening.locks().collect();
        listening.into_iter().for_each(|lock| self.stop_listening(lock));
    }

    /// Starts the head start of other clients after the release of a hold with the mark, if there may be any.
    pub(super) fn let_others_in(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.count.wanted <= 1) else { return };
        let lock = hold.lock;
        let is_wanted = self.contended.is_contended(now, self.locks[lock].name.key());
        let may_be = self.locks[lock].rivals.get_a_head_start();
        let Some(pause) = hold.head_start(is_wanted, may_be) else { return };
        let until = now + pause;
        self.contended.hold_back(now, self.locks[lock].name.key(), until);
        let line = self.locks[lock].line();
        if line.contender.is_some() && line.is_at_rest() {
            self.locks[lock].line_mut().back_off(until);
            self.set_lock_timer(lock);
        }
    }

    /// Ends lingering for all holds, with or without a guard: this client may have missed requests, or is closing.
    pub fn stop_all_lingering(&mut self, now: Instant) {
        self.stop_lingering_of(now, |_| true);
    }

    /// Ends lingering for the holds of some locks.
    pub(super) fn stop_lingering_of(&mut self, now: Instant, is_it: impl Fn(LockId) -> bool) {
        let marked = self.holds.iter().filter(|(_, hold)| hold.may_linger() && is_it(hold.lock));
        let mut marked: Vec<HoldNumber> = marked.map(|(number, _)| number).collect();
        marked.sort_unstable();
        marked.into_iter().for_each(|number| self.stop_lingering(now, number));
    }

    /// Checks the holds of a lock now, because a hold was ended from outside. A hold of this name stops lingering.
    pub fn look_again(&mut self, now: Instant, name: &str) {
        let same = |lock: LockId| self.locks[lock].name.as_str() == name;
        let lingering = self.holds.iter().filter(|(_, hold)| hold.lingers() && same(hold.lock));
        let lingering: Vec<HoldNumber> = lingering.map(|(number, _)| number).collect();
        lingering.into_iter().for_each(|number| self.stop_lingering(now, number));
        self.look_at_holds(now, name);
    }
}

// ===== Locks that other clients have wanted =====
//
// Locks that other clients have wanted lately. Holds of these do not linger, and have no mark in their names: it would only bring messages.

/// How long that is remembered.
const LATELY: Duration = Duration::from_secs(1);

/// How many locks are remembered at most. More than these are forgotten together, which costs a few messages.
const MOST_CONTENDED: usize = 1_024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<Bytes, Noted>);

/// The recent contention of a lock.
#[derive(Clone, Copy, Debug)]
struct Noted {
    /// The time of the last known request of another client.
    wanted: Option<Instant>,
    /// End of the head start of other clients; this client does not acquire before.
    held_back_until: Instant,
}

impl Noted {
    fn is_stale(&self, now: Instant) -> bool {
        self.wanted.is_none_or(|at| now.since(at) >= LATELY) && self.held_back_until <= now
    }
}

impl Contended {
    /// Another client wants a lock, or has it.
    pub(super) fn note(&mut self, now: Instant, key: &[u8]) {
        self.entry(now, key).wanted = Some(now);
    }

    /// Gives other clients a head start until this instant.
    pub(super) fn hold_back(&mut self, now: Instant, key: &[u8], until: Instant) {
        self.entry(now, key).held_back_until = until;
    }

    /// Whether another client has recently requested a lock.
    pub(super) fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.0.get(key).and_then(|noted| noted.wanted).is_some_and(|at| now.since(at) < LATELY)
    }

    /// The end of the head start of other clients.
    pub(super) fn held_back_until(&self, now: Instant, key: &[u8]) -> Option<Instant> {
        self.0.get(key).map(|noted| noted.held_back_until).filter(|until| *until > now)
    }

    fn entry(&mut self, now: Instant, key: &[u8]) -> &mut Noted {
        if self.0.len() >= MOST_CONTENDED {
            self.0.retain(|_, noted| !noted.is_stale(now));
        }
        if self.0.len() >= MOST_CONTENDED {
            self.0.clear();
        }
        let new = Noted { wanted: None, held_back_until: now };
        self.0.entry(Bytes::copy_from_slice(key)).or_insert(new)
    }
}

// ===== Locks that stay subscribed =====
//
// Locks whose channel stays subscribed from one hold of this client to the next. A hold may linger only if its client
// was subscribed to requests before the acquire.

/// How long a subscription outlives the last hold.
const AFTER: Duration = Duration::from_secs(2);

/// Maximum number of locks. Holds of further locks do not linger.
const MOST_LISTENING: usize = 1_024;

/// See the [module](self). Each lock has its timer.
#[derive(Debug, Default)]
pub(super) struct Listening(BTreeMap<LockId, Option<Instant>>);

/// The result of [`Listening::keep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lock that is new among these is referred to once more"]
pub(super) enum Kept {
    New,
    Longer,
    /// The maximum is reached.
    Not,
}

impl Listening {
    /// Starts to keep the subscription of a lock.
    pub(super) fn keep(&mut self, now: Instant, lock: LockId, timers: &mut Timers) -> Kept {
        let known = self.contains(lock);
        if !known && self.0.len() >= MOST_LISTENING {
            return Kept::Not;
        }
        timers.set(Timer::Listening(lock), self.0.entry(lock).or_default(), Some(now + AFTER));
        if known { Kept::Longer } else { Kept::New }
    }

    /// Stops keeping the subscription of a lock. Returns whether it was kept.
    pub(super) fn end(&mut self, lock: LockId, timers: &mut Timers) -> bool {
        let slot = self.0.remove(&lock);
        slot.is_some_and(|mut slot| {
            timers.set(Timer::Listening(lock), &mut slot, None);
            true
        })
    }

    pub(super) fn contains(&self, lock: LockId) -> bool {
        self.0.contains_key(&lock)
    }

    /// The locks, each of which has a timer.
    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> {
        self.0.keys().copied()
    }
}

#[cfg(test)]
mod tests;
