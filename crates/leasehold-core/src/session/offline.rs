//! Servers out of reach: outages, grants without the server, and their restoration.

use crate::call::Replicas;
use crate::command::{AcquireArgs, Acquired};
use crate::error::{AcquireError, LossReason};
use crate::link::{LinkError, LinkEvent, not_connected};
use crate::name;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::hold::{CountChange, Hold};
use crate::session::line::Phase;
use crate::session::lock::LockId;
use crate::session::request::{LocalPlace, Request};
use crate::session::subscriptions::Answered;
use crate::session::{Event, Fallback, Patience, Session, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::time::Duration;

/// A server that cannot be reached.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    /// When its connection was lost.
    pub(super) since: Instant,
    why: String,
    /// The slots that it owns, in order; `None` where it has them all.
    slots: Option<Vec<u16>>,
}

impl Outage {
    /// A server that cannot be reached since then, and why.
    pub(super) const fn new(server: String, since: Instant, why: String, slots: Option<Vec<u16>>) -> Self {
        Self { server, since, why, slots }
    }

    /// Whether the key is one that this server would have.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.binary_search(&name::slot(key)).is_ok())
    }

    /// Adds the outage to what else is known of the failures of a server.
    pub(super) fn added_to(&self, since: Option<Instant>, in_words: String) -> String {
        let told = not_connected(&self.server, &self.why).to_string();
        match since {
            None => told,
            Some(_) if in_words.contains(&told) => in_words,
            Some(_) => format!("{in_words}; {told}"),
        }
    }
}

/// The servers that are out of reach.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Since when no server has been in reach, as far as first acquires have seen.
    pub(super) seen_since: Option<Instant>,
    /// As the link says.
    told: Vec<Outage>,
}

impl Outages {
    /// Notes a failed attempt: since when all have failed.
    pub(super) fn note_failure(&mut self, now: Instant) -> Instant {
        *self.seen_since.get_or_insert(now)
    }

    /// A server is out of reach, as the link says.
    pub(super) fn begin(&mut self, outage: Outage) {
        self.told.push(outage);
    }

    /// A server is out of reach no longer, or others have what it had. Gives the outage that ends, if there was one.
    pub(super) fn end(&mut self, server: &str) -> Option<Outage> {
        let at = self.told.iter().position(|outage| outage.server == server)?;
        Some(self.told.swap_remove(at))
    }

    /// The outage that keeps the server of a key out of reach.
    pub(super) fn of(&self, key: &[u8]) -> Option<&Outage> {
        self.told.iter().find(|outage| outage.concerns(key))
    }
}

// ===== Fallback =====
//
// The results for callers while the server is out of reach: an error, the lock within this client, or a guard that excludes no other.
//
// A hold that is granted without the server is **degraded**. It has nothing on the server, so its count there is 0. If it excludes the
// other tasks of this client, the background asks the server again and again, until it is granted there too, or refused: then it is lost. To
// be sure that two tasks of this client never hold at once, every request for such a lock waits for the task that has it here, whether the
// server can be reached or not.

impl Session {
    /// Whether a request, whose call was certainly not applied, is to do without the server from now on.
    pub(super) fn falls_back(&mut self, now: Instant, ticket: Ticket) -> bool {
        let seen = self.outages.note_failure(now);
        let Some(acquire) = self.requests.known_acquire(ticket) else { return false };
        let since = self.outage_of(acquire.lock).map_or(seen, |outage| seen.min(outage.since));
        let first = acquire.entering().is_none() && acquire.beside().is_none();
        let nothing_there = acquire
            .hold
            .and_then(|number| self.holds.get(number))
            .is_none_or(|hold| hold.count.on_server == 0 && !hold.has_change());
        acquire.wish.fallback != Fallback::Fail
            && first
            && nothing_there
            && !acquire.failures.is_outcome_unknown()
            && now >= since + self.settings.unreachable_after
    }

