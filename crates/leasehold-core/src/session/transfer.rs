//! Transfers of a hold between the tasks of one client, without a command to the server.
//!
//! A transfer ends a hold for its guard and grants it to another request, under a new number and with a new cell. The server keeps one
//! hold: the name, the count and the lease go on. The old number names no hold, so a late reply, release or re-entry finds nothing.
//!
//! A request receives a hold in one of two ways. The contender of the line receives it when a guard goes (**hand-over**). Or the hold
//! **lingers**: it stays on the server without a guard until the next request of the client resumes it. Then an acquire costs no command.
//!
//! A hold may linger only if its client received the requests of other clients before the acquire. So the first hold of a lock does not
//! linger: its grant subscribes to the channel, and the subscription outlives the last hold by two seconds. A hold that may linger has
//! a mark in its name on the server. A client that finds the lock busy under such a name requests it, and the lingering ends.
//!
//! A hold with a sent or due command is never transferred; it is released when its guard ends. A lingering hold is released when its time is
//! over, when another client wants the lock, or when a request needs another lease, replicas or the lock within this client. It is also
//! released when requests may have been missed. After the release of a hold that was transferred or marked, the client gives other clients
//! a head start, if any may want the lock.

use crate::command::Listeners;
use crate::error::HoldEnd;
use crate::owner::HoldNumber;
use crate::session::hold::{Hold, HoldState};
use crate::session::line::Phase;
use crate::session::lock::LockId;
use crate::session::{AcquireRequest, LingerTime, Session, Ticket, Timer};
use crate::settings::HandOver;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::HashMap;
use std::task::Waker;
use std::time::Duration;

/// A client that listens needs about this time to wake up and acquire.
const LEAST_HEAD_START: Duration = Duration::from_millis(1);

/// Limits the head start, so that local waiters do not pay for a slow server.
const HAND_OVER_HEAD_START: Duration = Duration::from_millis(20);

/// The longest head start of a client with a known request.
const LINGER_HEAD_START: Duration = Duration::from_millis(250);

/// The pause without other listeners. It lets the notice of the release arrive first: a later notice would make the next waiter acquire a
/// busy lock.
const PAUSE_ALONE: Duration = Duration::from_micros(300);

/// A client keeps a hold from the server for at most this multiple of the linger time, because JVMs send no requests.
const MAX_LINGER_TIMES: u32 = 10;

/// How long a subscription outlives the last hold.
const LISTEN_AFTER_LAST_HOLD: Duration = Duration::from_secs(2);

/// Maximum number of locks with such a subscription. Holds of further locks do not linger.
const MOST_LISTENING: usize = 1_024;

