//! The first acquire of a hold: its call, and the meaning of each reply for its request.

use super::Session;
use super::deadline::Deadline;
use super::hold::{Aim, Hold};
use super::ids::LockId;
use super::lock::Anomaly;
use super::request::{Granted, Place, Request, Step, Ticket, Trouble, Via};
use crate::command::fair::Standing;
use crate::command::{Acquired, Kind, Line};
use crate::error::{AcquireError, LossReason};
use crate::hold_cell::HoldCell;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::time::Instant;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

impl Session {
    /// Sends a first acquire, unless one is still being settled.
    pub(super) fn send_first(
        &mut self,
        now: Instant,
        ticket: Ticket,
        via: Via,
    ) -> Option<Step<Result<Option<Granted>, AcquireError>>> {
        let number = match self.acquire_of(ticket)?.hold {
            Some(number) => number,
            None => self.begin_hold(now, ticket)?,
        };
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.asks = acquire.asks.saturating_add(1);
        }
        self.note_crossing(ticket);
        self.begin_anew(now, ticket, number);
        let hold = self.holds.get(&number).filter(|hold| hold.change.is_none())?;
        let lease = hold.lease.min(hold.deadline.latest().since(now)).max(Duration::from_millis(1));
        // A copy of an acquire without a lease would take for good if it came when no request waits for it any more. So it always has a
        // limit; a client that does not know the server's time is told it by a refusal.
        let leased = self.verbs_of(number).renewal().is_some();
        let limit = if leased {
            self.settings.not_after.then(|| self.not_after(now))
        } else {
            Some(self.not_after(now).max(1))
        };
        let call = self.ask(number, ticket, 1, lease, limit)?;
        Some(Step::Send(self.begin_change(now, number, Some(ticket), Aim::Raise(1), via, &call), call))
    }

    /// A hold that waited in a queue is held from its grant on, and not from when it came.
    fn begin_anew(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let most = self.acquire_of(ticket).and_then(|acquire| acquire.wish.max_hold);
        if let Some(hold) = self.holds.get_mut(&number).filter(|hold| hold.placed && hold.change.is_none()) {
            let latest = most.map_or(Instant::FAR_FUTURE, |most| now + most);
            hold.deadline = Deadline::until(latest);
            hold.cell = Arc::new(HoldCell::new(hold.cell.key().clone(), now, latest));
        }
    }

    /// Takes the outcome of a first acquire.
    pub(super) fn handle_first_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) {
        let Some((change, outcome)) = self.raise_ends(now, ticket, number, result) else { return };
        let Some(hold) = self.holds.get_mut(&number) else { return };
        match outcome {
            Ok(Acquired::Held { left, time, token, in_all }) => {
                hold.count.set_on_server(1);
                hold.placed = false;
                hold.cell.set_token(token);
                if let Some(error) = change.shortfall() {
                    self.note_time(change.sent_at, time);
                    self.undo(now, ticket, number, error);
                    return;
                }
                hold.cell.set_acknowledged(change.acknowledged);
                hold.extend(change.sent_at, left);
                hold.deadline.note_reply(now);
                self.note_time(change.sent_at, time);
                let beside = self.acquire_of(ticket).and_then(|acquire| acquire.beside.clone());
                self.first_grant(now, ticket, number, left);
                self.lose_what_a_grant_excludes(now, number, change.sent_at, beside.as_ref());
                self.look_where_permits_are_missing(now, number, change.sent_at, in_all);
            }
            Ok(Acquired::Busy { left, time }) => {
                self.note_time(change.sent_at, time);
                self.nothing_begun(now, ticket, number);
                self.note_endless(ticket, left);
                self.busy(now, ticket, left);
            }
            Ok(Acquired::Unset { time }) => {
                self.note_time(change.sent_at, time);
                self.nothing_begun(now, ticket, number);
                self.note_anomaly(ticket, Some(Anomaly::Unset));
                self.busy(now, ticket, None);
            }
            Ok(Acquired::TooLate { time }) => {
                self.note_time(change.sent_at, time);
                self.nothing_begun(now, ticket, number);
                if self.may_go_again(ticket, change.sent_at) {
                    self.go_again(now, ticket);
                    return;
                }
                self.note_trouble(now, ticket, "the server received the command too late", false);
                self.back_off(now, ticket);
            }
            Ok(Acquired::Kind(kind)) => {
                self.nothing_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::KeyConflict(kind));
            }
            Ok(Acquired::Placed { left, time, moved, head, foreign }) => {
                self.note_time(change.sent_at, time);
                self.placed(now, ticket, number, moved, Standing { left, time, head, foreign });
            }
            Ok(Acquired::Withdrawn) => {
                self.nothing_begun(now, ticket, number);
                self.note_trouble(now, ticket, "the server had a withdrawal of this hold", false);
                self.back_off(now, ticket);
            }
            Ok(Acquired::UpgradeNotSupported) => {
                self.nothing_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::UpgradeNotSupported);
            }
            Ok(Acquired::ExceedsCapacity { capacity }) => {
                self.nothing_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::ExceedsCapacity { capacity });
            }
            // Neither can answer a first acquire of a hold that was never granted: the server is not what we think it is.
            Ok(Acquired::Mismatch | Acquired::Lost) => {
                self.fail_acquire(now, ticket, AcquireError::OutcomeUnknown("the hold count is not ours".to_owned()));
            }
            Err(LinkError::Refused(error)) if !error.proves_nothing_done() || !error.is_transient() => {
                let text = error.text().to_owned();
                // The refusal speaks for this copy only.
                let unsure = self.acquire_of(ticket).is_some_and(|acquire| acquire.trouble.unsure);
                let told = if unsure { AcquireError::OutcomeUnknown(text) } else { AcquireError::Refused(text) };
                if !error.proves_nothing_done() {
                    self.undo_refused(now, ticket, number, told);
                    return;
                }
                if error.is_out_of_memory() {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                self.fail_acquire(now, ticket, told);
            }
            Err(error) => {
                if matches!(error, LinkError::Refused(_)) {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                if error.is_worth_going_again() && self.may_go_again(ticket, change.sent_at) {
                    self.go_again(now, ticket);
                    return;
                }
                self.failed_for_now(now, ticket, &change, &error);
            }
        }
    }

    /// The lock is the caller's, unless the grant came too late to be worth anything.
    pub(super) fn first_grant(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, left: Duration) {
        let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) else { return };
        let Some(hold) = self.holds.get_mut(&number) else { return };
        acquire.hold = None;
        hold.raising = None;
        if now >= hold.cell.deadline() {
            self.granted_too_late(now, ticket, number);
            return;
        }
        hold.granted = true;
        hold.count.add_guard(acquire.wish.renewed);
        hold.cell.set_count(1);
        hold.cell.set_renewed(hold.count.renewing());
        let granted = Granted { hold: number, cell: hold.cell.clone(), count: 1, renewed: acquire.wish.renewed };
        acquire.outcome = Some(Ok(Some(granted)));
        let (lock, owner, place, permits) = (hold.lock, hold.owner, acquire.place, hold.cell.key().permits);
        if self.locks[lock].kind.verbs().line() == Line::Gate {
            self.gate_opens(now, ticket, number, lock);
            return;
        }
        self.locks[lock].held += 1;
        self.locks[lock].permits += u64::from(permits);
        self.locks[lock].anomaly = None;
        self.leave_queue(ticket, lock);
        self.schedule_renewal(now, number);
        self.set_hold_timer(number);
        if let Some(owner) = owner {
            self.own(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
            self.admit_readers(now, lock, owner);
        }
        if place == Place::Line {
            self.locks[lock].trouble = Trouble::default();
            self.contender_got_in(now, ticket, lock, left);
        }
    }

    /// A grant proves that the server has no other hold that it excludes. Such a hold of this client is lost, unless the server may have
    /// granted or renewed it later than the grant: then its last reply came after the grant was asked for.
    ///
    /// A reader excludes writers alone, but not the one `beside` whom it was let in.
    fn lose_what_a_grant_excludes(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        beside: Option<&Bytes>,
    ) {
        let Some(lock) = self.holds.get(&number).filter(|hold| hold.is_live()).map(|hold| hold.lock) else { return };
        let is_reader = self.locks[lock].kind == Kind::Read;
        if !is_reader && !matches!(self.locks[lock].kind.verbs().line(), Line::Exclusive | Line::Places) {
            return;
        }
        let same: Vec<LockId> = self.same_name(lock).collect();
        if same.iter().map(|at| self.locks[*at].held).sum::<usize>() < 2 {
            return;
        }
        let is_excluded = |other: &HoldNumber, hold: &Hold| {
            let certain =
                hold.is_live() && !hold.degraded && hold.change.is_none() && hold.deadline.is_older_than(sent_at);
            let conflicts =
                !is_reader || (self.locks[hold.lock].kind == Kind::Write && beside != Some(&hold.cell.key().field));
            *other != number
                && certain
                && conflicts
                && same.contains(&hold.lock)
                && self.locks[hold.lock].keys.keys[0] == self.locks[lock].keys.keys[0]
        };
        let lost: Vec<HoldNumber> =
            self.holds.iter().filter(|(other, hold)| is_excluded(other, hold)).map(|(other, _)| *other).collect();
        for other in lost {
            self.lose(now, other, LossReason::Removed);
            self.attend(now, other);
        }
    }

    /// A grant of permits tells how many the server knows to be held. If this client alone believes in more, some of its holds are gone:
    /// the server is asked at once which. Holds whose last reply came after the grant was asked for do not count, as above.
    fn look_where_permits_are_missing(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        in_all: Option<u64>,
    ) {
        let (Some(in_all), Some(lock)) = (in_all, self.holds.get(&number).map(|hold| hold.lock)) else { return };
        if self.locks[lock].permits <= in_all {
            return;
        }
        let counts = |other: &HoldNumber, hold: &Hold| {
            let certain = hold.is_live() && hold.change.is_none() && hold.deadline.is_older_than(sent_at);
            hold.lock == lock && (*other == number || certain)
        };
        let believed = self.holds.iter().filter(|(other, hold)| counts(other, hold));
        let believed: u64 = believed.map(|(_, hold)| u64::from(hold.cell.key().permits)).sum();
        if believed > in_all {
            let name = self.locks[lock].name.clone();
            self.look_again(now, name.as_str());
        }
    }

    /// The grant is taken back: its lease may be over at any time. A caller that has no further attempt is told when it is taken back.
    fn granted_too_late(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let why = "the server's reply took longer than the lease";
        if self.acquire_of(ticket).is_some_and(|acquire| acquire.last || self.end_of_wish(acquire) <= now) {
            self.undo(now, ticket, number, AcquireError::Unreachable(why.to_owned()));
            return;
        }
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.clean_up.by_lifeline = true;
        }
        self.attend(now, number);
        self.note_trouble(now, ticket, why, false);
        self.back_off(now, ticket);
    }

    /// The gate is open for all, and there is nothing to hold.
    fn gate_opens(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let granted = self.acquire_of_mut(ticket).and_then(|acquire| acquire.outcome.clone());
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.granted = false;
            hold.count.clear();
        }
        self.attend(now, number);
        let waiting: Vec<Ticket> = self.locks[lock].queue.iter().collect();
        if let Some(granted) = granted {
            for other in waiting {
                self.finish_acquire(now, other, granted.clone());
            }
        }
        self.locks[lock].trouble = Trouble::default();
        self.leave_queue(ticket, lock);
        self.contender_got_in(now, ticket, lock, Duration::ZERO);
    }

    /// Nothing of the request's hold is on the server.
    pub(super) fn nothing_begun(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.hold = None;
            acquire.trouble.unsure = false;
        }
        let pause = self.settings.command_timeout * 2;
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.count.set_on_server(0);
            hold.raising = None;
            if hold.clean_up.unproven {
                hold.expect_late_copies(now + pause);
            }
        }
        self.attend(now, number);
    }

    /// The call was not applied; an earlier copy of it may have been, or an earlier call may have left a place.
    pub(super) fn forget_first(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let unsure = self.acquire_of(ticket).is_some_and(|acquire| acquire.trouble.unsure);
        let placed = self.holds.get(&number).is_some_and(|hold| hold.placed);
        if !unsure && !placed {
            self.nothing_begun(now, ticket, number);
        }
    }

    /// The server refused the call for the moment, and left no record of that. A copy that comes when it refuses no longer would take for
    /// good what has no lease, so such a hold is given up as if it had been granted.
    fn forget_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let verbs = self.verbs_of(number);
        let unsure = self.acquire_of(ticket).is_some_and(|acquire| acquire.trouble.unsure);
        if unsure || verbs.renewal().is_some() || verbs.line() == Line::Gate {
            self.forget_first(now, ticket, number);
            return;
        }
        if let Some(acquire) = self.acquire_of_mut(ticket) {
            acquire.hold = None;
        }
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.raising = None;
            hold.expect_late_copies(now);
        }
        self.attend(now, number);
    }

    /// The server time after which a first grant that is sent now may refuse itself; 0 while the server's clock is unknown.
    pub(super) fn not_after(&self, now: Instant) -> u64 {
        self.server_clock.map_or(0, |(time, at)| {
            let millis = (now.since(at) + self.settings.command_timeout).as_millis();
            time.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
        })
    }

    /// Remembers the server's time. It was read after the call was sent, so what is reckoned from it is never behind.
    pub(super) fn note_time(&mut self, sent_at: Instant, time: Option<u64>) {
        if let Some(time) = time {
            self.server_clock = Some((time, sent_at));
        }
    }
}