    /// Grants without the server.
    pub(super) fn degrade(&mut self, now: Instant, ticket: Ticket) {
        let known = self.requests.acquire(ticket).and_then(|acquire| acquire.hold);
        let Some(number) = known.or_else(|| self.begin_hold(now, ticket)) else { return };
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.known_mut(number) else { return };
        let renewed = acquire.wish.renewed;
        let restore_at = (acquire.wish.fallback == Fallback::Local).then_some(now + RESTORE);
        hold.grant_locally(now, renewed, restore_at);
        let granted = hold.granted(number, renewed);
        match restore_at {
            Some(until) => acquire.grant(granted, until),
            None => drop(acquire.end(Ok(Some(granted)))),
        }
        let (lock, owner, place, permits) = (hold.lock, hold.owner, acquire.place, hold.permits());
        self.locks[lock].add_held(permits);
        self.leave_queue(ticket, lock);
        self.out.tell(Event::Degraded { name: self.locks[lock].name.clone() });
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
            if self.requests.known_acquire(ticket).is_some_and(|acquire| self.is_gated(acquire.lock)) {
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
        let needs_server = acquire.wish.fallback == Fallback::Fail;
        let is_degraded = self.holds.get(number).is_some_and(|hold| hold.is_degraded());
        match acquire.wish.replicas {
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

// ===== Waiting at the gate =====
//
// Requests that find the gate of a lock shut: they wait for another task of their client, and leave the server out of it.
//
// A request looks at the gate before it asks the server, before it goes on without it, and when a call that went out before the gate was shut
// is granted.

impl Session {
    /// Another task of this client has the lock: it is waited for here, and the server is left out of it.
    pub(super) fn stand_at_gate(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.failures.forget_failures();
        let (lock, owner, in_line) = (acquire.lock, acquire.wish.owner, acquire.place == LocalPlace::Line);
        let ended = acquire.has_ended() || acquire.is_taking_back();
        if in_line {
            self.close_gate(lock);
        }
        if ended {
            return;
        }
        if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            self.enter_instead(now, ticket, lock, number);
            return;
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        if let Some(beside) = self.own_other_half(acquire) {
            self.stand_beside(now, ticket, beside);
            return;
        }
        if !in_line
            || acquire.wish.patience == Patience::Try
            || acquire.is_final_attempt
            || acquire.end_of_wish(self.settings.command_timeout) <= now
        {
            self.end_busy(now, ticket);
        } else {
            self.begin_to_wait(now, ticket);
        }
    }

    /// The requests of the line wait for a task of this client, and not for the server. A contender whose command is under way learns of it
    /// from the reply.
    fn close_gate(&mut self, lock: LockId) {
        self.locks[lock].forget_failures();
        let line = self.locks[lock].line();
        let asks = line.contender.is_some_and(|contender| self.is_under_way(contender));
        if !asks && !line.is_empty() {
            self.locks[lock].line_mut().gate();
        }
        self.set_lock_timer(lock);
    }

    /// The server has been out of reach for too long for those who wait for a lock. Where a task of this client has the lock, they wait for
    /// that one. Says whether they do.
    pub(super) fn waits_at_gate(&mut self, now: Instant, lock: LockId) -> bool {
        if !self.is_gated(lock) {
            return false;
        }
        self.close_gate(lock);
        if self.locks[lock].line().phase == Phase::Gated
            && let Some(contender) = self.locks[lock].line().contender
        {
            self.stand_at_gate(now, contender);
        }
        true
    }

    /// Whether a hold that the server grants is one that a task of this client has without the server, and keeps for itself.
    pub(super) fn is_held_without_server(&self, number: HoldNumber) -> bool {
        let Some(lock) = self.holds.get(number).map(|hold| hold.lock) else { return false };
        self.is_gated(lock) && self.keepers(lock).next().is_some()
    }

    /// The server has granted what a task of this client has without it: the grant is given back, and the request waits for that task.
    pub(super) fn give_grant_back(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.raising = None;
            hold.clean_up.by_background = true;
        }
        let Some(lock) = self.holds.get(number).map(|hold| hold.lock) else { return };
        // The server is asked for their holds when it no longer has this one.
        let keepers: Vec<HoldNumber> = self.keepers(lock).collect();
        for keeper in keepers {
            if let Some(hold) = self.holds.known_mut(keeper)
                && hold.renew_at.is_some()
            {
                hold.restore_at(now + RESTORE);
                self.set_hold_timer(keeper);
            }
        }
        self.reconcile(now, number);
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        self.stand_at_gate(now, ticket);
    }

    /// The holds that shut the gate of a lock, and are not on the server yet.
    fn keepers(&self, lock: LockId) -> impl Iterator<Item = HoldNumber> {
        let keeps = move |hold: &Hold| hold.is_restorable() && self.excluders(lock).any(|at| at == hold.lock);
        self.holds.iter().filter(move |(_, hold)| keeps(hold)).map(|(number, _)| number)
    }
}

// ===== Restoring =====
//
// Restores holds that were granted without the server.

/// Maximum pause before a degraded hold is requested from the server again. The minimum is half of it.
pub(super) const RESTORE: Duration = Duration::from_millis(250);

impl Session {
    /// Requests a degraded hold from the server.
    pub(super) fn restore(&mut self, now: Instant, number: HoldNumber) {
        let again = now + RESTORE / 2 + self.jitter(RESTORE / 2);
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.renew_at = None;
        let (lock, has_change) = (hold.lock, hold.has_change());
        let leftovers = self.leftovers(lock);
        if has_change || !leftovers.is_empty() {
            for leftover in leftovers {
                self.take_leftover_from_waiter(now, leftover);
            }
            if let Some(hold) = self.holds.known_mut(number) {
                hold.restore_at(again);
            }
            return;
        }
        let Some(hold) = self.holds.known(number) else { return };
        let lock = &self.locks[lock];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: &lock.name,
            keys: lock.keys(),
            hold: &hold.key(),
            beside: None,
            count: 1,
            // A fixed lease keeps its end.
            lease: hold.lease.min(hold.cell.deadline().since(now)).max(Duration::from_millis(1)),
            not_after: None,
            waits: false,
            placed: false,
            prefer_writers: None,
            settings: &self.settings,
        });
        let call = call.with_replicas(hold.replicas());
        self.send_change(now, number, None, CountChange::RaiseTo(1), call);
    }

    /// The holds that the server may still have and that are being rolled back: the release has no reply yet, or the acquire was
    /// abandoned. Then the server would report the lock as busy. A waiter's place is not a hold.
    fn leftovers(&self, lock: LockId) -> Vec<HoldNumber> {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        let asks = |ticket| self.requests.acquire(ticket).is_some();
        let is_asked_for = |hold: &Hold| hold.change().and_then(|change| change.by).is_some_and(asks);
        let is_left = |hold: &Hold| {
            hold.count.on_server > 0 && hold.count.wanted == 0 && !hold.is_queued() && !is_asked_for(hold)
        };
        // Most holds are the only use of their lock, and a client may have thousands of holds.
        if same.iter().map(|lock| self.locks[*lock].refs()).sum::<usize>() <= 1 {
            return Vec::new();
        }
        let left = self.holds.iter().filter(|(_, hold)| same.contains(&hold.lock) && is_left(hold));
        left.map(|(number, _)| number).collect()
    }

    /// Withdraws the hold of a waiting request whose earlier acquire may have been applied. The request waits for the degraded hold, which
    /// cannot be restored before the server has released the other.
    fn take_leftover_from_waiter(&mut self, now: Instant, number: HoldNumber) {
        let Some(ticket) = self.holds.get(number).filter(|hold| !hold.has_change()).and_then(|hold| hold.raising)
        else {
            return;
        };
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        self.abandon_hold(now, ticket, number);
    }

    /// Handles the reply to a restoration.
    pub(super) fn handle_restored(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
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
            // Too few replicas: a failover could undo the hold. Retry, or release it with its guard.
            Ok(Acquired::Held { .. }) if hold.is_live() && change.shortfall().is_some() => hold.extend_clean_up(now),
            Ok(Acquired::Held { left, .. }) if hold.is_live() => {
                hold.restore(now, &change, left);
                if hold.has_passed(now) {
                    // The reply came after the deadline.
                    self.lose_by_deadline(now, number);
                    self.reconcile(now, number);
                    return;
                }
                let name = self.locks[hold.lock].name.clone();
                self.out.tell(Event::Restored { name });
                self.outages.seen_since = None;
                self.schedule_renewal(now, number);
            }
            // The hold has no guard left. Lower its count like every excess count.
            Ok(Acquired::Held { .. }) => {
                hold.clean_up.by_background = true;
                hold.extend_clean_up(now);
            }
            Ok(_) => {
                hold.count.on_server = 0;
                self.outages.seen_since = None;
                self.lose(now, number, LossReason::NotRestored);
            }
            // A script that failed halfway may have granted the hold. Retry, or release it with its guard.
            Err(LinkError::Refused(refusal)) if !refusal.proves_nothing_done() => hold.extend_clean_up(now),
            // The server may have applied an earlier attempt without a reply.
            Err(_) => hold.undo_change(&change),
        }
        self.reconcile(now, number);
    }
}

