//! Releases, and the clean-up of what the server has and no caller wants.

use crate::command::operation::MEMORY;
use crate::command::{Kind, Released, WaitPolicy};
use crate::error::{HoldEnd, LossReason, ReleaseError};
use crate::link::{LinkError, ServerError};
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::calls::release_call;
use crate::session::hold::{CountChange, Hold};
use crate::session::line::End;
use crate::session::lock::LockId;
use crate::session::request::{Release, Request};
use crate::session::{Event, Session, Ticket, Timer, Window, pause_before};
use crate::time::Instant;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Keeps the lock of a hold busy until then, however soon its guards are released or dropped. A kind that cannot do that takes no notice.
    pub fn keep_busy(&mut self, number: HoldNumber, until: Instant) {
        if self.protocol_of(number).may_be_kept()
            && let Some(hold) = self.holds.get_mut(number)
        {
            hold.keep_busy(until);
        }
    }

    /// Gives one guard of a hold back. From here on the session sees to it, whether the caller waits for the outcome or not.
    ///
    /// `renewed` is whether this guard wanted the hold to be renewed.
    pub fn release(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Ticket {
        let ticket = Ticket::new(self.next_id());
        let outcome = if self.keep(now, number, renewed) { Some(Ok(())) } else { self.give_back(now, number, renewed) };
        let release = Release::new(number, outcome);
        self.requests.insert(ticket, Request::Release(release));
        ticket
    }

    /// Takes a guard that is released. Gives the outcome that its caller is told at once, if there is one.
    fn give_back(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<Result<(), ReleaseError>> {
        // A hold with a guard exists. The number of an ended guard finds no hold.
        let gone = !self.holds.contains(number);
        let outcome = match self.take_guard(now, number, renewed) {
            Some(HoldEnd::Lost(reason)) => Some(Err(ReleaseError::Lost(reason))),
            None if gone => Some(Err(ReleaseError::Lost(LossReason::ShutDown))),
            Some(HoldEnd::Released | HoldEnd::Detached) | None => None,
        };
        if outcome.is_some() {
            self.clean_up_by_background(now, number);
        }
        outcome
    }

    /// Polls a release. The ticket is invalid once this is ready.
    pub fn poll_release(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Poll<Result<(), ReleaseError>> {
        let Some(Request::Release(release)) = self.requests.get_mut(&ticket) else { return Poll::Ready(Ok(())) };
        let number = release.hold;
        let Some(hold) = self.holds.get_mut(number).filter(|_| release.outcome.is_none()) else {
            // A hold that is gone without a word to this request was released by another one of it.
            let outcome = release.outcome.take().unwrap_or(Ok(()));
            self.remove_request(ticket);
            return Poll::Ready(outcome);
        };
        if hold.is_settled() {
            self.remove_request(ticket);
            self.reconcile(now, number);
            return Poll::Ready(Ok(()));
        }
        if hold.is_for_caller() {
            let (lock, target) = (hold.lock, hold.count.wanted);
            let call = release_call(now, &self.locks[lock], hold, &self.settings);
            release.waker = Some(waker.clone());
            self.send_change(now, number, Some(ticket), CountChange::LowerTo(target), call);
            if target == 0 {
                self.ask_ahead(lock);
            }
            return Poll::Pending;
        }
        release.waker = Some(waker.clone());
        if hold.is_flying_by(ticket) {
            return Poll::Pending;
        }
        hold.wait_once(ticket);
        // A release that has to wait leaves the rest to the background, which does not depend on being polled.
        hold.clean_up.by_background = true;
        self.limit_wait(now, ticket, number);
        self.reconcile(now, number);
        Poll::Pending
    }

    /// The future of a release was dropped: the background goes on.
    pub fn abandon_release(&mut self, now: Instant, ticket: Ticket) {
        let Some(Request::Release(release)) = self.requests.get(&ticket) else { return };
        let number = release.hold;
        self.remove_request(ticket);
        if let Some(hold) = self.holds.get_mut(number) {
            hold.stop_waiting(ticket);
        }
        self.clean_up_by_background(now, number);
    }

    /// A guard was dropped.
    pub fn drop_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        if !self.keep(now, number, renewed) {
            self.take_guard(now, number, renewed);
            self.clean_up_by_background(now, number);
        }
    }

    /// A guard is given up without a release: nothing renews for its sake, and the lease runs out by itself.
    pub fn detach(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.lose_if_passed(now, number);
        if self.holds.get_mut(number).is_some_and(|hold| hold.detach_guard(renewed)) {
            self.guard_ends(now, number, renewed, HoldEnd::Detached);
            self.reconcile(now, number);
        }
    }

    /// Takes a guard away from a hold, and tells how the hold has ended, if it has.
    pub(super) fn take_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<HoldEnd> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get_mut(number)?;
        if !hold.remove_guard(renewed) {
            return hold.end();
        }
        self.guard_ends(now, number, renewed, HoldEnd::Released);
        if self.protocol_of(number).may_be_prolonged() {
            // Time alone does not tell that the server has nothing of it.
            self.extend_clean_up(now, number);
        }
        self.holds.get(number)?.end()
    }

    /// A guard does not want the hold to be renewed any more. The last one ends the hold, if nothing else has.
    fn guard_ends(&mut self, now: Instant, number: HoldNumber, renewed: bool, end: HoldEnd) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if hold.end_guard(now, renewed, end, &mut self.out.woken) {
            self.end_live_hold(now, number);
        }
        // Without a renewing guard, a hold that the server does not have ends one lease from now.
        self.set_hold_timer(number);
    }

    /// The last guard of a hold is gone: the hold is not entered again. Requests that were about to enter it acquire anew.
    pub(super) fn end_live_hold(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.renew_at = None;
        let (lock, owner, granted, permits) = (hold.lock, hold.owner, hold.is_granted(), hold.permits());
        let waiting = hold.take_waiting();
        if let Some(owner) = owner {
            self.owners.remove_hold(lock, owner, number);
        }
        if granted {
            self.locks[lock].remove_held(permits);
            self.open_gates(now, lock);
            self.drop_unwanted_notices(lock);
        }
        for ticket in waiting {
            if self.requests.acquire(ticket).is_some_and(|acquire| !acquire.is_taking_back()) {
                self.join_line(now, ticket, End::Back);
            } else if let Some(hold) = self.holds.known_mut(number) {
                hold.wait(ticket);
            }
        }
    }
}

