//! Releases: a guard less, and a count on the server that follows.

use super::clean_up::Repeats;
use super::hold::Aim;
use super::pending::Purpose;
use super::request::{Release, Request, Step, Ticket, Via};
use super::timers::Timer;
use super::wire::give;
use super::{Event, Session, retry};
use crate::command::{Line, Released};
use crate::error::{HoldEnd, LossReason, ReleaseError};
use crate::link::{LinkError, ServerError};
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::time::Instant;
use std::task::Waker;

impl Session {
    /// Gives one guard of a hold back. From here on the session sees to it, whether the caller waits for the outcome or not.
    ///
    /// `renewed` is whether this guard wanted the hold to be renewed.
    pub fn release(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Ticket {
        let ticket = Ticket(self.next_id());
        // A hold that is gone while a guard of it exists was taken from its guards, and released.
        let gone = !self.holds.contains_key(&number);
        let outcome = match self.take_guard(now, number, renewed) {
            Some(HoldEnd::Lost(reason)) => Some(Err(ReleaseError::Lost(reason))),
            None if gone => Some(Err(ReleaseError::Lost(LossReason::ShutDown))),
            Some(HoldEnd::Released | HoldEnd::Detached) | None => None,
        };
        if outcome.is_some() {
            self.clean_up_by_lifeline(now, number);
        }
        let release = Release { hold: number, timer: None, waker: None, outcome };
        self.requests.insert(ticket, Request::Release(release));
        ticket
    }

    /// The next step of the future of a release. `via` is where a call would go.
    pub fn poll_release(
        &mut self,
        now: Instant,
        ticket: Ticket,
        via: Via,
        waker: &Waker,
    ) -> Step<Result<(), ReleaseError>> {
        let Some(Request::Release(release)) = self.requests.get_mut(&ticket) else { return Step::Done(Ok(())) };
        let number = release.hold;
        let Some(hold) = self.holds.get_mut(&number).filter(|_| release.outcome.is_none()) else {
            // A hold that is gone without a word to this request was released by another one of it.
            let outcome = release.outcome.take().unwrap_or(Ok(()));
            self.remove_request(ticket);
            return Step::Done(outcome);
        };
        if hold.change.is_none() && !hold.count.is_high() {
            self.remove_request(ticket);
            self.attend(now, number);
            return Step::Done(Ok(()));
        }
        if hold.change.is_none() && hold.is_high() && !hold.clean_up.by_lifeline {
            let target = hold.count.wanted();
            let call = give(now, &self.locks[hold.lock], hold, &self.settings);
            release.waker = Some(waker.clone());
            return Step::Send(self.begin_change(now, number, Some(ticket), Aim::Lower(target), via, &call), call);
        }
        release.waker = Some(waker.clone());
        if !hold.waiting.contains(&ticket) {
            hold.waiting.push(ticket);
        }
        // A release that has to wait leaves the rest to the lifeline, which does not depend on being polled.
        hold.clean_up.by_lifeline = true;
        self.limit_wait(now, ticket, number);
        self.attend(now, number);
        Step::Wait
    }

    /// The future of a release was dropped: the lifeline goes on.
    pub fn abandon_release(&mut self, now: Instant, ticket: Ticket) {
        let Some(Request::Release(release)) = self.requests.get(&ticket) else { return };
        let number = release.hold;
        self.remove_request(ticket);
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.waiting.retain(|waiting| *waiting != ticket);
            if hold.change.as_ref().is_some_and(|change| change.by == Some(ticket)) {
                self.unsettle(number);
            }
        }
        self.clean_up_by_lifeline(now, number);
    }

