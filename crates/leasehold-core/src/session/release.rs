//! Releases, and the clean-up of what the server has and no caller wants.
//!
//! A future sends the release of its guard itself. The background lowers a count that no future lowers: after a dropped future or guard,
//! a failed release, or an abandoned acquire. [`Session::reconcile`] decides what a hold needs, and [`ToLower`] limits the lowerings in flight.

use crate::command::operation::MEMORY;
use crate::command::{Kind, ReleaseArgs, Released, WaitPolicy};
use crate::error::{HoldEnd, LossReason, ReleaseError};
use crate::link::{LinkError, ServerError};
use crate::owner::HoldNumber;
use crate::session::calls::CallResult;
use crate::session::hold::{CountChange, Hold};
use crate::session::line::End;
use crate::session::lock::LockId;
use crate::session::request::{Acquire, RequestKind};
use crate::session::transfer::Linger;
use crate::session::{Event, Failure, Session, Ticket, Timer, Window, pause_before};
use crate::time::Instant;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Keeps the lock of a hold busy until `until`, even if its guards are released or dropped earlier. Does nothing for a kind without
    /// this feature.
    pub fn keep_busy(&mut self, number: HoldNumber, until: Instant) {
        if self.protocol_of(number).may_be_kept()
            && let Some(hold) = self.holds.get_mut(number)
        {
            let busy_until = &mut hold.extras.get_or_insert_default().busy_until;
            *busy_until = (*busy_until).max(Some(until));
        }
    }

    /// Releases one guard of a hold. The release completes even if the caller does not wait for its outcome.
    ///
    /// `renewed` is whether this guard wanted the hold to be renewed.
    pub fn release(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        let mut outcome = None;
        if self.hand_over_or_linger(now, number, renewed) {
            outcome = Some(Ok(()));
        } else if !self.holds.contains(number) {
            // The number of a live guard finds its hold, unless the session ends first.
            outcome = Some(Err(ReleaseError::Lost(LossReason::ShutDown)));
        } else if let Some(HoldEnd::Lost(reason)) = self.take_guard(now, number, renewed) {
            self.clean_up_by_background(now, number);
            outcome = Some(Err(ReleaseError::Lost(reason)));
        }
        self.requests.insert(ticket, RequestKind::Release { hold: number, outcome });
        ticket
    }

    /// Polls a release. The ticket is invalid once this is ready.
    pub fn poll_release(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Result<(), ReleaseError>> {
        let Some(request) = self.requests.0.get_mut(ticket) else { return Poll::Ready(Ok(())) };
        let RequestKind::Release { hold: number, outcome } = &mut request.kind else { return Poll::Ready(Ok(())) };
        let number = *number;
        let Some(hold) = self.holds.get_mut(number).filter(|_| outcome.is_none()) else {
            // Without an outcome, another release of the same hold has released it.
            let outcome = outcome.take().unwrap_or(Ok(()));
            self.remove_request(ticket);
            return Poll::Ready(outcome);
        };
        if hold.change.is_none() && !hold.count.is_high() {
            self.remove_request(ticket);
            self.reconcile(now, number);
            return Poll::Ready(Ok(()));
        }
        request.waker = Some(waker.clone());
        if hold.change.is_none() && hold.is_high() && !hold.clean_up.by_background {
            let (lock, is_last) = (hold.lock, hold.count.wanted == 0);
            self.send_release(now, number, Some(ticket));
            if is_last {
                self.ask_ahead(lock);
            }
            return Poll::Pending;
        }
        if hold.is_flying_by(ticket) {
            return Poll::Pending;
        }
        hold.wait(ticket);
        // The background does not depend on being polled.
        hold.clean_up.by_background = true;
        self.limit_wait(now, ticket, number);
        self.reconcile(now, number);
        Poll::Pending
    }

    pub(super) fn finish_release(&mut self, ticket: Ticket, outcome: Result<(), ReleaseError>) {
        let Some(request) = self.requests.0.get_mut(ticket) else { return };
        if let RequestKind::Release { outcome: known, .. } = &mut request.kind {
            known.get_or_insert(outcome);
            self.wake(ticket);
        }
    }

    pub(super) fn give_up_release(&mut self, ticket: Ticket, number: HoldNumber, why: &str) {
        // Another copy of the command may be in flight.
        let unsure =
            self.holds.get(number).is_some_and(|hold| hold.clean_up.is_perhaps_lowered || hold.change.is_some());
        let why = why.to_owned();
        let error = if unsure { ReleaseError::OutcomeUnknown(why) } else { ReleaseError::Unreachable(why) };
        self.finish_release(ticket, Err(error));
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
    }

    /// Drops the future of a release; the background completes the release.
    pub fn abandon_release(&mut self, now: Instant, ticket: Ticket) {
        let Some(request) = self.requests.0.get(ticket) else { return };
        let RequestKind::Release { hold: number, .. } = request.kind else { return };
        self.remove_request(ticket);
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
        self.clean_up_by_background(now, number);
    }

    /// Releases a dropped guard in the background.
    pub fn drop_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        if !self.hand_over_or_linger(now, number, renewed) {
            self.take_guard(now, number, renewed);
            self.clean_up_by_background(now, number);
        }
    }

    /// Gives up a guard without a release: it no longer renews the lease, and the lease ends by time.
    pub fn detach(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        if self.end_guard(now, number, renewed, HoldEnd::Detached) {
            self.reconcile(now, number);
        }
    }

    /// Removes a guard. Returns how the hold has ended, if it has.
    pub(super) fn take_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<HoldEnd> {
        if self.end_guard(now, number, renewed, HoldEnd::Released) && self.protocol_of(number).may_be_prolonged() {
            // Time alone does not prove that the server has nothing of the hold.
            self.extend_clean_up(now, number);
        }
        self.holds.get(number)?.end()
    }

    /// Ends a guard; returns false if there is none. After the last guard nobody re-enters the hold any more: requests that were about to
    /// re-enter it acquire anew.
    fn end_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool, end: HoldEnd) -> bool {
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.get_mut(number).filter(|hold| hold.count.has_guards()) else { return false };
        hold.count.end_guard(renewed, end == HoldEnd::Detached);
        hold.cell.set_renewed(hold.count.renewing);
        if !hold.count.is_renewed() {
            if renewed {
                hold.reckon_locally(now);
            }
            if !hold.is_restorable() {
                hold.renew_at = None;
            }
        }
        if !hold.count.has_guards() {
            hold.cell.end(end, &mut self.out.woken);
            let (lock, owner, permits, waiting) = (hold.lock, hold.owner, hold.permits(), hold.take_waiting());
            if let Some(owner) = owner {
                self.owners.change(lock, owner, |owned| owned.holds.retain(|held| *held != number));
            }
            self.locks[lock].remove_held(permits);
            self.open_gates(now, lock);
            self.drop_unwanted_notices(lock);
            for ticket in waiting {
                if self.requests.acquire(ticket).is_some_and(|acquire| !acquire.is_withdrawing()) {
                    self.join_line(now, ticket, End::Back);
                } else {
                    self.holds[number].wait(ticket);
                }
            }
        }
        self.set_hold_timer(number);
        true
    }

    pub(super) fn handle_lowered(&mut self, now: Instant, number: HoldNumber, result: CallResult) {
        let protocol = self.protocol_of(number);
        let decode = |reply| protocol.released(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let released = match result.and_then(decode) {
            Ok(released) => released,
            Err(error) => return self.lowering_failed(now, number, &error),
        };
        let Some(change) = self.end_change(number) else { return };
        let CountChange::LowerTo(target) = change.aim else { return };
        if let (Released::EndedBefore(listeners), Some(hold)) = (released, self.holds.get(number)) {
            self.note_listeners(hold.lock, listeners);
        }
        let hold = &mut self.holds[number];
        // If the call asked for a millisecond or more, an earlier copy would still keep the lock busy, and the reply would show it.
        let would_be_kept = hold.left_of_least_time(now) >= Duration::from_millis(1);
        let in_time = hold.was_released_in_time() && !would_be_kept;
        let gone = released == Released::Gone;
        // A hold that is gone was released by an earlier copy inside a proven lease, or never existed on the server.
        let is_lost = gone && !(in_time && target == 0) && !hold.state.is_degraded();
        let outcome = if is_lost { Err(ReleaseError::Lost(LossReason::Removed)) } else { Ok(()) };
        let in_places = self.locks[hold.lock].wait_policy() == WaitPolicy::ServerQueue;
        let done = hold.note_lowered(now, if gone { 0 } else { target }, in_places);
        // If more guards ended in the meantime, the waiting releases wait for the lower count.
        let waiting = if done { hold.take_waiting() } else { Vec::new() };
        let name = self.locks[hold.lock].name.clone();
        let was_released = change.by.is_some() || waiting.iter().any(|ticket| self.requests.is_release(*ticket));
        let repeated = hold.clean_up.repeats != Repeats::No;
        // A hold without a lease leaves a record, which refuses late copies of its acquire.
        let leased = self.locks[hold.lock].protocol().renewal().is_some();
        // A late copy of the acquire could take a lease that nobody wants.
        let may_come_back = hold.clean_up.is_unproven && hold.count.wanted == 0 && now < hold.clean_up.until;
        if leased && may_come_back {
            hold.expect_late_copies(now + self.settings.command_timeout * 2);
        }
        if gone && hold.is_live() {
            self.lose(now, number, LossReason::Removed);
        } else if is_lost && was_released {
            self.out.emit(hold.lost(now, name.clone(), LossReason::Removed));
        }
        if change.by.is_none() && waiting.is_empty() && !repeated {
            self.out.emit(Event::CleanedUp(name));
        }
        self.finish_waiting(now, number, change.by.into_iter().chain(waiting), &outcome);
        self.reconcile(now, number);
    }

    /// Ends the wait of requests for the hold's count: releases end, and acquires go on.
    fn finish_waiting(
        &mut self,
        now: Instant,
        number: HoldNumber,
        tickets: impl IntoIterator<Item = Ticket>,
        outcome: &Result<(), ReleaseError>,
    ) {
        for ticket in tickets {
            self.finish_release(ticket, outcome.clone());
            self.note_withdrawn(now, ticket, number);
            self.wake(ticket);
        }
    }

    /// The background repeats a failed lowering.
    fn lowering_failed(&mut self, now: Instant, number: HoldNumber, error: &LinkError) {
        let hold = &mut self.holds[number];
        let Some(change) = &hold.change else { return };
        // Later releases want a lower count: they wait for a command of their own.
        let (by, superseded) = (change.by, change.aim.target() > hold.count.wanted);
        let others = hold.waiting().filter(|_| !superseded);
        let releases = by.into_iter().chain(others).filter(|ticket| self.requests.is_release(*ticket));
        let releases: Vec<Ticket> = releases.collect();
        hold.note_failed_lowering(now);
        if let Some(ticket) = by {
            hold.wait(ticket);
        }
        match error {
            LinkError::Unknown(_) => self.begin_settling(number),
            LinkError::Refused(refusal) if !refusal.is_transient() => {
                if superseded {
                    hold.clean_up.not_before = now;
                }
                self.lowering_refused(now, number, refusal, &releases);
            }
            LinkError::NotSent(_) | LinkError::Refused(_) => {
                self.end_change(number);
            }
        }
        if releases.is_empty()
            && let Some(hold) = self.holds.get_mut(number)
        {
            let lasting = error.is_lasting() && hold.note_refusal();
            let name = self.locks[hold.lock].name.clone();
            self.out.emit(Event::CleanUpFailed(name, Failure { why: error.to_string(), lasting }));
        }
        for ticket in releases {
            self.limit_wait(now, ticket, number);
        }
        self.reconcile(now, number);
    }

    /// Fails the releases that wait, because the server refuses the lowering until an operator changes something.
    fn lowering_refused(&mut self, now: Instant, number: HoldNumber, refusal: &ServerError, releases: &[Ticket]) {
        let hold = &mut self.holds[number];
        let text = refusal.text().to_owned();
        // The server has refused this copy only; it may have applied an earlier copy.
        let unsure = hold.clean_up.is_perhaps_lowered;
        let refused = if unsure { ReleaseError::OutcomeUnknown(text) } else { ReleaseError::Refused(text) };
        if !refusal.proves_nothing_done() {
            hold.doubt_lowering();
        }
        self.end_change(number);
        for ticket in self.holds[number].take_waiting() {
            if self.requests.acquire(ticket).is_some_and(Acquire::is_withdrawing) {
                self.stop_withdrawing(now, ticket, refusal.text());
            } else if !releases.contains(&ticket) {
                self.holds[number].wait(ticket);
            }
        }
        for ticket in releases {
            self.finish_release(*ticket, Err(refused.clone()));
        }
    }
}