// ===== The reply to a release =====
//
// The replies to releases: what is done, what is told, and what is repeated.

impl Session {
    /// Takes the outcome of a lowering, of a caller or of the background.
    pub(super) fn handle_lowered(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let protocol = self.protocol_of(number);
        let decode = |reply| protocol.released(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let released = match result.and_then(decode) {
            Ok(released) => released,
            Err(error) => return self.not_lowered(now, number, &error),
        };
        let Some(change) = self.end_change(number) else { return };
        let CountChange::LowerTo(target) = change.aim else { return };
        if let (Released::EndedBefore(listeners), Some(hold)) = (released, self.holds.get(number)) {
            self.note_listeners(hold.lock, listeners);
        }
        let Some(hold) = self.holds.known_mut(number) else { return };
        // An earlier copy would keep the lock busy still, and the reply would say so, if as much as a millisecond was asked for.
        let would_be_kept = hold.left_of_least_time(now) >= Duration::from_millis(1);
        let in_time = hold.was_perhaps_released_in_time() && !would_be_kept;
        let in_places = self.locks[hold.lock].wait_policy() == WaitPolicy::ServerQueue;
        let outcome = match released {
            Released::Ended | Released::EndedBefore(_) | Released::Lowered => Ok(()),
            // An earlier copy ended it, inside a lease that was proven.
            Released::Gone if in_time && target == 0 => Ok(()),
            // The server never had it, or not for certain.
            Released::Gone if hold.is_degraded() => Ok(()),
            Released::Gone => Err(ReleaseError::Lost(LossReason::Removed)),
        };
        let gone = released == Released::Gone;
        let done = hold.note_lowered(now, if gone { 0 } else { target }, in_places);
        // If more guards were dropped meanwhile, waiting releases complete only when the lower count is reached.
        let waiting = if done { hold.take_waiting() } else { Vec::new() };
        let name = self.locks[hold.lock].name.clone();
        let is_release = |ticket: &Ticket| self.requests.is_release(*ticket);
        let was_released = change.by.is_some() || waiting.iter().any(is_release);
        let (live, repeated) = (hold.is_live(), hold.is_repeated());
        let lost = (outcome.is_err() && was_released).then(|| hold.lost(now, name.clone(), LossReason::Removed));
        // A hold without a lease leaves a record, which refuses late copies of its acquire.
        let leased = self.locks[hold.lock].protocol().renewal().is_some();
        if leased && hold.may_come_back(now) {
            hold.expect_late_copies(now + self.settings.command_timeout * 2);
        }
        if gone && live {
            self.lose(now, number, LossReason::Removed);
        } else if let Some(lost) = lost {
            self.out.tell(lost);
        }
        if change.by.is_none() && waiting.is_empty() && !repeated {
            self.out.tell(Event::CleanedUp { name });
        }
        for ticket in change.by.into_iter().chain(waiting) {
            self.finish_release(ticket, outcome.clone());
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
        self.reconcile(now, number);
    }

    /// A lowering failed: the background repeats it.
    fn not_lowered(&mut self, now: Instant, number: HoldNumber, error: &LinkError) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let by = hold.change().and_then(|change| change.by);
        let aim = hold.change().map(|change| change.aim);
        // The count that was asked for is higher than that of releases that came meanwhile: they wait for a command of their own.
        let superseded = matches!(aim, Some(CountChange::LowerTo(target)) if target > hold.count.wanted);
        // Entries that wait go on waiting; this is about releases.
        let is_release = |ticket: &Ticket| self.requests.is_release(*ticket);
        let others = hold.waiting().filter(|_| !superseded);
        let waiting: Vec<_> = by.into_iter().chain(others).filter(is_release).collect();
        hold.note_failed_lowering(now);
        if let Some(ticket) = by {
            hold.wait_once(ticket);
        }
        match error {
            LinkError::Unknown(_) => self.begin_settling(number),
            LinkError::Refused(refusal) if !refusal.is_transient() => {
                if superseded {
                    hold.clean_up.not_before = now;
                }
                self.lowering_refused(now, number, refusal, &waiting);
            }
            LinkError::NotSent(_) | LinkError::Refused(_) => {
                self.end_change(number);
            }
        }
        if waiting.is_empty()
            && let Some(hold) = self.holds.get_mut(number)
        {
            let lasting = error.is_lasting() && hold.note_refusal();
            let name = self.locks[hold.lock].name.clone();
            self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting });
        }
        for ticket in waiting {
            self.limit_wait(now, ticket, number);
        }
        self.reconcile(now, number);
    }

    /// The server will refuse the lowering again until an operator changes something: releases that wait for it are told so.
    fn lowering_refused(&mut self, now: Instant, number: HoldNumber, refusal: &ServerError, releases: &[Ticket]) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let text = refusal.text().to_owned();
        // The refusal speaks for this copy only.
        let unsure = hold.clean_up.is_perhaps_lowered;
        let refused = if unsure { ReleaseError::OutcomeUnknown(text) } else { ReleaseError::Refused(text) };
        if !refusal.proves_nothing_done() {
            hold.doubt_lowering();
        }
        hold.end_change();
        let is_undoing = |ticket: &Ticket| matches!(self.requests.get(ticket), Some(Request::Acquire(acquire)) if acquire.is_taking_back());
        let (undoing, others) = hold.take_waiting().into_iter().partition::<Vec<_>, _>(is_undoing);
        others.into_iter().filter(|ticket| !releases.contains(ticket)).for_each(|ticket| hold.wait(ticket));
        for ticket in undoing {
            self.stop_taking_back(now, ticket, refusal.text());
        }
        for ticket in releases {
            self.finish_release(*ticket, Err(refused.clone()));
        }
    }
}