impl Session {
    /// Keeps the hold of a guard that goes: hands it over, or lets it linger. Returns whether the server needs no release.
    pub(super) fn hand_over_or_linger(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> bool {
        self.lose_if_passed(now, number);
        if renewed && let Some(ticket) = self.next_holder(now, number) {
            self.transfer(now, number, ticket);
            return true;
        }
        if renewed && self.begin_to_linger(now, number) {
            return true;
        }
        self.give_head_start(now, number);
        false
    }

    /// The contender, if it is idle and wants such a hold.
    fn next_holder(&self, now: Instant, number: HoldNumber) -> Option<Ticket> {
        let hold = self.holds.get(number).filter(|hold| self.may_hand_over(now, hold))?;
        let line = &self.locks[hold.lock].line;
        let ticket = line.contender.filter(|_| line.is_at_rest())?;
        let acquire = self.requests.waiter(ticket)?;
        (!acquire.unpolled && !acquire.rests() && self.suits(hold, ticket)).then_some(ticket)
    }

    /// Whether the request has nothing on the server, and wants such a hold.
    fn suits(&self, hold: &Hold, ticket: Ticket) -> bool {
        let acquire = &self.requests[ticket];
        let is_fresh = acquire.is_open() && acquire.hold.is_none() && !self.is_outcome_unknown(ticket);
        is_fresh && hold.suits(&acquire.request)
    }

    fn may_hand_over(&self, now: Instant, hold: &Hold) -> bool {
        let lock = &self.locks[hold.lock];
        self.settings.hand_over.is_some_and(|HandOver { most, within }| {
            // Without other listeners, only the time limits the hand-overs.
            let is_often = lock.unheard == 0 && hold.tenure.handed_on >= most;
            !is_often && now.since(hold.tenure.since) < within
        }) && hold.may_be_handed_on(now)
            && lock.protocol().may_be_handed_on()
            && self.is_server_usable(hold.lock)
    }

    /// Whether this client's hold of the lock is about to be handed over, so that a request in an empty line need not ask the server.
    pub(super) fn expects_hand_over(&self, now: Instant, lock: LockId) -> bool {
        let hold = self.locks[lock].last_granted.and_then(|number| self.holds.get(number));
        hold.is_some_and(|hold| self.may_hand_over(now, hold))
    }

    /// Whether the server is reachable as far as known, and no task of this client keeps the others from it.
    pub(super) fn is_server_usable(&self, lock: LockId) -> bool {
        !self.closed && !self.is_gated(lock) && self.outage_of(lock).is_none() && self.failing_since(lock).is_none()
    }

    /// Ends a hold for its guard, and grants it to a request under a new number. The server keeps the hold.
    fn transfer(&mut self, now: Instant, number: HoldNumber, ticket: Ticket) {
        let next = self.new_hold();
        let acquire = &mut self.requests[ticket];
        let Some(hold) = self.holds.rename(number, next) else { return };
        let (lock, lingered, planned) = (hold.lock, hold.lingers(), hold.renew_at);
        self.timers.set(Timer::Hold(number), &mut hold.timer, None);
        if let Some(owner) = hold.owner {
            self.owners.change(lock, owner, |owned| owned.holds.retain(|held| *held != number));
        }
        hold.begin_again(now, ticket, &acquire.request, &mut self.out.woken);
        let granted = hold.granted(next, acquire.request.renewed);
        let left = hold.cell.deadline().since(now);
        if lingered {
            self.locks[lock].add_held(hold.permits());
            self.resumed += 1;
            acquire.end(Ok(Some(granted)));
        } else {
            self.hand_overs += 1;
            acquire.grant(now, granted, self.locks[lock].wait_policy().turn(&self.settings));
        }
        self.locks[lock].last_granted = Some(next);
        self.schedule_renewal(now, next);
        if let Some(at) = planned {
            // A transfer does not postpone a planned renewal.
            self.verify_hold(next, at);
        }
        if lingered {
            self.listen_for_others(now, lock);
        }
        self.finish_grant(now, ticket, next, left);
        if !lingered {
            self.wake(ticket);
        }
    }

    /// Ends a guard whose hold starts to linger, unless the hold must be released. A lingering hold is not renewed.
    fn begin_to_linger(&mut self, now: Instant, number: HoldNumber) -> bool {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.may_be_handed_on(now)) else { return false };
        let (Some(Linger::For(longest)), Some(renew_at)) = (hold.linger.as_deref().copied(), hold.renew_at) else {
            return false;
        };
        let until = (now + longest).min(renew_at).min(hold.tenure.since + longest * MAX_LINGER_TIMES);
        let is_wanted = !self.locks[hold.lock].line.is_empty() || !self.subscriptions.hears(hold.lock);
        if until <= now || is_wanted || !self.may_linger(hold.lock) {
            return false;
        }
        self.holds[number].linger = Some(Box::new(Linger::Lingers { until }));
        self.take_guard(now, number, true);
        self.holds[number].renew_at = Some(renew_at);
        true
    }

    fn may_linger(&self, lock: LockId) -> bool {
        self.is_server_usable(lock) && !self.is_local(lock)
    }

