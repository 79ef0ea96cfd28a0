//! Holds that replicas must acknowledge: what their answers mean, and how an acquire that fell short is taken back.
//!
//! The server answers such a call twice over: what the script did, and how many replicas have it. The first without enough of the
//! second is a state of the primary alone, which a failover may undo. It never puts a deadline off, and an acquire that ends so is
//! taken back before its caller is told.

use super::Session;
use super::hold::Change;
use super::request::{Request, Ticket, Undoing};
use crate::call::Replicas;
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::time::Instant;

/// The script's reply, and how many replicas acknowledged it.
pub(super) fn split(reply: &Reply) -> Result<(&Reply, u32), DecodeError> {
    let [script, acknowledged] = reply.array()? else {
        return Err(DecodeError::new("an array of two", reply));
    };
    let count = u32::try_from(acknowledged.int()?);
    Ok((script, count.map_err(|_| DecodeError::new("a number of replicas", acknowledged))?))
}

/// The condition that satisfies both of the given ones.
pub(super) fn both(one: Option<Replicas>, other: Option<Replicas>) -> Option<Replicas> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

impl Change {
    /// The error that an acquire ends with which too few replicas acknowledged.
    pub(super) fn shortfall(&self) -> Option<AcquireError> {
        let wanted = self.replicas?.at_least;
        let acknowledged = self.acknowledged.unwrap_or_default();
        (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
    }
}

impl Session {
    /// The replicas that must acknowledge a hold.
    pub(super) fn replicas_of(&self, number: Option<HoldNumber>) -> Option<Replicas> {
        self.holds.get(&number?)?.replicas
    }

    /// The server has raised the count, and that does not count: it is lowered again, and then the caller is told why. The caller is
    /// told after the command timeout at the latest; the lifeline goes on lowering.
    pub(super) fn undo(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        let until = now + self.settings.command_timeout;
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            acquire.hold = None;
            acquire.undoing = Some(Undoing { outcome: Err(error), holds: vec![number], until });
        }
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.raising = None;
            hold.clean_up.by_lifeline = true;
            hold.waiting.push(ticket);
        }
        self.set_request_timer(now, ticket);
        self.attend(now, number);
    }

    /// The script of an acquire has failed, perhaps in its middle: what it has begun is taken back like a grant that does not count.
    pub(super) fn undo_refused(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        self.outlast_place(now, number);
        self.undo(now, ticket, number, error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{Epoch, LinkError, Plane, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::session::{AcquireRequest, Action, Fallback, Patience, Step, Via};
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
        assert_eq!(session.acquire_of(ticket).and_then(|acquire| acquire.timer), Some(end));
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
            session.replicas_of(Some(granted.hold))
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
