//! The replies to the first acquire of a hold, and the meaning of each for its request.

use crate::command::Acquired;
use crate::command::fair::Standing;
use crate::error::AcquireError;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::Ticket;
use crate::session::hold::change::Change;
use crate::session::lock::Anomaly;
use crate::session::parts::Parts;
use crate::time::Instant;

impl Parts {
    /// Takes the outcome of a first acquire.
    pub(super) fn handle_first_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) {
        let Some((change, outcome)) = self.end_raise(now, ticket, number, result) else { return };
        let acquired = match outcome {
            Ok(acquired) => acquired,
            Err(error) => return self.first_failed(now, ticket, number, &change, error),
        };
        self.note_time(change.sent_at(), acquired.time());
        match acquired {
            Acquired::Held { left, token, in_all, .. } => {
                self.handle_first_grant(now, ticket, number, &change, left, token, in_all);
            }
            Acquired::Busy { left, .. } => {
                self.forget_begun(now, ticket, number);
                self.note_endless(ticket, left);
                self.busy(now, ticket, left);
            }
            Acquired::Unset { .. } => {
                self.forget_begun(now, ticket, number);
                self.note_anomaly(ticket, Some(Anomaly::Unset));
                self.busy(now, ticket, None);
            }
            Acquired::TooLate { .. } => {
                self.forget_begun(now, ticket, number);
                // Never resend a last attempt: its time is up.
                let was_last = self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt());
                if !was_last && self.may_resend_now(ticket, change.sent_at()) {
                    self.resend_now(now, ticket);
                    return;
                }
                self.try_later(now, ticket, "the server received the command too late");
            }
            Acquired::Placed { left, time, moved, head, foreign } => {
                self.placed(now, ticket, number, moved, Standing { left, time, head, foreign });
            }
            Acquired::Withdrawn => {
                self.forget_begun(now, ticket, number);
                self.try_later(now, ticket, "the server had a withdrawal of this hold");
            }
            Acquired::Kind(kind) => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::KeyConflict(kind));
            }
            Acquired::UpgradeNotSupported => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::UpgradeNotSupported);
            }
            Acquired::ExceedsCapacity { capacity } => {
                self.forget_begun(now, ticket, number);
                self.fail_acquire(now, ticket, AcquireError::ExceedsCapacity { capacity });
            }
            // Neither can answer a first acquire of a hold that was never granted: the server is not what we think it is.
            Acquired::Mismatch | Acquired::Lost => {
                self.fail_acquire(now, ticket, AcquireError::OutcomeUnknown("the hold count is not ours".to_owned()));
            }
        }
    }

    /// The server did not do its part, and has nothing of the request: it asks again after a pause.
    fn try_later(&mut self, now: Instant, ticket: Ticket, why: &str) {
        self.record_failure(now, ticket, why, false);
        self.back_off(now, ticket);
    }

    /// The server refused a first acquire, or it was not sent: the request ends, or it is sent again.
    fn first_failed(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, change: &Change, error: LinkError) {
        match error {
            LinkError::Refused(error) if !error.proves_nothing_done() || !error.is_transient() => {
                // The refusal speaks for this copy only.
                let unsure =
                    self.requests.acquire(ticket).is_some_and(|acquire| acquire.failures().is_outcome_unknown());
                let told = if unsure {
                    AcquireError::OutcomeUnknown(error.text().to_owned())
                } else {
                    AcquireError::Refused(error.clone())
                };
                if !error.proves_nothing_done() {
                    self.take_back_refused(now, ticket, number, told);
                    return;
                }
                if error.is_out_of_memory() {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                self.fail_acquire(now, ticket, told);
            }
            error => {
                if matches!(error, LinkError::Refused(_)) {
                    self.forget_refused(now, ticket, number);
                } else {
                    self.forget_first(now, ticket, number);
                }
                if error.is_worth_going_again() && self.may_resend_now(ticket, change.sent_at()) {
                    self.resend_now(now, ticket);
                    return;
                }
                self.retry_later(now, ticket, change, &error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::link::{LinkError, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::session::replicas::split;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, Fallback, Patience, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    /// A grant with so many milliseconds of lease, and how many replicas acknowledged it.
    fn granted_for(millis: i64, acknowledged: i64) -> Reply {
        let script = [1, millis, 0].map(Reply::Int).to_vec();
        Reply::Array(vec![Reply::Array(script), Reply::Int(acknowledged)])
    }

    fn granted(acknowledged: i64) -> Reply {
        granted_for(4_000, acknowledged)
    }

    /// Acquires with one replica, and hands in the grant so much later; tells whether it was handed out, and what was done then.
    fn acquire(later: Duration) -> (bool, Vec<&'static str>) {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let begun = Instant::from_nanos(1_000_000_000);
        let name = LockName::new("", "stock").expect("a name");
        let mut wish = AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4));
        wish.replicas = Some(Replicas { at_least: 1, within: Duration::from_secs(1) });
        let ticket = session.acquire(begun, wish);
        let Step::Send(flight, call) = session.step_acquire(begun, ticket, Waker::noop()) else {
            panic!("it is sent at once");
        };
        assert!(call.replicas().is_some());
        session.handle_called(begun + later, flight, Ok(granted(1)));
        let step = session.step_acquire(begun + later, ticket, Waker::noop());
        let actions = std::iter::from_fn(|| session.poll_deed());
        let calls = actions.filter_map(|action| match action {
            Deed::Call { call, .. } => Some(call.script().name()),
            _ => None,
        });
        (matches!(step, Step::Done(Ok(Some(_)))), calls.collect())
    }

    #[test]
    fn grant_acknowledged_after_its_deadline_is_not_handed_out() {
        assert_eq!(acquire(Duration::from_millis(3_900)), (true, vec![]));
        assert_eq!(acquire(Duration::from_millis(3_990)), (false, vec!["lock/release"]));
    }

    #[test]
    fn last_attempt_granted_too_late_is_told_once_taken_back() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let begun = Instant::from_nanos(1_000_000_000);
        let name = LockName::new("", "stock").expect("a name");
        let mut wish = AcquireRequest::new(name, Kind::Lock, Duration::from_millis(100));
        wish.patience = Patience::Until(begun + Duration::from_millis(120));
        let ticket = session.acquire(begun, wish);
        let Step::Send(flight, _) = session.step_acquire(begun, ticket, Waker::noop()) else { panic!("it is sent") };
        let late = begun + Duration::from_millis(150);
        session.handle_timeout(late);
        let script = [1, 100, 0].map(Reply::Int).to_vec();
        session.handle_called(late, flight, Ok(Reply::Array(script)));
        let step = session.step_acquire(late, ticket, Waker::noop());
        assert!(matches!(step, Step::Wait), "the server still has it: {step:?}");
        let id = std::iter::from_fn(|| session.poll_deed())
            .find_map(|action| match action {
                Deed::Call { id, call, .. } if call.script().name() == "lock/release" => Some(id),
                _ => None,
            })
            .expect("it is released");
        session.handle_called(late, id, Ok(Reply::Int(1)));
        let step = session.step_acquire(late, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Err(AcquireError::Unreachable(_)))), "{step:?}");
    }

    /// A wish of an owner for a lock that one replica acknowledges.
    fn wish_of(owner: OwnerId) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        let mut wish = AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4));
        wish.replicas = Some(Replicas { at_least: 1, within: Duration::from_secs(1) });
        wish.owner = Some(owner);
        wish
    }

    #[test]
    fn deferred_entry_short_of_replicas_waits_for_its_end_alone() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let ticket = session.acquire(now, wish_of(owner));
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it is sent") };
        session.handle_called(now, flight, Ok(granted(1)));
        let Step::Done(Ok(Some(_))) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("granted") };
        let ticket = session.acquire(now, wish_of(owner));
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it is sent") };
        let loading = ServerError::new("LOADING the data");
        session.handle_called(now, flight, Err(LinkError::Refused(loading)));
        // It is polled when it may try again, before the session is told that the time has come.
        let later = now + Duration::from_millis(20);
        let step = session.step_acquire(later, ticket, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("it is sent again") };
        session.handle_called(later, flight, Ok(granted(0)));
        let end = later + session.settings().command_timeout;
        // A timer in the past would be set again for as long as time does not pass.
        assert_eq!(session.parts.requests.acquire(ticket).and_then(|acquire| acquire.timer()), Some(end));
        session.handle_timeout(later);
        session.handle_timeout(end);
        let step = session.step_acquire(end, ticket, Waker::noop());
        assert!(
            matches!(step, Step::Done(Err(AcquireError::NotReplicated { acknowledged: 0, wanted: 1 }))),
            "{step:?}"
        );
    }

    #[test]
    fn durable_entry_of_a_degraded_hold_is_refused() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let wish = AcquireRequest { replicas: None, fallback: Fallback::Local, ..wish_of(owner) };
        let ticket = session.acquire(now, wish.clone());
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it is sent") };
        let loading = ServerError::new("LOADING the data");
        session.handle_called(now, flight, Err(LinkError::Refused(loading)));
        let later = now + session.settings().unreachable_after;
        session.handle_timeout(later);
        let Step::Done(Ok(Some(first))) = session.step_acquire(later, ticket, Waker::noop()) else {
            panic!("it does without the server");
        };
        let mut enter = |wish| {
            let ticket = session.acquire(later, wish);
            session.step_acquire(later, ticket, Waker::noop())
        };
        let step = enter(wish_of(owner));
        assert!(
            matches!(step, Step::Done(Err(AcquireError::NotReplicated { acknowledged: 0, wanted: 1 }))),
            "{step:?}"
        );
        let step = enter(wish);
        assert!(
            matches!(&step, Step::Done(Ok(Some(again))) if again.hold == first.hold && again.count == 2),
            "{step:?}"
        );
    }

    #[test]
    fn entry_short_of_replicas_takes_back_a_disproved_deadline() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let mut acquire = |now, reply: Reply| {
            let ticket = session.acquire(now, wish_of(owner));
            let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else {
                panic!("it is sent at once");
            };
            session.handle_called(now, flight, Ok(reply));
            session.step_acquire(now, ticket, Waker::noop())
        };
        let now = Instant::from_nanos(1_000_000_000);
        let Step::Done(Ok(Some(guard))) = acquire(now, granted(1)) else { panic!("it is granted") };
        assert!(guard.cell.remaining(now) > Duration::from_secs(3));
        // The server's clock has been stepped by three seconds, and its replicas are silent.
        let later = now + Duration::from_millis(500);
        assert!(matches!(acquire(later, granted_for(500, 0)), Step::Wait));
        assert!(guard.cell.remaining(later) < Duration::from_millis(500));
    }

    #[test]
    fn condition_added_by_an_entry_holds_for_later_renewals() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let mut acquire = |wish, reply: Reply| {
            let ticket = session.acquire(now, wish);
            let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else {
                panic!("it is sent at once");
            };
            session.handle_called(now, flight, Ok(reply));
            let step = session.step_acquire(now, ticket, Waker::noop());
            let Step::Done(Ok(Some(granted))) = step else { panic!("it is granted") };
            session.parts.replicas_of(granted.hold)
        };
        let plain = Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec());
        assert_eq!(acquire(AcquireRequest { replicas: None, ..wish_of(owner) }, plain), None);
        let wanted = Replicas { at_least: 1, within: Duration::from_secs(1) };
        assert_eq!(acquire(wish_of(owner), granted(1)), Some(wanted));
    }

    #[test]
    fn a_reply_without_a_number_of_replicas_is_none() {
        assert!(split(&granted(2)).is_ok_and(|(_, acknowledged)| acknowledged == 2));
        for reply in [Reply::Nil, Reply::Array(vec![Reply::Int(1)]), granted(-1)] {
            assert!(split(&reply).is_err(), "{reply:?}");
        }
    }
}
