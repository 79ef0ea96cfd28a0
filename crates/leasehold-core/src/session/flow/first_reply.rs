//! The first acquire of a hold: its call, and the meaning of each reply for its request.

use crate::command::fair::Standing;
use crate::command::{Acquired, Line};
use crate::error::AcquireError;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::hold::change::Aim;
use crate::session::ids::LockId;
use crate::session::lock::Anomaly;
use crate::session::parts::Parts;
use crate::session::request::Request;
use crate::session::request::acquire::Place;
use crate::session::request::trouble::Trouble;
use crate::session::{Granted, Step, Ticket, Via};
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// Sends a first acquire, unless one is still being settled.
    pub(super) fn send_first(
        &mut self,
        now: Instant,
        ticket: Ticket,
        via: Via,
    ) -> Option<Step<Result<Option<Granted>, AcquireError>>> {
        let number = match self.requests.acquire(ticket)?.hold {
            Some(number) => number,
            None => self.begin_hold(now, ticket)?,
        };
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
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
            self.owners.add_hold(lock, owner, number);
            self.admit_owner(now, lock, owner, number);
            self.admit_readers(now, lock, owner);
        }
        if place == Place::Line {
            self.locks[lock].trouble = Trouble::default();
            self.contender_got_in(now, ticket, lock, left);
        }
    }

    /// The grant is taken back: its lease may be over at any time. A caller that has no further attempt is told when it is taken back.
    fn granted_too_late(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        let why = "the server's reply took longer than the lease";
        if self.requests.acquire(ticket).is_some_and(|acquire| acquire.last || self.end_of_wish(acquire) <= now) {
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
                let beside = self.requests.acquire(ticket).and_then(|acquire| acquire.beside.clone());
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
                let unsure = self.requests.acquire(ticket).is_some_and(|acquire| acquire.trouble.unsure);
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

    /// The gate is open for all, and there is nothing to hold.
    fn gate_opens(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, lock: LockId) {
        let granted = self.requests.acquire_mut(ticket).and_then(|acquire| acquire.outcome.clone());
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::link::{Epoch, LinkError, Plane, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::session::replicas::split;
    use crate::session::{AcquireRequest, Action, Fallback, Patience, Session, Step, Via};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const VIA: Via = Via { plane: Plane::Foreground, epoch: Epoch(1) };

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
        let Step::Send(flight, call) = session.poll_acquire(begun, ticket, VIA, Waker::noop()) else {
            panic!("it is sent at once");
        };
        assert_eq!(call.plane(VIA.plane), Plane::Durable);
        session.handle_reply(begun + later, ticket, flight, Ok(granted(1)));
        let step = session.poll_acquire(begun + later, ticket, VIA, Waker::noop());
        let actions = std::iter::from_fn(|| session.poll_action());
        let calls = actions.filter_map(|action| match action {
            Action::Call { call, .. } => Some(call.script().name()),
            _ => None,
        });
        (matches!(step, Step::Done(Ok(Some(_)))), calls.collect())
    }

    #[test]
    fn a_grant_that_is_acknowledged_after_its_deadline_is_not_handed_out() {
        assert_eq!(acquire(Duration::from_millis(3_900)), (true, vec![]));
        assert_eq!(acquire(Duration::from_millis(3_990)), (false, vec!["lock/release"]));
    }

    #[test]
    fn a_last_attempt_that_is_granted_after_its_lease_is_told_so_once_the_server_has_nothing_of_it() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let begun = Instant::from_nanos(1_000_000_000);
        let name = LockName::new("", "stock").expect("a name");
        let mut wish = AcquireRequest::new(name, Kind::Lock, Duration::from_millis(100));
        wish.patience = Patience::Until(begun + Duration::from_millis(120));
        let ticket = session.acquire(begun, wish);
        let Step::Send(flight, _) = session.poll_acquire(begun, ticket, VIA, Waker::noop()) else {
            panic!("it is sent")
        };
        let late = begun + Duration::from_millis(150);
        session.handle_timeout(late);
        let script = [1, 100, 0].map(Reply::Int).to_vec();
        session.handle_reply(late, ticket, flight, Ok(Reply::Array(script)));
        let step = session.poll_acquire(late, ticket, VIA, Waker::noop());
        assert!(matches!(step, Step::Wait), "the server still has it: {step:?}");
        let id = std::iter::from_fn(|| session.poll_action())
            .find_map(|action| match action {
                Action::Call { id, call, .. } if call.script().name() == "lock/release" => Some(id),
                _ => None,
            })
            .expect("it is released");
        session.handle_called(late, id, Epoch(1), Ok(Reply::Int(1)));
        let step = session.poll_acquire(late, ticket, VIA, Waker::noop());
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
    fn an_entry_that_was_put_off_and_then_falls_short_waits_for_its_end_alone() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let ticket = session.acquire(now, wish_of(owner));
        let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else { panic!("it is sent") };
        session.handle_reply(now, ticket, flight, Ok(granted(1)));
        let Step::Done(Ok(Some(_))) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else { panic!("granted") };
        let ticket = session.acquire(now, wish_of(owner));
        let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else { panic!("it is sent") };
        let loading = ServerError::new("LOADING the data");
        session.handle_reply(now, ticket, flight, Err(LinkError::Refused(loading)));
        // It is polled when it may try again, before the session is told that the time has come.
        let later = now + Duration::from_millis(20);
        let step = session.poll_acquire(later, ticket, VIA, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("it is sent again") };
        session.handle_reply(later, ticket, flight, Ok(granted(0)));
        let end = later + session.settings().command_timeout;
        // A timer in the past would be set again for as long as time does not pass.
        assert_eq!(session.parts.requests.acquire(ticket).and_then(|acquire| acquire.timer), Some(end));
        session.handle_timeout(later);
        session.handle_timeout(end);
        let step = session.poll_acquire(end, ticket, VIA, Waker::noop());
        assert!(
            matches!(step, Step::Done(Err(AcquireError::NotReplicated { acknowledged: 0, wanted: 1 }))),
            "{step:?}"
        );
    }

    #[test]
    fn who_wants_replicas_does_not_re_enter_what_was_granted_without_the_server() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let wish = AcquireRequest { replicas: None, fallback: Fallback::Local, ..wish_of(owner) };
        let ticket = session.acquire(now, wish.clone());
        let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else { panic!("it is sent") };
        let loading = ServerError::new("LOADING the data");
        session.handle_reply(now, ticket, flight, Err(LinkError::Refused(loading)));
        let later = now + session.settings().unreachable_after;
        session.handle_timeout(later);
        let Step::Done(Ok(Some(first))) = session.poll_acquire(later, ticket, VIA, Waker::noop()) else {
            panic!("it does without the server");
        };
        let mut enter = |wish| {
            let ticket = session.acquire(later, wish);
            session.poll_acquire(later, ticket, VIA, Waker::noop())
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
    fn an_entry_that_falls_short_takes_a_deadline_back_that_it_disproves() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let mut acquire = |now, reply: Reply| {
            let ticket = session.acquire(now, wish_of(owner));
            let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else {
                panic!("it is sent at once");
            };
            session.handle_reply(now, ticket, flight, Ok(reply));
            session.poll_acquire(now, ticket, VIA, Waker::noop())
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
    fn a_condition_that_an_entry_adds_holds_for_the_renewals_after_it() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let now = Instant::from_nanos(1_000_000_000);
        let mut acquire = |wish, reply: Reply| {
            let ticket = session.acquire(now, wish);
            let Step::Send(flight, _) = session.poll_acquire(now, ticket, VIA, Waker::noop()) else {
                panic!("it is sent at once");
            };
            session.handle_reply(now, ticket, flight, Ok(reply));
            let step = session.poll_acquire(now, ticket, VIA, Waker::noop());
            let Step::Done(Ok(Some(granted))) = step else { panic!("it is granted") };
            session.parts.replicas_of(Some(granted.hold))
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
