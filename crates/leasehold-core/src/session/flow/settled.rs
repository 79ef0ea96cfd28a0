//! Calls whose outcome was not known, and that are settled or taken over by the background.

use crate::command::Acquired;
use crate::link::{LinkError, Settled};
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::hold::change::Change;
use crate::session::hold::clean_up::AfterSettling;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::settlements::Answered;
use crate::session::{CallId, Event, FlightId, Ticket};
use crate::time::Instant;

impl Parts {
    /// No copy of the hold's change can be applied any more, as far as that can be known.
    pub(super) fn change_settled(&mut self, now: Instant, number: HoldNumber, proven: bool) {
        // It may have been applied until now.
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        match hold.note_settled(now, proven) {
            AfterSettling::TryAgain(ticket) => self.retry_after_settlement(now, ticket),
            AfterSettling::TakeBack => {}
        }
        self.reconcile(now, number);
    }

    /// A future has not been polled although its call was answered: the background goes on in its place. It settles the call first, because
    /// the future may be polled yet, and send the call once more.
    pub(super) fn take_call_over(&mut self, now: Instant, number: HoldNumber, flight: FlightId) {
        if !self.is_flying(number, flight) {
            return;
        }
        self.outlast_place(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        let Some(ticket) = hold.change().and_then(Change::by) else { return };
        hold.doubt_lowering();
        hold.stop_raising(ticket);
        match self.requests.get_mut(&ticket) {
            Some(Request::Acquire(acquire)) => {
                acquire.note_takeover();
                let name = self.locks[hold.lock()].name().clone();
                self.out.tell(Event::UnpolledTurn { name });
                self.turn_missed(now, ticket);
            }
            Some(Request::Release(_)) => hold.wait(ticket),
            Some(Request::Pause(_)) | None => {}
        }
        self.begin_settling(number);
        self.note_given_up(number);
        if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt()) {
            self.end_busy(now, ticket);
        }
        self.wake(ticket);
    }

    /// See [`Session::handle_settled`](crate::session::Session::handle_settled).
    pub(crate) fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        let spread = || self.rng.f64();
        match self.settlements.answered(now, id, result.is_ok(), spread) {
            Answered::Nothing => {}
            Answered::Done { scope, key, settled, late } => {
                for number in settled {
                    self.change_settled(now, number, result == Ok(Settled::Proven));
                }
                for number in late {
                    self.settle(scope.0, scope.1, key.clone(), number);
                }
            }
            Answered::Failed(first) => {
                let lock = first.and_then(|number| self.holds.get(number)).map(|hold| hold.lock());
                if let (Some(lock), Err(error)) = (lock, result) {
                    let name = self.locks[lock].name().clone();
                    let lasting = error.is_lasting();
                    self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting });
                }
            }
        }
    }

    /// Takes the outcome of an acquire. `None` where it is not known: the call is settled first, and a request that has no
    /// more time for that is told so.
    pub(super) fn end_raise(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) -> Option<(Change, Result<Acquired, LinkError>)> {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        if let Err(LinkError::Unknown(why)) = &outcome {
            self.record_failure(now, ticket, why, true);
            self.begin_settling(number);
            if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt()) {
                let error = self.failure_error(ticket);
                self.fail_acquire(now, ticket, error);
            }
            return None;
        }
        if outcome.is_ok() {
            self.outages.note_answer();
            // What the change asked for counts, and not only what the hold asks for without it.
            self.extend_clean_up(now, number);
            return Some((self.end_change(number)?, outcome));
        }
        let change = self.end_change(number)?;
        self.extend_clean_up(now, number);
        Some((change, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{Epoch, Plane};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::{AcquireRequest, Action, Session, Step, Ticket, Via};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends the first acquire of a lock.
    fn asks(session: &mut Session, now: Instant, lock: &str) -> (Ticket, FlightId) {
        let name = LockName::new("", lock).expect("a name");
        let ticket = session.acquire(now, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
        let step = session.poll_acquire(now, ticket, via, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("a free lock is asked for at once: {step:?}") };
        (ticket, flight)
    }

    /// The probes that are to be made now.
    fn probes(session: &mut Session) -> Vec<CallId> {
        let actions = std::iter::from_fn(|| session.poll_action());
        actions.filter_map(|action| if let Action::Probe { id, .. } = action { Some(id) } else { None }).collect()
    }

    #[test]
    fn call_resent_after_a_probe_has_its_time_from_then_on() {
        let mut session = session();
        let (ticket, flight) = asks(&mut session, NOW, "a");
        let later = NOW + Settings::PROBE_AFTER;
        session.handle_timeout(later);
        let probes = probes(&mut session);
        session.handle_probed(later, probes[0], Ok(()));
        assert!(session.may_resend(later + Duration::from_millis(1), ticket, flight), "the script was not known");
        session.handle_timeout(later + Kind::Lock.protocol().wait_policy().unpolled(session.settings()));
        assert!(session.is_current(ticket, flight, Waker::noop()), "the reply to its text may be under way");
    }

    #[test]
    fn a_probe_says_nothing_of_a_call_that_was_sent_after_it() {
        let mut session = session();
        let (first, first_flight) = asks(&mut session, NOW, "a");
        let later = NOW + Settings::PROBE_AFTER;
        session.handle_timeout(later);
        let probes = probes(&mut session);
        assert_eq!(probes.len(), 1, "the call takes long");
        let sent = later + Duration::from_millis(1);
        let (second, second_flight) = asks(&mut session, sent, "b");
        session.handle_probed(sent, probes[0], Ok(()));
        // The callers do not poll. The first is known to have been answered; of the second nothing is known.
        let unpolled = Kind::Lock.protocol().wait_policy().unpolled(session.settings());
        session.handle_timeout(sent + unpolled + sent.since(later) * 2);
        assert!(!session.is_current(first, first_flight, Waker::noop()), "the background goes on in its place");
        assert!(session.is_current(second, second_flight, Waker::noop()), "its reply may be under way");
    }

    #[test]
    fn late_executor_keeps_its_grant_when_late_for_the_probe() {
        let ms = Duration::from_millis;
        // When the answer to the probe comes, and how long the future is given from there on.
        for (answered, given) in [(ms(0), ms(40)), (ms(60), ms(160)), (ms(700), ms(540))] {
            let mut session = session();
            let (ticket, flight) = asks(&mut session, NOW, "a");
            let begun = NOW + Settings::PROBE_AFTER;
            session.handle_timeout(begun);
            let probes = probes(&mut session);
            session.handle_probed(begun + answered, probes[0], Ok(()));
            session.handle_timeout(begun + answered + given - ms(1));
            assert!(session.is_current(ticket, flight, Waker::noop()), "answered after {answered:?}");
            session.handle_timeout(begun + answered + given);
            assert!(!session.is_current(ticket, flight, Waker::noop()), "answered after {answered:?}");
        }
    }
}