// ===== Events of the link =====
//
// Events of the link, and what notices and subscriptions do to waiters.

/// How long a contender sleeps, at least, when its subscription could not be made; at most twice as long.
const POLLING: Duration = Duration::from_millis(250);

impl Session {
    /// Takes an event of the link.
    pub fn handle_event(&mut self, now: Instant, event: LinkEvent) {
        if !matches!(
            event,
            LinkEvent::Notice { .. }
                | LinkEvent::Offered { .. }
                | LinkEvent::Wanted { .. }
                | LinkEvent::Connected { .. }
        ) {
            // This client may have missed that another wants a lock, or the server may have lost what it had.
            self.stop_all_lingering(now);
        }
        match event {
            LinkEvent::Notice { channel } => {
                for lock in self.subscriptions.listeners(&channel) {
                    self.handle_notice(now, lock);
                }
            }
            LinkEvent::Offered { channel, entry } => {
                for lock in self.subscriptions.listeners(&channel) {
                    self.handle_offer(now, lock, &entry);
                }
            }
            LinkEvent::Wanted { channel } => {
                for lock in self.subscriptions.listeners(&channel) {
                    if self.locks[lock].protocol().is_asked_for() {
                        self.give_way(now, lock);
                    } else {
                        self.handle_notice(now, lock);
                    }
                }
            }
            LinkEvent::NoticesReset => self.subscriptions.reset(&mut self.out),
            LinkEvent::CallsReset => {
                self.resets += 1;
                self.renew_all(now);
                self.all_try_again(now);
            }
            LinkEvent::Connected { server, again } => self.server_connected(now, server, again),
            LinkEvent::OutOfReach { server, why, lost_for, slots } => {
                self.server_out_of_reach(now, server, why, lost_for, slots);
            }
            LinkEvent::Retired { server } => self.server_retired(now, server),
        }
    }