/// Clean-up in the background.
impl Session {
    pub(super) fn clean_up_by_background(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(number) {
            hold.clean_up.by_background = true;
            self.reconcile(now, number);
        }
    }

    /// Reconciles a hold with the server after a change of its state. Does nothing for a hold that is gone.
    pub(super) fn reconcile(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number) else { return };
        if hold.is_abandoned() && hold.has_run_out(now) && self.is_kept_by_reader(number) {
            self.extend_clean_up(now, number);
        }
        let hold = &mut self.holds[number];
        self.locks[hold.lock].note_given_up(number, hold.is_given_up());
        match hold.next_step(now) {
            NextStep::Nothing => {}
            NextStep::Forget => return self.forget(now, number),
            NextStep::GoOn => {
                let waiting = hold.take_waiting();
                self.finish_waiting(now, number, waiting, &Ok(()));
            }
            NextStep::Lower => self.lower_by_background(now, number),
        }
        self.set_hold_timer(number);
    }

    /// Whether a reader has a raise in flight that may extend the writer's entry.
    fn is_kept_by_reader(&self, number: HoldNumber) -> bool {
        let raises =
            |other: &Hold| other.change.as_ref().is_some_and(|change| matches!(change.aim, CountChange::RaiseTo(_)));
        let read = self.other_half(number, Kind::Write, Kind::Read);
        read.is_some_and(|read| self.holds.iter().any(|(_, other)| other.lock == read && raises(other)))
    }

    /// The `other` half of a read-write lock, if the hold is of the half `of`.
    fn other_half(&self, number: HoldNumber, of: Kind, other: Kind) -> Option<LockId> {
        let lock = self.holds.get(number)?.lock;
        if self.locks[lock].kind == of { self.locks.sibling(lock, other) } else { None }
    }

    /// Extends the clean-up to the end of a lease that starts now. Call it after each reply or timeout of a command with a lease.
    ///
    /// The two halves of a read-write lock share a key. A reader's lease also keeps the entry of the writer that it reads beside, so the
    /// clean-up of a lost write hold is extended as well.
    pub(super) fn extend_clean_up(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.extend_clean_up(now);
        let until = hold.clean_up.until;
        let Some(write) = self.other_half(number, Kind::Read, Kind::Write) else { return };
        let lock = &self.locks[write];
        if lock.refs as usize <= lock.line.len() {
            // The usual case: writers only wait. It avoids a search through all holds.
            return;
        }
        for other in self.holds.values_mut().filter(|other| other.lock == write) {
            other.clean_up.until = other.clean_up.until.max(until);
        }
    }

    /// Removes a hold of which the server has nothing, or nothing that outlives its lease.
    pub(super) fn forget(&mut self, now: Instant, number: HoldNumber) {
        let Some(mut hold) = self.holds.remove(number) else { return };
        self.timers.set(Timer::Hold(number), &mut hold.timer, None);
        hold.cell.end(HoldEnd::Released, &mut self.out.woken);
        let unknown = || ReleaseError::OutcomeUnknown("no reply came while the lease lasted".to_owned());
        let outcome = if hold.count.is_high() { Err(unknown()) } else { Ok(()) };
        self.finish_waiting(now, number, hold.take_waiting(), &outcome);
        self.locks[hold.lock].note_given_up(number, false);
        self.locks.unref(hold.lock, &mut self.timers);
    }

    pub(super) fn set_hold_timer(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        let next = hold.timeout();
        self.timers.set(Timer::Hold(number), &mut hold.timer, next);
    }

    /// Lowers a count in the background, as soon as the window has room.
    fn lower_by_background(&mut self, now: Instant, number: HoldNumber) {
        let hold = &mut self.holds[number];
        if !self.to_lower.window.has_room() {
            hold.clean_up.is_queued = true;
            self.to_lower.push(hold.lock, number);
            return;
        }
        if hold.owes_last_repeat(now) {
            hold.clean_up.repeats = Repeats::Over;
        }
        self.to_lower.window.begin();
        self.send_release(now, number, None);
    }

    /// Sends the wanted count to the server on behalf of a request or of the background.
    fn send_release(&mut self, now: Instant, number: HoldNumber, by: Option<Ticket>) {
        let hold = &self.holds[number];
        let (lock, count) = (&self.locks[hold.lock], hold.count.wanted);
        let call = lock.protocol().release(&ReleaseArgs {
            name: &lock.name,
            keys: lock.keys(),
            hold: &hold.cell.key(),
            count,
            granted: hold.is_surely_granted(now),
            keep: hold.left_of_least_time(now),
            settings: &self.settings,
        });
        self.send_change(now, number, by, CountChange::LowerTo(count), call);
    }

    pub(super) fn lower_more(&mut self, now: Instant) {
        while self.to_lower.window.has_room()
            && let Some(number) = self.to_lower.pop()
        {
            let hold = &mut self.holds[number];
            hold.clean_up.is_queued = false;
            self.reconcile(now, number);
        }
    }
}