    /// A guard was dropped.
    pub fn drop_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.take_guard(now, number, renewed);
        self.clean_up_by_lifeline(now, number);
    }

    /// A guard is given up without a release: nothing renews for its sake, and the lease runs out by itself.
    pub fn detach(&mut self, now: Instant, number: HoldNumber, renewed: bool) {
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.get_mut(&number).filter(|hold| hold.count.has_guards()) else { return };
        hold.count.detach_guard(renewed);
        self.guard_ends(now, number, HoldEnd::Detached);
        self.attend(now, number);
    }

    /// Takes a guard away from a hold, and tells how the hold has ended, if it has.
    fn take_guard(&mut self, now: Instant, number: HoldNumber, renewed: bool) -> Option<HoldEnd> {
        self.lose_if_passed(now, number);
        let hold = self.holds.get_mut(&number)?;
        if !hold.count.has_guards() {
            // The guards were taken from their owners by a shutdown.
            return hold.end;
        }
        hold.count.remove_guard(renewed);
        self.guard_ends(now, number, HoldEnd::Released);
        if self.verbs_of(number).may_be_prolonged() {
            // Time alone does not tell that the server has nothing of it.
            self.touch(now, number);
        }
        self.holds.get(&number)?.end
    }

    /// A guard does not want the hold to be renewed any more. The last one ends the hold, if nothing else has.
    fn guard_ends(&mut self, now: Instant, number: HoldNumber, end: HoldEnd) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.cell.set_renewed(hold.count.renewing());
        if !hold.count.is_renewed() {
            hold.renew_at = None;
        }
        if !hold.count.has_guards() {
            if hold.end.is_none() {
                hold.end = Some(end);
                hold.cell.end(end, self.out.woken());
            }
            self.retire(now, number);
        }
    }

    /// The last guard of a hold is gone: the hold is not entered again. Requests that were about to enter it acquire anew.
    pub(super) fn retire(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.renew_at = None;
        let (lock, owner, granted, permits) = (hold.lock, hold.owner, hold.granted, hold.cell.key().permits);
        let waiting = std::mem::take(&mut hold.waiting);
        self.disown(lock, owner, number);
        if granted {
            self.locks[lock].held -= 1;
            self.locks[lock].permits -= u64::from(permits);
            self.open_gates(now, lock);
        }
        for ticket in waiting {
            if self.acquire_of(ticket).is_some_and(|acquire| acquire.undoing.is_none()) {
                self.join_line(now, ticket);
            } else if let Some(hold) = self.holds.get_mut(&number) {
                hold.waiting.push(ticket);
            }
        }
    }

    pub(super) fn clean_up_by_lifeline(&mut self, now: Instant, number: HoldNumber) {
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.clean_up.by_lifeline = true;
            self.attend(now, number);
        }
    }

    /// Sends the lowering of a count that no caller lowers, as soon as there is room for it.
    pub(super) fn lower_by_lifeline(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        if !self.to_lower.has_room(self.pending.lowerings()) {
            hold.clean_up.queued = true;
            self.to_lower.push(hold.lock, number);
            return;
        }
        hold.note_repeat(now);
        let target = hold.count.wanted();
        let call = give(now, &self.locks[hold.lock], hold, &self.settings);
        self.begin_change(now, number, None, Aim::Lower(target), Self::by_lifeline(), &call);
        let id = self.call_by_lifeline(call);
        self.pending.insert(id, Purpose::Lowering(number));
    }

    /// A lowering by the lifeline has come to an end, which says how many more the server stands.
    pub(super) fn note_lowered(&mut self, now: Instant, number: HoldNumber, answered: bool) {
        let sent_at = self.holds.get(&number).and_then(|hold| hold.change.as_ref()).map(|change| change.sent_at);
        match sent_at.filter(|_| answered) {
            Some(sent_at) => self.to_lower.answered(now.since(sent_at)),
            None => self.to_lower.not_answered(),
        }
    }

    /// There is room for lowerings that had to wait.
    pub(super) fn lower_more(&mut self, now: Instant) {
        while self.to_lower.has_room(self.pending.lowerings())
            && let Some(number) = self.to_lower.pop()
        {
            if let Some(hold) = self.holds.get_mut(&number) {
                hold.clean_up.queued = false;
                self.attend(now, number);
            }
        }
    }

    /// Takes the outcome of a lowering, of a caller or of the lifeline.
    pub(super) fn handle_lowered(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let decoded = match result {
            Ok(reply) => {
                let verbs = self.verbs_of(number);
                verbs.released(&reply).map_err(|error| LinkError::Unknown(error.to_string()))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &decoded {
            self.not_lowered(now, number, error);
            return;
        }
        let Some(change) = self.end_change(number) else { return };
        let Aim::Lower(target) = change.aim else { return };
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let unsure = hold.clean_up.unsure;
        let in_places = self.locks[hold.lock].kind.verbs().line() == Line::Places;
        let outcome = match decoded {
            Ok(Released::Ended | Released::Lowered) => Ok(()),
            // An earlier copy ended it, inside a lease that was proven.
            Ok(Released::Gone) if unsure == Some(true) && target == 0 => Ok(()),
            // The server never had it, or not for certain.
            Ok(Released::Gone) if hold.degraded => Ok(()),
            _ => Err(ReleaseError::Lost(LossReason::Removed)),
        };
        let gone = decoded == Ok(Released::Gone);
        hold.count.set_on_server(if gone { 0 } else { target });
        hold.cell.set_count(hold.count.on_server());
        hold.clean_up.tries = 0;
        hold.clean_up.unsure = None;
        hold.clean_up.doubted_since = None;
        hold.clean_up.perhaps_lowered = false;
        let done = !hold.count.is_high();
        hold.clean_up.by_lifeline &= !done;
        // If more guards were dropped meanwhile, waiting releases complete only when the lower count is reached.
        let waiting = if done { std::mem::take(&mut hold.waiting) } else { Vec::new() };
        let name = self.locks[hold.lock].name.clone();
        let is_release = |ticket: &Ticket| matches!(self.requests.get(ticket), Some(Request::Release(_)));
        let was_released = change.by.is_some() || waiting.iter().any(is_release);
        let (live, repeated) = (hold.is_live(), hold.clean_up.repeats != Repeats::No);
        let lost = hold.lost(now, name.clone(), LossReason::Removed);
        // Whatever there was is gone: what may still come is a copy, which is not waited for longer than a lease.
        if std::mem::take(&mut hold.placed) || in_places || hold.count.on_server() == 0 {
            hold.clean_up.until = hold.clean_up.until.min(now + hold.lease);
        }
        // A hold without a lease leaves a record, which refuses late copies of its acquire.
        let leased = self.locks[hold.lock].kind.verbs().renewal().is_some();
        if leased && hold.clean_up.unproven && hold.count.wanted() == 0 && now < hold.clean_up.until {
            hold.expect_late_copies(now + self.settings.command_timeout * 2);
        }
        if gone && live {
            self.lose(now, number, LossReason::Removed);
        } else if outcome.is_err() && was_released {
            self.out.tell(lost);
        }
        if change.by.is_none() && waiting.is_empty() && !repeated {
            self.out.tell(Event::CleanedUp { name });
        }
        for ticket in change.by.into_iter().chain(waiting) {
            self.finish_release(ticket, outcome.clone());
            self.undone(now, ticket, number);
            self.wake(ticket);
        }
        self.attend(now, number);
    }

    /// A lowering failed: the lifeline repeats it.
    fn not_lowered(&mut self, now: Instant, number: HoldNumber, error: &LinkError) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let by = hold.change.as_ref().and_then(|change| change.by);
        let aim = hold.change.as_ref().map(|change| change.aim);
        // The count that was asked for is higher than that of releases that came meanwhile: they wait for a command of their own.
        let superseded = matches!(aim, Some(Aim::Lower(target)) if target > hold.count.wanted());
        // Entries that wait go on waiting; this is about releases.
        let is_release = |ticket: &Ticket| matches!(self.requests.get(ticket), Some(Request::Release(_)));
        let others = hold.waiting.iter().copied().filter(|_| !superseded);
        let waiting: Vec<_> = by.into_iter().chain(others).filter(is_release).collect();
        hold.clean_up.by_lifeline = true;
        hold.clean_up.tries += 1;
        // Clean-up is in no hurry.
        hold.clean_up.not_before = now + retry::pause_before(hold.clean_up.tries + 1);
        if let Some(ticket) = by
            && !hold.waiting.contains(&ticket)
        {
            hold.waiting.push(ticket);
        }
        match error {
            LinkError::Unknown(_) => self.unsettle(number),
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
            && let Some(hold) = self.holds.get(&number)
        {
            let name = self.locks[hold.lock].name.clone();
            self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting: error.is_lasting() });
        }
        for ticket in waiting {
            self.limit_wait(now, ticket, number);
        }
        self.attend(now, number);
    }

    /// The server will refuse the lowering again until an operator changes something: releases that wait for it are told so.
    fn lowering_refused(&mut self, now: Instant, number: HoldNumber, refusal: &ServerError, releases: &[Ticket]) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let text = refusal.text().to_owned();
        // The refusal speaks for this copy only.
        let unsure = hold.clean_up.perhaps_lowered;
        let refused = if unsure { ReleaseError::OutcomeUnknown(text) } else { ReleaseError::Refused(text) };
        if !refusal.proves_nothing_done() {
            hold.doubt_lowering();
        }
        hold.change = None;
        let is_undoing = |ticket: &Ticket| matches!(self.requests.get(ticket), Some(Request::Acquire(acquire)) if acquire.undoing.is_some());
        let (undoing, others) = std::mem::take(&mut hold.waiting).into_iter().partition::<Vec<_>, _>(is_undoing);
        hold.waiting = others.into_iter().filter(|ticket| !releases.contains(ticket)).collect();
        for ticket in undoing {
            self.undone_later(now, ticket, refusal.text());
        }
        for ticket in releases {
            self.finish_release(*ticket, Err(refused.clone()));
        }
    }

    /// A caller waits while the lease may last, and not longer than for any server that is out of reach.
    fn limit_wait(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        let reach = now + self.settings.unreachable_after;
        let limit = reach.min(hold.cell.deadline()).max(now + self.settings.command_timeout);
        if let Some(Request::Release(release)) = self.requests.get_mut(&ticket)
            && release.timer.is_none()
            && release.outcome.is_none()
        {
            self.timers.set(Timer::Request(ticket), &mut release.timer, Some(limit));
        }
    }

    /// A caller has waited long enough for the outcome of its release.
    pub(super) fn give_up_release(&mut self, ticket: Ticket, number: HoldNumber) {
        // Another copy may be on its way at this moment.
        let unsure = self.holds.get(&number).is_some_and(|hold| hold.clean_up.perhaps_lowered || hold.change.is_some());
        let why = "no reply came in time; the release is repeated in the background".to_owned();
        let error = if unsure { ReleaseError::OutcomeUnknown(why) } else { ReleaseError::Unreachable(why) };
        self.finish_release(ticket, Err(error));
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.waiting.retain(|waiting| *waiting != ticket);
        }
    }
}