// ===== Clean-up in the background =====
//
// Reconciling a hold with the server: its count is lowered, the requests that wait for it go on, or it is forgotten.

impl Session {
    /// From `now` on, nothing that was sent can make the lease of a hold last longer than it, or its change on the way, asks for.
    ///
    /// A reader's lease also keeps what the server has of the writer beside whom it reads, because both lie under one key: a write hold
    /// that is lost here lives on there, and is not left to its own lease to end.
    pub(super) fn extend_clean_up(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        hold.extend_clean_up(now);
        let until = hold.clean_up.until;
        let Some(write) = self.other_half(number, Kind::Read, Kind::Write) else { return };
        let lock = &self.locks[write];
        let requests = lock.line().len();
        if lock.refs as usize <= requests {
            // Writers that only wait, as is usual, are no reason to look through all holds of the client.
            return;
        }
        for other in self.holds.values_mut().filter(|other| other.lock == write) {
            other.keep_until(until);
        }
    }

    /// Whether a reader has something on its way that may keep the writer's entry for longer than this client knows yet.
    pub(super) fn is_kept_by_reader(&self, number: HoldNumber) -> bool {
        let read = self.other_half(number, Kind::Write, Kind::Read);
        read.is_some_and(|read| {
            self.holds.iter().map(|(_, hold)| hold).any(|other| other.lock == read && other.is_being_raised())
        })
    }