    /// Takes the answer to [`Action::Subscribe`].
    pub fn handle_subscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        let (out, timers) = (&mut self.out, &mut self.timers);
        match self.subscriptions.subscribed(now, channel, &result, spread, out, timers) {
            Answered::Nothing => {}
            Answered::Confirmed(locks) => {
                for lock in locks {
                    if self.subscriptions.is_confirmed(lock) && self.locks[lock].note_confirmed() {
                        self.begin_turn(now, lock);
                    }
                }
            }
            Answered::Refused(locks, why) => {
                for lock in &locks {
                    self.fail_line(now, *lock, &AcquireError::Refused(why.clone()));
                }
                self.stop_unheard(now, &locks);
            }
            Answered::Failed(locks) => {
                let Err(error) = result else { return };
                let (why, lasting) = (error.to_string(), error.is_lasting());
                for lock in locks.iter().copied() {
                    if self.locks[lock].line().phase == Phase::Subscribing {
                        // Without notices, asking now and then must do.
                        let until = now + POLLING + self.jitter(POLLING);
                        self.locks[lock].line_mut().sleep(until);
                        self.set_lock_timer(lock);
                    }
                    let name = self.locks[lock].name.clone();
                    self.out.tell(Event::SubscribeFailed { name, why: why.clone(), lasting });
                }
                self.stop_unheard(now, &locks);
            }
        }
    }

    /// These locks hear nothing: what this client has of them does not linger.
    fn stop_unheard(&mut self, now: Instant, locks: &[LockId]) {
        self.stop_lingering_of(now, |lock| locks.contains(&lock));
    }

    /// Takes the answer to [`Action::Unsubscribe`].
    pub fn handle_unsubscribed(&mut self, now: Instant, channel: &Bytes, result: Result<(), LinkError>) {
        let spread = || self.rng.f64();
        self.subscriptions.unsubscribed(now, channel, &result, spread, &mut self.out, &mut self.timers);
    }

    /// A connection to a server stands, where there was none or `again` where there was one before.
    pub(super) fn server_connected(&mut self, now: Instant, server: String, again: bool) {
        let ended = self.outages.end(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
        self.out.tell(Event::Connected { server, again, out_for });
    }

    /// Others have what the server had.
    pub(super) fn server_retired(&mut self, now: Instant, server: String) {
        let ended = self.outages.end(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
        self.out.tell(Event::Retired { server, out_for });
    }

    /// A server cannot be reached, and could not for `lost_for`.
    pub(super) fn server_out_of_reach(
        &mut self,
        now: Instant,
        server: String,
        why: String,
        lost_for: Duration,
        slots: Option<Vec<u16>>,
    ) {
        self.outages.end(&server);
        let outage = Outage::new(server.clone(), now - lost_for, why.clone(), slots);
        let concerned = self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.is_live() && !hold.is_degraded());
        let (mut holds, mut first) = (0, Instant::FAR_FUTURE);
        for hold in concerned.filter(|hold| outage.concerns(self.locks[hold.lock].name.key())) {
            holds += 1;
            first = first.min(hold.cell.deadline());
        }
        let first_lost_in = (first != Instant::FAR_FUTURE).then(|| first.since(now));
        self.outages.begin(outage);
        self.out.tell(Event::OutOfReach { server, why, holds, first_lost_in });
        let waited_for: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        waited_for.into_iter().for_each(|lock| self.set_lock_timer(lock));
        let open = self.requests.acquires().filter(|(_, acquire)| acquire.is_open());
        let open: Vec<_> = open.map(|(ticket, _)| ticket).collect();
        open.into_iter().for_each(|ticket| self.set_request_timer(now, ticket));
    }

    /// Notices may have been missed: every contender that sleeps tries again, not all at the same instant.
    fn all_try_again(&mut self, now: Instant) {
        let locks: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        for lock in locks {
            let at = now + self.jitter(Duration::from_millis(50));
            self.locks[lock].note_missed_notices(at);
            self.set_lock_timer(lock);
        }
    }

    /// The server is known now, of a client that was made before: releases are announced by this command.
    pub fn handle_met(&mut self, publish: Bytes) {
        self.settings.publish = publish;
    }
}

#[cfg(test)]
mod tests;