    /// Resumes the lingering hold of a request's lock, or ends the lingering. Returns whether the request has the hold.
    pub(super) fn resume(&mut self, now: Instant, ticket: Ticket) -> bool {
        let Some(number) = self.locks[self.requests[ticket].lock].last_granted else { return false };
        let Some(hold) = self.holds.get(number) else { return false };
        let Some(until) = hold.lingers_until() else { return false };
        let may_go_on = self.may_linger(hold.lock) && hold.is_idle() && hold.has_lease_left(now);
        let fits = until > now && may_go_on && self.suits(hold, ticket);
        if fits {
            self.transfer(now, number, ticket);
        } else {
            self.stop_lingering(now, number);
        }
        fits
    }

    /// Releases a lingering hold, or prevents a hold from lingering.
    pub(super) fn stop_lingering(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        let (lock, lingered) = (hold.lock, hold.lingers());
        if let Some(linger) = &mut hold.linger {
            **linger = if lingered { Linger::Left } else { Linger::Declined };
        }
        self.drop_unwanted_notices(lock);
        if lingered {
            self.holds[number].renew_at = None;
            self.give_head_start(now, number);
            self.clean_up_by_background(now, number);
        }
    }

    /// Ends lingering for all holds, with or without a guard: this client may have missed requests, or is closing.
    pub fn stop_all_lingering(&mut self, now: Instant) {
        self.stop_lingering_where(now, Hold::may_linger);
    }

    pub(super) fn stop_lingering_where(&mut self, now: Instant, is_it: impl Fn(&Hold) -> bool) {
        self.holds_where(is_it).into_iter().for_each(|number| self.stop_lingering(now, number));
    }

    /// Checks the holds of a lock now, because a hold was ended from outside. A hold of this name stops lingering.
    pub fn look_again(&mut self, now: Instant, name: &str) {
        let named = self.locks.iter().filter(|(_, lock)| lock.name.as_str() == name);
        for lock in named.map(|(lock, _)| lock).collect::<Vec<_>>() {
            self.stop_lingering_where(now, |hold| hold.lingers() && hold.lock == lock);
            self.verify_holds(now, lock);
        }
    }
}

/// What other clients get of a lock that this client keeps among its tasks.
impl Session {
    /// Delays this client's next acquire after a release, so that other clients can acquire first.
    ///
    /// A hold with a mark delays every request of this client. Other holds delay the contender. Without other clients there is almost no
    /// pause: behind a slow network it would cost more than the holds themselves.
    fn give_head_start(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number).filter(|hold| hold.count.wanted <= 1) else { return };
        let lock = &self.locks[hold.lock];
        let was_handed_on = hold.tenure.handed_on > 0;
        let others_may_be = lock.unheard == 0 || lock.unheard > MOST_UNHEARD;
        let short = hold.tenure.two_round_trips(HAND_OVER_HEAD_START);
        let of_contender = (self.settings.hand_over.is_some() && was_handed_on && hold.is_live())
            .then_some(if others_may_be { short } else { PAUSE_ALONE });
        let of_client = hold.linger.as_ref().and_then(|_| {
            if self.contended.is_contended(now, lock.name.key()) {
                Some(hold.tenure.two_round_trips(LINGER_HEAD_START))
            } else {
                (others_may_be && was_handed_on).then_some(short)
            }
        });
        if let Some(pause) = of_client {
            self.contended.entry(now, lock.name.key()).held_back_until = now + pause;
        }
        if let Some(pause) = of_contender.or(of_client)
            && lock.line.contender.is_some()
            && lock.line.is_at_rest()
        {
            let lock = hold.lock;
            self.locks[lock].line.phase = Phase::BackingOff(now + pause);
            self.set_lock_timer(lock);
        }
    }

    /// Stores whether other clients listen, by the number of connections that received the notice of a release. A cluster node knows only
    /// its own connections, unless the message stays within its shard.
    pub(super) fn note_listeners(&mut self, lock: LockId, listeners: Listeners) {
        let counts_all = !self.settings.cluster || self.settings.publish == b"SPUBLISH"[..];
        let only_self = match listeners {
            Listeners::None => true,
            Listeners::One => self.subscriptions.listens(lock, |_| true) && self.subscriptions.is_confirmed(lock),
            Listeners::Several => false,
        };
        let unheard = &mut self.locks[lock].unheard;
        *unheard = match *unheard {
            _ if !counts_all || !only_self => 0,
            releases if releases <= MOST_UNHEARD => releases + 1,
            _ => 1,
        };
    }

    pub(super) fn yield_to_other_client(&mut self, now: Instant, lock: LockId) {
        self.contended.note(now, self.locks[lock].name.key());
        let last = self.locks[lock].last_granted.filter(|number| self.holds.contains(*number));
        self.stop_listening(lock);
        if let Some(number) = last {
            self.stop_lingering(now, number);
        }
    }

    /// Subscribes to the requests of other clients, after a grant to a request that wants its hold to linger.
    pub(super) fn listen_for_others(&mut self, now: Instant, lock: LockId) {
        let is_contended = self.contended.is_contended(now, self.locks[lock].name.key());
        let is_new = !self.listening.contains_key(&lock);
        if is_contended || !self.may_linger(lock) || (is_new && self.listening.len() >= MOST_LISTENING) {
            return;
        }
        if is_new {
            self.locks[lock].refs += 1;
        }
        self.keep_listening(now, lock);
        self.want_notices(lock);
    }

    fn keep_listening(&mut self, now: Instant, lock: LockId) {
        self.timers.set(
            Timer::Listening(lock),
            self.listening.entry(lock).or_default(),
            Some(now + LISTEN_AFTER_LAST_HOLD),
        );
    }

    /// Ends the subscription of a lock after its last hold, unless a hold or a request still refers to the lock.
    pub(super) fn listening_is_due(&mut self, now: Instant, lock: LockId) {
        if self.locks[lock].refs > 1 {
            self.keep_listening(now, lock);
        } else {
            self.stop_listening(lock);
        }
    }

    pub(super) fn stop_listening(&mut self, lock: LockId) {
        if let Some(mut slot) = self.listening.remove(&lock) {
            self.timers.set(Timer::Listening(lock), &mut slot, None);
            self.drop_unwanted_notices(lock);
            self.locks.unref(lock, &mut self.timers);
        }
    }
}