#[derive(Debug)]
pub(super) struct CleanUp {
    /// The background lowers the count, and no future does.
    pub(super) by_background: bool,
    /// The hold waits in [`ToLower`].
    is_queued: bool,
    /// The earliest next attempt.
    not_before: Instant,
    tries: u16,
    /// When the first copy of the last release was sent that had no reply, and may have been applied.
    doubt: Option<Instant>,
    /// An earlier lowering, to any count, may have been applied.
    pub(super) is_perhaps_lowered: bool,
    /// A copy of a call may still come, because settling proved nothing.
    pub(super) is_unproven: bool,
    repeats: Repeats,
    /// The end of the lease on the server, unless a renewal extends it.
    pub(super) until: Instant,
}

/// Repetitions of a release that the server has applied, against late copies of the acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    No,
    /// The background repeats the release, and once more after the last possible copy.
    Until,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum NextStep {
    Nothing,
    /// The server has nothing of the hold, or nothing that outlives its lease.
    Forget,
    /// The server has the requested count: requests that wait for it proceed.
    GoOn,
    /// The background lowers the count.
    Lower,
}

impl CleanUp {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            by_background: false,
            is_queued: false,
            not_before: now,
            tries: 0,
            doubt: None,
            is_perhaps_lowered: false,
            is_unproven: false,
            repeats: Repeats::No,
            until: now,
        }
    }

    /// Whether there is nothing to take back, and no late copy to expect.
    pub(super) fn is_at_rest(&self) -> bool {
        let Self { by_background, is_queued, doubt, is_perhaps_lowered, is_unproven, repeats, .. } = self;
        let is_doubted = doubt.is_some() || *is_perhaps_lowered || *is_unproven || *repeats != Repeats::No;
        !by_background && !is_queued && !is_doubted
    }
}