    pub(super) fn set_hold_timer(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(number) else { return };
        let next = hold.timeout();
        self.timers.set(Timer::Hold(number), &mut hold.timer, next);
    }

    /// The half of one kind of a read-write lock, for a hold of the other.
    fn other_half(&self, number: HoldNumber, of: Kind, other: Kind) -> Option<LockId> {
        let lock = self.holds.get(number)?.lock;
        if self.locks[lock].kind == of { self.locks.sibling(lock, other) } else { None }
    }

    /// Forgets a hold of which the server has nothing, or nothing that will not go by itself.
    fn forget(&mut self, now: Instant, number: HoldNumber) {
        let Some(mut hold) = self.holds.remove(number) else { return };
        self.timers.set(Timer::Hold(number), &mut hold.timer, None);
        let gone = !hold.exceeds_wanted();
        hold.forget(&mut self.out.woken);
        for ticket in hold.take_waiting() {
            let unknown = || ReleaseError::OutcomeUnknown("no reply came while the lease lasted".to_owned());
            self.finish_release(ticket, if gone { Ok(()) } else { Err(unknown()) });
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
        self.locks[hold.lock].note_given_up(number, false);
        if let Some(owner) = hold.owner {
            self.owners.remove_hold(hold.lock, owner, number);
        }
        self.locks.unref(hold.lock, &mut self.timers);
    }

    /// Nothing stands in the way of those who wait for the hold's count any more: entries are sent, releases are done.
    fn resume_waiting(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        for ticket in hold.take_waiting() {
            self.finish_release(ticket, Ok(()));
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
    }

    /// Looks after a hold whose state has changed: lowers its count, lets requests go on, or forgets it.
    pub(super) fn reconcile(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(number) else { return };
        if hold.is_over(now) && self.is_kept_by_reader(number) {
            self.extend_clean_up(now, number);
        }
        self.note_given_up(number);
        let Some(hold) = self.holds.known(number) else { return };
        match hold.next_step(now) {
            NextStep::Nothing => {}
            NextStep::Forget => return self.forget(now, number),
            NextStep::GoOn => self.resume_waiting(now, number),
            NextStep::Lower => self.lower_by_background(now, number),
        }
        self.set_hold_timer(number);
    }

    /// Sends the lowering of a count that no caller lowers, as soon as there is room for it.
    pub(super) fn lower_by_background(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !self.to_lower.has_room(self.pending.lowerings) {
            hold.clean_up.is_queued = true;
            self.to_lower.push(hold.lock, number);
            return;
        }
        hold.note_repeat(now);
        let target = hold.count.wanted;
        let call = release_call(now, &self.locks[hold.lock], hold, &self.settings);
        self.send_change(now, number, None, CountChange::LowerTo(target), call);
    }

    pub(super) fn clean_up_by_background(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(number) {
            hold.clean_up.by_background = true;
            self.reconcile(now, number);
        }
    }

    /// There is room for lowerings that had to wait.
    pub(super) fn lower_more(&mut self, now: Instant) {
        while self.to_lower.has_room(self.pending.lowerings)
            && let Some(number) = self.to_lower.pop()
        {
            if let Some(hold) = self.holds.known_mut(number) {
                hold.clean_up.is_queued = false;
                self.reconcile(now, number);
            }
        }
    }

    /// A lowering by the background has come to an end, which says how many more the server stands.
    pub(super) fn note_lowered(&mut self, now: Instant, number: HoldNumber, answered: bool) {
        let sent_at = self.holds.get(number).and_then(|hold| hold.change()).map(|change| change.sent_at);
        match sent_at.filter(|_| answered) {
            Some(sent_at) => self.to_lower.answered(now.since(sent_at)),
            None => self.to_lower.not_answered(),
        }
    }
}

// ===== What is still to be cleaned up =====
//
// The part of a hold that is still to be taken back, and how long that is worth an attempt.

/// How far the lowering of a hold's count has come.
#[derive(Debug)]
pub(super) struct CleanUp {
    /// Whether the background lowers the count, and no caller does.
    pub(super) by_background: bool,
    /// The background has as much to do as it may have under way: this one waits for room.
    is_queued: bool,
    /// The background does not try before.
    not_before: Instant,
    tries: u16,
    /// An earlier copy of the last release may have been applied.
    doubt: Option<ReleaseDoubt>,
    /// An earlier lowering, to whatever count, may have been applied.
    pub(super) is_perhaps_lowered: bool,
    /// Some copy of a call may still come, because nothing could be proven: the release is repeated.
    pub(super) is_unproven: bool,
    /// Whether the release has been done once, and is repeated for the sake of such copies.
    repeats: Repeats,
    /// By then the lease has run out on the server, if nothing renews it.
    until: Instant,
}

/// A copy of the last release that may have been applied, although no reply to it was seen.
#[derive(Clone, Copy, Debug)]
struct ReleaseDoubt {
    /// Whether it was sent before the deadline.
    sent_before_deadline: bool,
    since: Instant,
}

/// How a release that was carried out goes on for the sake of late copies of its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    /// It does not.
    No,
    /// It is repeated now and then, and once more when no copy can come any more.
    Until,
    /// It was repeated for the last time.
    Over,
}

/// What is to be done about a hold that has no change on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum NextStep {
    /// Nothing, now.
    Nothing,
    /// The server has nothing of it, or nothing that will not go by itself: it is forgotten.
    Forget,
    /// Its count is as wanted: requests that wait for that go on.
    GoOn,
    /// The background lowers its count.
    Lower,
}