/// The time since the server granted a hold to this client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tenure {
    pub(super) asked_at: Instant,
    pub(super) since: Instant,
    pub(super) handed_on: u32,
}

impl Tenure {
    fn two_round_trips(&self, most: Duration) -> Duration {
        (self.since.since(self.asked_at) * 2).clamp(LEAST_HEAD_START, most)
    }
}

/// The state of a hold with the mark in its name. A hold without the mark does not linger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linger {
    /// It may linger for this time.
    For(Duration),
    /// It does not linger: another client wants the lock, or its last request did not ask for it.
    Declined,
    /// It has lingered; its release is in flight.
    Left,
    /// It has no guard, and keeps the plan for its next renewal.
    Lingers { until: Instant },
}

impl Hold {
    /// Whether no call is in flight or waits for one, and no clean-up is due.
    fn is_idle(&self) -> bool {
        self.change.is_none() && self.raising.is_none() && self.waiting.is_none() && self.clean_up.is_at_rest()
    }

    fn has_lease_left(&self, now: Instant) -> bool {
        self.cell.deadline().since(now) > self.lease / 3
    }

    /// Whether the server has the hold for its one guard alone, and nothing is in flight or due.
    pub(super) fn may_be_handed_on(&self, now: Instant) -> bool {
        self.state == HoldState::Held
            && self.end().is_none()
            && self.count.is_one_at_rest()
            && self.is_idle()
            && self.renew_at.is_some_and(|at| at > now)
            && self.replicas().is_none()
            && !self.keeps_busy(now)
            && self.has_lease_left(now)
    }

    /// Whether it is what a request wants. A `max_hold` below the lease does not fit: the server has the hold for a lease, whatever its
    /// guard does.
    fn suits(&self, request: &AcquireRequest) -> bool {
        request.renewed
            && request.lease == self.lease
            && request.replicas.is_none()
            && request.field.is_none()
            && request.permits == self.cell.permits()
            && request.max_hold.is_none_or(|most| most >= self.lease)
    }