/// The clean-up of a hold.
impl Hold {
    /// The next step, while no change is in flight.
    pub(super) fn next_step(&self, now: Instant) -> NextStep {
        if self.change.is_some() {
            return NextStep::Nothing;
        }
        let repeats = self.owes_last_repeat(now);
        if self.is_abandoned() && (!self.count.is_high() || self.has_run_out(now)) && !repeats {
            return NextStep::Forget;
        }
        let is_time = repeats || now >= self.clean_up.not_before;
        if !self.is_high() {
            NextStep::GoOn
        } else if self.is_for_background() && !self.clean_up.is_queued && is_time {
            NextStep::Lower
        } else {
            NextStep::Nothing
        }
    }

    /// Whether the background lowers the count. It does not release a lost hold that has guards: their work may still run, and the lease
    /// keeps other clients out until it ends.
    fn is_for_background(&self) -> bool {
        self.is_high() && self.clean_up.by_background && (self.end().is_none() || !self.count.has_guards())
    }

    /// Whether the last repeat of the release is due. A copy of the acquire since the previous repeat would keep the lock for a lease.
    fn owes_last_repeat(&self, now: Instant) -> bool {
        self.clean_up.repeats == Repeats::Until && now >= self.clean_up.until && self.is_high()
    }

    /// Whether the lease has ended on the server. False while a renewal is in flight, which may extend it.
    fn has_run_out(&self, now: Instant) -> bool {
        now >= self.clean_up.until && !self.count.is_being_renewed()
    }