/// What follows when no copy of a change can be applied any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum AfterSettling {
    /// The first acquire of this request is tried again.
    TryAgain(Ticket),
    /// The background takes back what may have been applied.
    TakeBack,
}

impl CleanUp {
    /// A clean-up of a hold that is begun now.
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

    /// A clean-up of a hold that is begun now in the place of another one, which the server has had.
    pub(super) const fn after(now: Instant, other: &Self) -> Self {
        Self { until: other.until, ..Self::new(now) }
    }

    /// Whether there is nothing to be taken back, and no copy of a call is expected that might have to be.
    pub(super) fn is_at_rest(&self) -> bool {
        let Self { by_background, is_queued, doubt, is_perhaps_lowered, is_unproven, repeats, .. } = self;
        let is_doubted = doubt.is_some() || *is_perhaps_lowered || *is_unproven || *repeats != Repeats::No;
        !by_background && !is_queued && !is_doubted
    }
}

/// What is still to be done.
impl Hold {
    /// Whether the background is to lower the count. A lost hold is left to its guards until they are gone: their work may not have stopped
    /// yet, and no other client shall get the lock before its lease has ended.
    pub(super) const fn is_for_background(&self) -> bool {
        self.is_high() && self.clean_up.by_background && (self.state.end().is_none() || !self.count.has_guards())
    }

    /// Whether a caller may send the release of the count that is too high.
    pub(super) const fn is_for_caller(&self) -> bool {
        self.change.is_none() && self.is_high() && !self.clean_up.by_background
    }

    /// Whether its count is as wanted, and nothing is on its way.
    pub(super) const fn is_settled(&self) -> bool {
        self.change.is_none() && !self.count.is_high()
    }

    /// What is to be done about it now.
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

    /// When the background is to lower the count next.
    pub(super) fn lowering_at(&self) -> Option<Instant> {
        let is_idle = self.change.is_none() && !self.clean_up.is_queued;
        (is_idle && self.is_for_background()).then(|| {
            let is_forgotten = self.is_abandoned() && !self.count.is_being_renewed();
            let forgotten = if is_forgotten { self.clean_up.until } else { Instant::FAR_FUTURE };
            self.clean_up.not_before.min(forgotten)
        })
    }

