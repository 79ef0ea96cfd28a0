//! Unreachable servers: outages, grants without the server, and restoring those grants on the server.
//!
//! A caller chooses what its acquire does while the server is out of reach: fail, take the lock within this client, or proceed with a guard
//! that excludes nobody. A hold that is granted without the server is **degraded**: its count on the server is 0. If it excludes the other
//! tasks of this client, the background asks the server again until the server grants the hold too, or refuses it: then the hold is lost.
//!
//! Two tasks of this client must never hold the lock at once. So once a request has chosen [`Fallback::Local`], all requests for the lock pass a
//! **gate** within the client, whether the server is in reach or not. The gate is shut while a task has the lock. A request checks it before it asks
//! the server, before it goes on without the server, and when the server grants a call that left before the gate was shut.

use crate::call::Replicas;
use crate::command::{Acquired, Kind};
use crate::error::{AcquireError, LossReason};
use crate::link::{LinkError, not_connected};
use crate::name;
use crate::owner::HoldNumber;
use crate::session::calls::CallResult;
use crate::session::hold::{HoldState, deadline_of};
use crate::session::line::{End, Phase};
use crate::session::lock::LockId;
use crate::session::request::{Route, Stage};
use crate::session::{Event, Fallback, Patience, Session, Ticket};
use crate::time::Instant;
use std::time::Duration;

/// Maximum pause before a degraded hold is requested from the server again. The minimum is half of it.
pub(super) const RESTORE_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Outage {
    pub(super) server: String,
    /// When its connection was lost.
    pub(super) since: Instant,
    pub(super) why: String,
    /// The slots that it owns, sorted; `None` if it owns all.
    pub(super) slots: Option<Vec<u16>>,
}