    pub(super) fn lowering_at(&self) -> Option<Instant> {
        let is_idle = self.change.is_none() && !self.clean_up.is_queued;
        (is_idle && self.is_for_background()).then(|| {
            let is_forgotten = self.is_abandoned() && !self.count.is_being_renewed();
            let forgotten = if is_forgotten { self.clean_up.until } else { Instant::FAR_FUTURE };
            self.clean_up.not_before.min(forgotten)
        })
    }

    /// Whether the background releases this hold because no caller owns it: an abandoned acquire, or an expired linger.
    pub(super) fn is_given_up(&self) -> bool {
        (!self.state.is_granted() || self.linger.as_deref() == Some(&Linger::Left))
            && self.is_high()
            && self.clean_up.repeats == Repeats::No
    }

    /// Whether a release may return permits of which the server has no record. Not if a copy may have been applied so long ago that its
    /// record is gone: lost permits are better than permits that are returned twice.
    pub(super) fn is_surely_granted(&self, now: Instant) -> bool {
        self.state.is_granted()
            && self.clean_up.repeats == Repeats::No
            && self.clean_up.doubt.is_none_or(|sent_at| now.since(sent_at) < MEMORY / 2)
    }

    /// Records that the lowering in flight may be applied without a reply.
    pub(super) fn doubt_lowering(&mut self) {
        let Some(change) = &self.change else { return };
        let CountChange::LowerTo(target) = change.aim else { return };
        self.clean_up.is_perhaps_lowered = true;
        self.clean_up.by_background = true;
        if target == 0 {
            self.clean_up.doubt.get_or_insert(change.sent_at);
        }
    }