    /// Whether nothing needs it, and its lease has run out on the server unless something renewed it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.is_abandoned() && self.has_run_out(now)
    }

    /// Whether its lease has run out on the server. False while a renewal is in flight, which may extend it.
    fn has_run_out(&self, now: Instant) -> bool {
        now >= self.clean_up.until && !self.count.is_being_renewed()
    }

    /// Whether the background releases the hold without a caller, and the server may still have it: its acquire was
    /// abandoned, or it has lingered.
    pub(super) fn is_given_up(&self) -> bool {
        (!self.is_granted() || self.has_left()) && self.is_high() && self.clean_up.repeats == Repeats::No
    }

    /// Whether its release has been done once, and is repeated for the sake of late copies.
    pub(super) fn is_repeated(&self) -> bool {
        self.clean_up.repeats != Repeats::No
    }

    /// The same, while the lease lasts that such a copy could take, and nothing of it is wanted.
    pub(super) fn may_come_back(&self, now: Instant) -> bool {
        self.clean_up.is_unproven && self.count.wanted == 0 && now < self.clean_up.until
    }

    /// Whether a copy of its last release that was sent before the deadline may have been applied.
    pub(super) fn was_perhaps_released_in_time(&self) -> bool {
        self.clean_up.doubt.is_some_and(|doubt| doubt.sent_before_deadline)
    }

    /// Whether a release may say that there is something to be given back even where the server has no record of it. It may not once a
    /// copy of it may have been applied so long ago that the record of that is gone: permits that are lost are better than permits that
    /// are given back twice.
    pub(super) fn is_surely_granted(&self, now: Instant) -> bool {
        self.state.is_granted()
            && self.clean_up.repeats == Repeats::No
            && self.clean_up.doubt.is_none_or(|doubt| now.since(doubt.since) < MEMORY / 2)
    }

    /// Whether the release is now to be repeated for the last time. A copy that has come since the last one would keep the lock for a lease,
    /// and the client would know nothing of it.
    fn owes_last_repeat(&self, now: Instant) -> bool {
        self.clean_up.repeats == Repeats::Until && now >= self.clean_up.until && self.is_high()
    }
}

/// What happens to it.
impl Hold {
    /// The background sends the release.
    pub(super) fn note_repeat(&mut self, now: Instant) {
        if self.owes_last_repeat(now) {
            self.clean_up.repeats = Repeats::Over;
        }
    }

    /// The lowering on the way may be applied, although no reply to it will be seen.
    pub(super) fn doubt_lowering(&mut self) {
        let Some(change) = &self.change else { return };
        let CountChange::LowerTo(target) = change.aim else { return };
        self.clean_up.is_perhaps_lowered = true;
        self.clean_up.by_background = true;
        if target == 0 {
            let sent_before_deadline = change.sent_at < self.cell.deadline();
            self.clean_up.doubt.get_or_insert(ReleaseDoubt { sent_before_deadline, since: change.sent_at });
        }
    }

    /// A copy of an acquire may still come: the release is repeated until the lease that it could take has ended.
    pub(super) fn expect_late_copies(&mut self, not_before: Instant) {
        self.count.on_server = 1;
        self.clean_up.by_background = true;
        self.clean_up.repeats = Repeats::Until;
        self.clean_up.not_before = not_before;
        // If nothing has a lease, copies are known for what they are only while there is a record of the hold.
        self.clean_up.until = self.clean_up.until.min(not_before + MEMORY);
    }

    /// The server has no more than `count` any longer. Says whether all that was to be given back is.
    pub(super) fn note_lowered(&mut self, now: Instant, count: u32, in_places: bool) -> bool {
        self.count.on_server = count;
        self.cell.set_count(self.count.on_server);
        self.clean_up.tries = 0;
        self.clean_up.doubt = None;
        self.clean_up.is_perhaps_lowered = false;
        let done = !self.count.is_high();
        self.clean_up.by_background &= !done;
        // Whatever there was is gone: what may still come is a copy, which is not waited for longer than a lease.
        if self.state.leave_place() || in_places || self.count.on_server == 0 {
            self.clean_up.until = self.clean_up.until.min(now + self.lease);
        }
        done
    }

    /// A lowering failed: the background repeats it after a pause, because clean-up is in no hurry.
    pub(super) fn note_failed_lowering(&mut self, now: Instant) {
        self.clean_up.by_background = true;
        self.clean_up.tries = self.clean_up.tries.saturating_add(1);
        self.clean_up.not_before = now + pause_before(u32::from(self.clean_up.tries) + 1);
    }