impl Outage {
    fn concerns(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.binary_search(&name::slot(key)).is_ok())
    }

    /// Adds the outage to the text about the other failures of the server.
    pub(super) fn added_to(&self, since: Option<Instant>, text: String) -> String {
        let told = not_connected(&self.server, &self.why).to_string();
        match since {
            None => told,
            Some(_) if text.contains(&told) => text,
            Some(_) => format!("{text}; {told}"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Since when all first acquires have failed.
    pub(super) seen_since: Option<Instant>,
    /// The outages that the link has reported.
    known: Vec<Outage>,
}

impl Outages {
    pub(super) fn of(&self, key: &[u8]) -> Option<&Outage> {
        self.known.iter().find(|outage| outage.concerns(key))
    }

    pub(super) fn end(&mut self, server: &str) -> Option<Outage> {
        let at = self.known.iter().position(|outage| outage.server == server)?;
        Some(self.known.swap_remove(at))
    }
}

impl Session {
    /// Whether the link has reported a server as out of reach, and not yet as connected.
    pub const fn is_out_of_reach(&self) -> bool {
        !self.outages.known.is_empty()
    }

    /// Ends an acquire that cannot reach the server: by its fallback if no call can have been applied, otherwise by an error. The fallback
    /// waits for another task of this client that has the lock.
    pub(super) fn end_unreachable(&mut self, now: Instant, ticket: Ticket) {
        let error = self.failure_error(ticket);
        if !matches!(error, AcquireError::Unreachable(_)) || !self.falls_back(now, ticket) {
            self.fail_acquire(now, ticket, error);
        } else if self.is_gated(self.requests[ticket].lock) {
            self.wait_at_gate(now, ticket);
        } else {
            self.degrade(now, ticket);
        }
    }

    /// Whether a request proceeds without the server now. Its failed call certainly was not applied.
    pub(super) fn falls_back(&mut self, now: Instant, ticket: Ticket) -> bool {
        let seen = *self.outages.seen_since.get_or_insert(now);
        let acquire = &self.requests[ticket];
        let since = self.outage_of(acquire.lock).map_or(seen, |outage| seen.min(outage.since));
        let first = acquire.entering().is_none() && acquire.beside().is_none();
        let nothing_there = acquire
            .hold
            .and_then(|number| self.holds.get(number))
            .is_none_or(|hold| hold.count.on_server == 0 && hold.change.is_none());
        acquire.request.fallback != Fallback::Fail
            && first
            && nothing_there
            && !acquire.failures.is_outcome_unknown()
            && now >= since + self.settings.unreachable_after
    }

    pub(super) fn degrade(&mut self, now: Instant, ticket: Ticket) {
        let begun = self.requests[ticket].hold;
        let number = begun.unwrap_or_else(|| self.begin_hold(now, ticket));
        let acquire = &mut self.requests[ticket];
        let hold = &mut self.holds[number];
        let renewed = acquire.request.renewed;
        let restore_at = (acquire.request.fallback == Fallback::Local).then_some(now + RESTORE_INTERVAL);
        hold.grant_locally(now, renewed, restore_at);
        let granted = hold.granted(number, renewed);
        acquire.hold = None;
        acquire.stage = match restore_at {
            Some(until) => Stage::Granted(granted, until),
            None => Stage::Ended(Ok(Some(granted))),
        };
        let lock = hold.lock;
        self.locks[lock].add_held(hold.permits());
        self.locks[lock].line.queue.remove(ticket);
        self.out.emit(Event::Degraded(self.locks[lock].name.clone()));
        self.finish_grant(now, ticket, number, Duration::ZERO);
        self.wake(ticket);
    }

    /// Re-enters a hold that was granted without the server; the server does not count its guards. An acquire without a
    /// fallback fails while the hold is degraded, because its caller relies on the server's grant.
    pub(super) fn enter_by_itself(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let acquire = &self.requests[ticket];
        let needs_server = acquire.request.fallback == Fallback::Fail;
        let is_degraded = self.holds.get(number).is_some_and(|hold| hold.state.is_degraded());
        match acquire.request.replicas {
            None if needs_server && is_degraded => {
                let why =
                    "the owner's hold was granted without the server, and this acquire has no fallback".to_owned();
                self.fail_acquire(now, ticket, AcquireError::Unreachable(why));
            }
            None => self.grant_entry(now, ticket, number),
            // A replica has no write to acknowledge.
            Some(Replicas { at_least: wanted, .. }) => {
                self.fail_acquire(now, ticket, AcquireError::NotReplicated { acknowledged: 0, wanted });
            }
        }
    }
}

/// The gate of a lock within this client.
impl Session {
    /// Whether a task of this client has the lock, and all requests take the lock within the client first.
    pub(super) fn is_gated(&self, lock: LockId) -> bool {
        self.is_local(lock) && self.excluders(lock).any(|at| self.locks[at].permits > 0)
    }

    /// Whether any request for the lock or its other half takes the lock within this client first.
    pub(super) fn is_local(&self, lock: LockId) -> bool {
        self.locks.same_name(lock).any(|at| self.locks[at].is_local)
    }

    /// The locks whose holders exclude a hold of this one: the lock itself, and the other half. Readers do not exclude readers.
    fn excluders(&self, lock: LockId) -> impl Iterator<Item = LockId> {
        let (itself, other_half) = match self.locks[lock].kind {
            Kind::Read => (None, self.locks.sibling(lock, Kind::Write)),
            Kind::Write => (Some(lock), self.locks.sibling(lock, Kind::Read)),
            _ => (Some(lock), None),
        };
        itself.into_iter().chain(other_half)
    }

    /// A request waits here for the task of this client that has the lock, and does not ask the server.
    pub(super) fn wait_at_gate(&mut self, now: Instant, ticket: Ticket) {
        let acquire = &mut self.requests[ticket];
        acquire.failures.forget_failures();
        let (lock, owner, in_line) = (acquire.lock, acquire.request.owner, acquire.route == Route::Queued);
        let ended = acquire.has_ended() || acquire.is_withdrawing();
        if in_line {
            self.close_gate(lock);
        }
        if ended {
            return;
        }
        if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            return self.enter_instead(now, ticket, number);
        }
        let acquire = &self.requests[ticket];
        if let Some(beside) = self.own_other_half(acquire) {
            return self.stand_beside(now, ticket, beside);
        }
        let is_over = acquire.is_final_attempt || acquire.wait_deadline(self.settings.command_timeout) <= now;
        if acquire.request.patience == Patience::Try || is_over {
            self.end_busy(now, ticket);
        } else if in_line {
            self.begin_to_wait(now, ticket);
        } else {
            // The other half, beside which the request asked, has ended.
            self.requests[ticket].stand_beside(None);
            self.join_line(now, ticket, End::Back);
        }
    }

    /// Makes the line wait for a task of this client instead of the server. A contender with a call in flight stops at its reply.
    fn close_gate(&mut self, lock: LockId) {
        self.locks[lock].forget_failures();
        let line = &self.locks[lock].line;
        let asks = line.contender.is_some_and(|contender| self.is_under_way(contender));
        if !asks && !line.is_empty() {
            self.locks[lock].line.phase = Phase::Gated;
        }
        self.set_lock_timer(lock);
    }

    /// The server has been out of reach for too long. If a task of this client has the lock, the line waits for that task. Returns whether
    /// it does.
    pub(super) fn waits_at_gate(&mut self, now: Instant, lock: LockId) -> bool {
        if !self.is_gated(lock) {
            return false;
        }
        self.close_gate(lock);
        if self.locks[lock].line.phase == Phase::Gated
            && let Some(contender) = self.locks[lock].line.contender
        {
            self.wait_at_gate(now, contender);
        }
        true
    }

    /// Gives a grant back to the server, because a task of this client holds the lock in degraded mode. The request waits for that task.
    pub(super) fn return_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let hold = &mut self.holds[number];
        hold.raising = None;
        hold.clean_up.by_background = true;
        let lock = hold.lock;
        // Restoration can succeed only after the server has released this hold.
        for keeper in self.keepers(lock) {
            let hold = &mut self.holds[keeper];
            if hold.renew_at.is_some() {
                hold.restore_at(now + RESTORE_INTERVAL);
                self.set_hold_timer(keeper);
            }
        }
        self.reconcile(now, number);
        self.requests[ticket].hold = None;
        self.wait_at_gate(now, ticket);
    }

    /// The degraded holds that shut the gate.
    pub(super) fn keepers(&self, lock: LockId) -> Vec<HoldNumber> {
        self.holds_where(|hold| hold.is_restorable() && self.excluders(lock).any(|at| at == hold.lock))
    }
}

