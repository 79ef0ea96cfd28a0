//! The replies to releases: what is done, what is told, and what is repeated.

use crate::command::{Released, WaitPolicy};
use crate::error::{LossReason, ReleaseError};
use crate::link::{LinkError, ServerError};
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::hold::change::CountChange;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::{Event, Ticket};
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Takes the outcome of a lowering, of a caller or of the background.
    pub(super) fn handle_lowered(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let protocol = self.protocol_of(number);
        let decode = |reply| protocol.released(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let released = match result.and_then(decode) {
            Ok(released) => released,
            Err(error) => return self.not_lowered(now, number, &error),
        };
        let Some(change) = self.end_change(number) else { return };
        let CountChange::LowerTo(target) = change.aim() else { return };
        if let (Released::EndedBefore(listeners), Some(hold)) = (released, self.holds.get(number)) {
            self.note_listeners(hold.lock(), listeners);
        }
        let Some(hold) = self.holds.known_mut(number) else { return };
        // An earlier copy would keep the lock busy still, and the reply would say so, if as much as a millisecond was asked for.
        let would_be_kept = hold.left_of_least_time(now) >= Duration::from_millis(1);
        let in_time = hold.was_perhaps_released_in_time() && !would_be_kept;
        let in_places = self.locks[hold.lock()].wait_policy() == WaitPolicy::ServerQueue;
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
        let name = self.locks[hold.lock()].name().clone();
        let is_release = |ticket: &Ticket| self.requests.is_release(*ticket);
        let was_released = change.by().is_some() || waiting.iter().any(is_release);
        let (live, repeated) = (hold.is_live(), hold.is_repeated());
        let lost = (outcome.is_err() && was_released).then(|| hold.lost(now, name.clone(), LossReason::Removed));
        // A hold without a lease leaves a record, which refuses late copies of its acquire.
        let leased = self.locks[hold.lock()].protocol().renewal().is_some();
        if leased && hold.may_come_back(now) {
            hold.expect_late_copies(now + self.settings.command_timeout * 2);
        }
        if gone && live {
            self.lose(now, number, LossReason::Removed);
        } else if let Some(lost) = lost {
            self.out.tell(lost);
        }
        if change.by().is_none() && waiting.is_empty() && !repeated {
            self.out.tell(Event::CleanedUp { name });
        }
        for ticket in change.by().into_iter().chain(waiting) {
            self.finish_release(ticket, outcome.clone());
            self.note_taken_back(now, ticket, number);
            self.wake(ticket);
        }
        self.reconcile(now, number);
    }

    /// A lowering failed: the background repeats it.
    fn not_lowered(&mut self, now: Instant, number: HoldNumber, error: &LinkError) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        let by = hold.change().and_then(|change| change.by());
        let aim = hold.change().map(|change| change.aim());
        // The count that was asked for is higher than that of releases that came meanwhile: they wait for a command of their own.
        let superseded = matches!(aim, Some(CountChange::LowerTo(target)) if target > hold.wanted());
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
                    hold.lower_at_once(now);
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
            let name = self.locks[hold.lock()].name().clone();
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
        let unsure = hold.is_perhaps_lowered();
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

#[cfg(test)]
mod tests {
    use crate::call::Call;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn release(session: &mut Session) -> Option<(CallId, Call)> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } => Some((id, call)),
            _ => None,
        })
    }

    #[test]
    fn late_copy_just_before_its_lease_ends_is_taken_back() {
        // With and without a repetition before that.
        for lease in [250, 4_000].map(Duration::from_millis) {
            let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
            let name = LockName::new("", "stock").expect("a name");
            let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, lease));
            let step = session.step_acquire(NOW, ticket, Waker::noop());
            let Step::Send(id, _) = step else { panic!("{step:?}") };
            session.abandon_acquire(NOW, ticket);
            session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
            let settles = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Settle { id, .. } => Some(id),
                _ => None,
            });
            session.handle_settled(NOW, settles.expect("a settlement"), Ok(Settled::Unproven));
            let (mut now, mut last) = (NOW, None);
            loop {
                while let Some((id, call)) = release(&mut session) {
                    assert_eq!(call.script().name(), "lock/release");
                    // The server has nothing of it yet.
                    session.handle_called(now, id, Ok(Reply::Int(-1)));
                    last = Some(now);
                }
                let Some(next) = session.poll_timeout() else { break };
                now = next;
                session.handle_timeout(now);
            }
            assert!(last >= Some(NOW + lease), "{last:?} is before the end of the lease of {lease:?}");
            assert_eq!(session.stats().cleaning_up, 0, "it ends");
        }
    }
}