    /// Whether an earlier copy of the release may have been applied, and was sent before the deadline.
    fn was_released_in_time(&self) -> bool {
        self.clean_up.doubt.is_some_and(|sent_at| sent_at < self.cell.deadline())
    }

    /// Repeats the release from `not_before` until the end of the lease that a late copy of the acquire could take.
    pub(super) fn expect_late_copies(&mut self, not_before: Instant) {
        self.count.on_server = 1;
        self.clean_up.by_background = true;
        self.clean_up.repeats = Repeats::Until;
        self.clean_up.not_before = not_before;
        // Without a lease, the server recognizes late copies only while it has a record of the hold.
        self.clean_up.until = self.clean_up.until.min(not_before + MEMORY);
    }

    /// Records that the server has at most `count`. Returns whether the clean-up is complete.
    fn note_lowered(&mut self, now: Instant, count: u32, in_places: bool) -> bool {
        self.count.on_server = count;
        self.cell.set_count(count);
        self.clean_up.tries = 0;
        self.clean_up.doubt = None;
        self.clean_up.is_perhaps_lowered = false;
        let done = !self.count.is_high();
        self.clean_up.by_background &= !done;
        // The server has nothing left. Only a copy may still come, and its lease bounds the wait.
        if self.state.leave_place() || in_places || count == 0 {
            self.clean_up.until = self.clean_up.until.min(now + self.lease);
        }
        done
    }