    /// Ends for its guard, and begins again for a request. Its name on the server and its lease go on.
    fn begin_again(&mut self, now: Instant, ticket: Ticket, request: &AcquireRequest, woken: &mut Vec<Waker>) {
        self.cell.end(HoldEnd::Released, woken);
        let mut next = Self::new(now, self.lock, ticket, self.cell.name.clone(), request);
        next.cell.set_deadline(self.cell.deadline());
        next.count.on_server = self.count.on_server;
        next.raising = None;
        (next.last_reply_at, next.contradicted_at) = (self.last_reply_at, self.contradicted_at);
        (next.verify, next.refusal_reported) = (self.verify, self.refusal_reported);
        next.clean_up.until = self.clean_up.until;
        next.tenure = Tenure { handed_on: self.tenure.handed_on + 1, ..self.tenure };
        next.linger = self.linger.take();
        if let Some(linger) = &mut next.linger
            && !matches!(**linger, Linger::Declined | Linger::Left)
        {
            let longest = request.linger.filter(|_| request.max_hold.is_none()).map(LingerTime::get);
            **linger = longest.map_or(Linger::Declined, |most| Linger::For(most.min(self.lease / 3)));
        }
        *self = next;
        self.grant(request.renewed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.lingers_until().is_some()
    }

    pub(super) fn lingers_until(&self) -> Option<Instant> {
        match self.linger.as_deref() {
            Some(Linger::Lingers { until }) => Some(*until),
            _ => None,
        }
    }

    /// Whether its client must receive requests of other clients.
    pub(super) fn hears_requests(&self) -> bool {
        self.lingers() || (self.may_linger() && self.is_live())
    }

    /// Whether the hold lingers, or will linger once its guard is dropped.
    pub(super) fn may_linger(&self) -> bool {
        matches!(self.linger.as_deref(), Some(Linger::For(_) | Linger::Lingers { .. }))
    }
}

/// After this many releases in a row without another listener, others get a head start all the same: pollers do not subscribe.
const MOST_UNHEARD: u8 = 8;

/// How long the client remembers a request of another client.
const CONTENDED_FOR: Duration = Duration::from_secs(1);

/// Maximum number of remembered locks. More locks are forgotten together, which costs a few messages.
const MOST_CONTENDED: usize = 1_024;

/// The locks that other clients have wanted lately. Their holds do not linger, and have no mark, which would only bring messages.
#[derive(Debug, Default)]
pub(super) struct Contended(HashMap<Bytes, Noted>);

#[derive(Clone, Copy, Debug)]
struct Noted {
    /// The last known request of another client.
    wanted: Option<Instant>,
    /// End of the head start of other clients.
    held_back_until: Instant,
}

impl Contended {
    pub(super) fn note(&mut self, now: Instant, key: &[u8]) {
        self.entry(now, key).wanted = Some(now);
    }

    pub(super) fn is_contended(&self, now: Instant, key: &[u8]) -> bool {
        self.0.get(key).and_then(|noted| noted.wanted).is_some_and(|at| now.since(at) < CONTENDED_FOR)
    }

    /// The end of the head start of other clients. This client does not acquire before.
    pub(super) fn held_back_until(&self, now: Instant, key: &[u8]) -> Option<Instant> {
        self.0.get(key).map(|noted| noted.held_back_until).filter(|until| *until > now)
    }

    fn entry(&mut self, now: Instant, key: &[u8]) -> &mut Noted {
        if self.0.len() >= MOST_CONTENDED {
            let is_recent = |noted: &Noted| noted.wanted.is_some_and(|at| now.since(at) < CONTENDED_FOR);
            self.0.retain(|_, noted| is_recent(noted) || noted.held_back_until > now);
        }
        if self.0.len() >= MOST_CONTENDED {
            self.0.clear();
        }
        self.0.entry(Bytes::copy_from_slice(key)).or_insert(Noted { wanted: None, held_back_until: now })
    }
}

#[cfg(test)]
mod tests;