/// Restores degraded holds.
impl Session {
    pub(super) fn restore(&mut self, now: Instant, number: HoldNumber) {
        self.restore_later(now, number);
        let lock = self.holds[number].lock;
        let leftovers = self.leftovers(lock);
        let has_change = self.holds[number].change.is_some();
        if has_change || !leftovers.is_empty() {
            for leftover in leftovers {
                // A waiting request withdraws a hold that its earlier acquire may have left: it waits for the degraded hold, which cannot be
                // restored before.
                let idle = self.holds.get(leftover).filter(|hold| hold.change.is_none());
                if let Some(ticket) = idle.and_then(|hold| hold.raising) {
                    self.requests[ticket].hold = None;
                    self.abandon_hold(now, ticket, leftover);
                }
            }
            return;
        }
        let hold = &mut self.holds[number];
        hold.renew_at = None;
        // A fixed lease keeps its end.
        let lease = hold.lease.min(hold.cell.deadline().since(now)).max(Duration::from_millis(1));
        self.send_acquire(now, number, None, 1, lease, None);
    }

    /// Plans the next attempt, unless the hold is not to be restored any more.
    fn restore_later(&mut self, now: Instant, number: HoldNumber) {
        let again = now + RESTORE_INTERVAL / 2 + self.jitter(RESTORE_INTERVAL / 2);
        self.holds[number].restore_at(again);
    }