    /// The background repeats a failed lowering after a pause, because clean-up is not urgent.
    fn note_failed_lowering(&mut self, now: Instant) {
        self.clean_up.by_background = true;
        self.clean_up.tries = self.clean_up.tries.saturating_add(1);
        self.clean_up.not_before = now + pause_before(u32::from(self.clean_up.tries) + 1);
    }

    /// Ends the change after settling. Returns the request whose first acquire must be retried. The background takes back any other change,
    /// even a re-entry before its retry: released guards must not wait for a future that may never be polled.
    #[must_use]
    pub(super) fn note_settled(&mut self, now: Instant, proven: bool) -> Option<Ticket> {
        self.change = None;
        self.clean_up.is_unproven |= !proven;
        self.clean_up.not_before = now;
        if let Some(ticket) = self.raising {
            if !self.state.is_granted() {
                return Some(ticket);
            }
            self.raising = None;
            self.wait(ticket);
        }
        self.clean_up.by_background = true;
        None
    }

    /// Extends the clean-up to the end of a lease of the hold, or of its change in flight, that starts now.
    pub(super) fn extend_clean_up(&mut self, now: Instant) {
        let lease = self.change.as_ref().map_or(self.lease, |change| change.lease.max(self.lease));
        self.clean_up.until = self.clean_up.until.max(now + lease);
    }
}

/// The least and the greatest number of background lowerings in flight, so that 100 000 dropped guards do not drown the server.
///
/// With a round trip of 100 ms, the least window lowers 640 holds a second, and the greatest 10 000.
const WINDOW: RangeInclusive<usize> = 64..=1024;

/// Holds whose lowering waits for room.
///
/// A program may drop 100 000 guards at once, of one lock or of as many locks. Locks take turns, so that a later guard does not wait for all
/// of them. Turns alternate between the newest and the oldest lock: neither a late nor an early lock waits for all others.
#[derive(Debug)]
pub(super) struct ToLower {
    /// The holds of each lock, first in first out.
    holds: HashMap<LockId, VecDeque<HoldNumber>>,
    /// The locks, in order of arrival or of their last turn.
    locks: VecDeque<LockId>,
    is_turn_of_oldest: bool,
    window: Window,
}

impl Default for ToLower {
    fn default() -> Self {
        let (holds, locks) = (HashMap::default(), VecDeque::new());
        Self { holds, locks, is_turn_of_oldest: false, window: Window::new(WINDOW) }
    }
}

impl ToLower {
    fn push(&mut self, lock: LockId, number: HoldNumber) {
        let holds = self.holds.entry(lock).or_default();
        if holds.is_empty() {
            self.locks.push_back(lock);
        }
        holds.push_back(number);
    }

    fn pop(&mut self) -> Option<HoldNumber> {
        let lock = if self.is_turn_of_oldest { self.locks.pop_front() } else { self.locks.pop_back() }?;
        self.is_turn_of_oldest = !self.is_turn_of_oldest;
        let holds = self.holds.get_mut(&lock)?;
        let number = holds.pop_front();
        if holds.is_empty() {
            self.holds.remove(&lock);
        } else {
            self.locks.push_back(lock);
        }
        number
    }

    /// A lowering ended: with a reply after `took`, or without a reply.
    pub(super) fn ended(&mut self, took: Option<Duration>) {
        self.window.end(took, !self.holds.is_empty());
    }
}

#[cfg(test)]
mod tests;