    /// No copy of the change can be applied any more, as far as that can be known.
    ///
    /// An entry is taken back before it is tried again: guards that are released must not wait for a future that is perhaps never polled.
    pub(super) fn note_settled(&mut self, now: Instant, proven: bool) -> AfterSettling {
        self.change = None;
        self.clean_up.is_unproven |= !proven;
        self.clean_up.not_before = now;
        if let Some(ticket) = self.raising {
            if !self.state.is_granted() {
                return AfterSettling::TryAgain(ticket);
            }
            self.raising = None;
            self.wait(ticket);
        }
        self.clean_up.by_background = true;
        AfterSettling::TakeBack
    }

    /// The server may have given the hold, until now, what it or its change on the way asks for.
    pub(super) fn extend_clean_up(&mut self, now: Instant) {
        let lease = self.lease_at_stake();
        self.keep_until(now + lease);
    }

    /// Something may keep it on the server until then.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.clean_up.until = self.clean_up.until.max(until);
    }

    fn lease_at_stake(&self) -> Duration {
        self.change.as_ref().map_or(self.lease, |change| change.lease.max(self.lease))
    }
}

// ===== Lowerings that wait for room =====
//
// Which count the background lowers next, where it has as much under way as it may have.
//
// A program may drop a hundred thousand guards at once, of one lock or of as many locks. A guard that is dropped later does not wait for
// all of them: locks take turns, and of those that have had none the newest and the oldest do.

/// How many lowerings the background has under way at most: the least and the greatest window. A server answers so many well within the command
/// timeout, and a hundred thousand guards that are dropped at once do not drown it. With a round trip of 100 ms the least window lets 640 through
/// in a second, and the greatest 10 000.
const WINDOW: RangeInclusive<usize> = 64..=1024;

/// Holds whose lowering waits for room.
#[derive(Debug)]
pub(super) struct ToLower {
    /// The holds of each lock, in the order in which they came.
    holds: HashMap<LockId, VecDeque<HoldNumber>>,
    /// Locks that have had no turn since they came, in that order.
    fresh: VecDeque<LockId>,
    /// The others, in the order of their turns.
    served: VecDeque<LockId>,
    turn: Turn,
    window: Window,
}

impl Default for ToLower {
    fn default() -> Self {
        Self {
            holds: HashMap::default(),
            fresh: VecDeque::new(),
            served: VecDeque::new(),
            turn: Turn::default(),
            window: Window::new(WINDOW),
        }
    }
}

/// The lock of which a hold is taken next.
#[derive(Clone, Copy, Debug, Default)]
enum Turn {
    /// The newest that has had no turn: a lock that comes late does not wait for those before it.
    #[default]
    Newest,
    /// The oldest that has had no turn: one that came early does not wait for those behind it.
    Oldest,
    /// The one whose turn is longest ago.
    Served,
}

impl Turn {
    const fn next(self) -> Self {
        match self {
            Self::Newest => Self::Oldest,
            Self::Oldest => Self::Served,
            Self::Served => Self::Newest,
        }
    }
}

impl ToLower {
    /// Whether another one may be sent while so many are under way.
    pub(super) const fn has_room(&self, under_way: usize) -> bool {
        self.window.has_room(under_way)
    }

    /// A lowering was answered after this time.
    pub(super) fn answered(&mut self, took: Duration) {
        if !self.holds.is_empty() {
            self.window.answered(took);
        }
    }

    /// A lowering was not answered.
    pub(super) const fn not_answered(&mut self) {
        self.window.not_answered();
    }

    pub(super) fn push(&mut self, lock: LockId, number: HoldNumber) {
        let holds = self.holds.entry(lock).or_default();
        if holds.is_empty() {
            self.fresh.push_back(lock);
        }
        holds.push_back(number);
    }

    pub(super) fn pop(&mut self) -> Option<HoldNumber> {
        let turn = self.turn;
        self.turn = turn.next();
        let (fresh, served) = (&mut self.fresh, &mut self.served);
        let lock = match turn {
            Turn::Newest => fresh.pop_back().or_else(|| served.pop_front()),
            Turn::Oldest => fresh.pop_front().or_else(|| served.pop_front()),
            Turn::Served => served.pop_front().or_else(|| fresh.pop_front()),
        }?;
        let holds = self.holds.get_mut(&lock)?;
        let number = holds.pop_front();
        if holds.is_empty() {
            self.holds.remove(&lock);
            if self.holds.is_empty() {
                self.window.begin_anew();
            }
        } else {
            self.served.push_back(lock);
        }
        number
    }
}

#[cfg(test)]
mod tests;