    /// The holds that the server may still have and that are being rolled back: the release has no reply yet, or the acquire was
    /// abandoned. Then the server would report the lock as busy. A waiter's place is not a hold.
    fn leftovers(&self, lock: LockId) -> Vec<HoldNumber> {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        // Most holds are the only use of their lock, and a client may have thousands of holds.
        if same.iter().map(|lock| self.locks[*lock].refs).sum::<u32>() <= 1 {
            return Vec::new();
        }
        self.holds_where(|hold| {
            let by = hold.change.as_ref().and_then(|change| change.by);
            let is_requested = by.is_some_and(|ticket| self.requests.acquire(ticket).is_some());
            let is_left = hold.count.on_server > 0 && hold.count.wanted == 0 && !hold.state.is_queued();
            same.contains(&hold.lock) && is_left && !is_requested
        })
    }

    pub(super) fn handle_restored(&mut self, now: Instant, number: HoldNumber, result: CallResult) {
        let outcome = self.raised(number, result);
        self.restore_later(now, number);
        if let Err(LinkError::Unknown(_)) = &outcome {
            self.begin_settling(number);
            return self.set_hold_timer(number);
        }
        let Some(change) = self.end_change(number) else { return };
        self.lose_if_passed(now, number);
        let hold = &mut self.holds[number];
        match outcome {
            // Too few replicas: a failover could undo the hold. Retry, or release it with its guard.
            Ok(Acquired::Held { .. }) if hold.is_live() && change.shortfall().is_some() => hold.extend_clean_up(now),
            Ok(Acquired::Held { left, .. }) if hold.is_live() => {
                debug_assert_eq!(hold.state, HoldState::Degraded, "no other hold is restored");
                hold.state = HoldState::Restored;
                hold.last_reply_at = now;
                hold.cell.set_degraded(false);
                hold.cell.set_acknowledged(change.acknowledged);
                // The deadline never moves later: a guard relies on the earlier one.
                hold.cell.set_deadline(deadline_of(change.sent_at, left).min(hold.cell.deadline()));
                hold.extend_clean_up(now);
                if hold.has_passed(now) {
                    self.lose_by_deadline(now, number);
                    return self.reconcile(now, number);
                }
                self.out.emit(Event::Restored(self.locks[hold.lock].name.clone()));
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
            Err(_) => hold.count.on_server = change.before,
        }
        self.reconcile(now, number);
    }
}

/// Events of the link.
impl Session {
    pub(super) fn begin_outage(&mut self, now: Instant, outage: Outage) {
        self.outages.end(&outage.server);
        let concerned =
            self.holds.iter().map(|(_, hold)| hold).filter(|hold| hold.is_live() && !hold.state.is_degraded());
        let (mut holds, mut first) = (0, Instant::FAR_FUTURE);
        for hold in concerned.filter(|hold| outage.concerns(self.locks[hold.lock].name.key())) {
            holds += 1;
            first = first.min(hold.cell.deadline());
        }
        let first_lost_in = (first != Instant::FAR_FUTURE).then(|| first.since(now));
        let (server, why) = (outage.server.clone(), outage.why.clone());
        self.outages.known.push(outage);
        self.out.emit(Event::OutOfReach { server, why, holds, first_lost_in });
        let waited_for: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        waited_for.into_iter().for_each(|lock| self.set_lock_timer(lock));
        let open = self.requests.acquires().filter(|(_, acquire)| acquire.is_open());
        let open: Vec<_> = open.map(|(ticket, _)| ticket).collect();
        open.into_iter().for_each(|ticket| self.set_request_timer(now, ticket));
    }
}

#[cfg(test)]
mod tests;
