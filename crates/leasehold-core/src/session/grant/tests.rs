use super::*;

mod first_reply {
    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::link::{LinkError, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};

    use crate::session::tests::{Deed, Step};
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
        let mut request = AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4));
        request.replicas = Some(Replicas { at_least: 1, within: Duration::from_secs(1) });
        let ticket = session.acquire(begun, request);
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
        let mut request = AcquireRequest::new(name, Kind::Lock, Duration::from_millis(100));
        request.patience = Patience::Until(begun + Duration::from_millis(120));
        let ticket = session.acquire(begun, request);
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

    /// A request of an owner for a lock that one replica acknowledges.
    fn wish_of(owner: OwnerId) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        let mut request = AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4));
        request.replicas = Some(Replicas { at_least: 1, within: Duration::from_secs(1) });
        request.owner = Some(owner);
        request
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
        assert_eq!(session.requests.0.get(ticket).and_then(|request| request.timer), Some(end));
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
        let request = AcquireRequest { replicas: None, fallback: Fallback::Local, ..wish_of(owner) };
        let ticket = session.acquire(now, request.clone());
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it is sent") };
        let loading = ServerError::new("LOADING the data");
        session.handle_called(now, flight, Err(LinkError::Refused(loading)));
        let later = now + session.settings().unreachable_after;
        session.handle_timeout(later);
        let Step::Done(Ok(Some(first))) = session.step_acquire(later, ticket, Waker::noop()) else {
            panic!("it does without the server");
        };
        let mut enter = |request| {
            let ticket = session.acquire(later, request);
            session.step_acquire(later, ticket, Waker::noop())
        };
        let step = enter(wish_of(owner));
        assert!(
            matches!(step, Step::Done(Err(AcquireError::NotReplicated { acknowledged: 0, wanted: 1 }))),
            "{step:?}"
        );
        let step = enter(request);
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
        let mut acquire = |request, reply: Reply| {
            let ticket = session.acquire(now, request);
            let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else {
                panic!("it is sent at once");
            };
            session.handle_called(now, flight, Ok(reply));
            let step = session.step_acquire(now, ticket, Waker::noop());
            let Step::Done(Ok(Some(granted))) = step else { panic!("it is granted") };
            session.holds.get(granted.hold).and_then(|hold| hold.replicas())
        };
        let plain = Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec());
        assert_eq!(acquire(AcquireRequest { replicas: None, ..wish_of(owner) }, plain), None);
        let wanted = Replicas { at_least: 1, within: Duration::from_secs(1) };
        assert_eq!(acquire(wish_of(owner), granted(1)), Some(wanted));
    }

    #[test]
    fn a_reply_without_a_number_of_replicas_is_none() {
        let two = Some(Replicas { at_least: 2, within: Duration::ZERO });
        assert!(split_acknowledged(&granted(2), two).is_ok_and(|(_, acknowledged)| acknowledged == Some(2)));
        for reply in [Reply::Nil, Reply::Array(vec![Reply::Int(1)]), granted(-1)] {
            assert!(split_acknowledged(&reply, two).is_err(), "{reply:?}");
        }
    }
}

mod unread {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LATER: Instant = Instant::from_nanos(1_200_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    fn request(kind: Kind, owner: Option<OwnerId>) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        AcquireRequest { owner, ..AcquireRequest::new(name, kind, Duration::from_secs(30)) }
    }

    /// Sends an acquire, and replies with `code`.
    fn answered(session: &mut Session, request: AcquireRequest, code: i64) -> Ticket {
        let ticket = session.acquire(NOW, request);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(id, _) = step else { panic!("it asks: {step:?}") };
        session.handle_called(NOW, id, Ok(Reply::Array([code, 30_000, 0].map(Reply::Int).to_vec())));
        ticket
    }

    /// Lets an unread grant expire, and replies to the calls that follow.
    fn miss(session: &mut Session) {
        session.handle_timeout(LATER);
        while let Some(deed) = session.poll_deed() {
            if let Deed::Call { id, .. } = deed {
                session.handle_called(LATER, id, Ok(Reply::Int(1)));
            }
        }
    }

    #[test]
    fn unread_read_beside_its_own_writer_is_asked_for_beside_it_again() {
        let mut session = session();
        let owner = Some(session.new_owner());
        let write = answered(&mut session, request(Kind::Write, owner), 1);
        let step = session.step_acquire(NOW, write, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(Some(_)))), "{step:?}");
        let other = answered(&mut session, request(Kind::Read, None), 0);
        assert!(matches!(session.step_acquire(NOW, other, Waker::noop()), Step::Wait), "the writer keeps it out");
        let read = answered(&mut session, request(Kind::Read, owner), 1);
        miss(&mut session);
        let step = session.step_acquire(LATER, read, Waker::noop());
        assert!(matches!(step, Step::Send(..)), "{step:?}");
    }

    #[test]
    fn unread_re_entry_enters_the_same_hold_again() {
        let mut session = session();
        let first = answered(&mut session, request(Kind::Lock, None), 1);
        let Step::Done(Ok(Some(guard))) = session.step_acquire(NOW, first, Waker::noop()) else { panic!("a guard") };
        let reenter = Some(guard.hold);
        let again = answered(&mut session, AcquireRequest { reenter, ..request(Kind::Lock, None) }, 1);
        miss(&mut session);
        let step = session.step_acquire(LATER, again, Waker::noop());
        let Step::Send(_, call) = step else { panic!("it asks: {step:?}") };
        assert_eq!(&call.args()[1], b"2", "it does not ask for a hold of its own");
    }

    #[test]
    fn call_given_up_before_it_left_is_not_sent() {
        let mut session = session();
        let ticket = session.acquire(NOW, request(Kind::Lock, None));
        assert!(session.poll_acquire(NOW, ticket, Waker::noop()).is_pending());
        session.handle_timeout(NOW + Duration::from_secs(10));
        assert!(session.poll_call().is_none());
    }
}

mod give_up {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    /// The reply with a place behind a holder.
    const PLACED: [i64; 6] = [4, 4_000, 0, 1, 1, 0];
    const GRANTED: [i64; 3] = [1, 4_000, 0];
    const BUSY: [i64; 3] = [0, -1, 0];

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    fn asks(session: &mut Session, patience: Patience) -> (Ticket, CallId) {
        let name = LockName::new("", "stock").expect("a name");
        let request = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4)) };
        let ticket = session.acquire(NOW, request);
        let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        (ticket, flight)
    }

    fn replied(session: &mut Session, now: Instant, (_ticket, flight): (Ticket, CallId), parts: &[i64]) {
        let reply = Reply::Array(parts.iter().copied().map(Reply::Int).collect());
        session.handle_called(now, flight, Ok(reply));
    }

    /// The withdrawal that the background sends.
    fn withdrawal(session: &mut Session) -> Option<CallId> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/release" => Some(id),
            _ => None,
        })
    }

    #[test]
    fn elapsed_wait_is_told_when_the_place_is_gone() {
        for answered in [true, false] {
            let mut session = session();
            let end = NOW + Duration::from_millis(20);
            let waiter = asks(&mut session, Patience::Until(end));
            replied(&mut session, end, waiter, &PLACED);
            assert!(matches!(session.step_acquire(end, waiter.0, Waker::noop()), Step::Wait));
            let id = withdrawal(&mut session).expect("a withdrawal");
            let mut now = end;
            if answered {
                session.handle_called(end, id, Ok(Reply::Int(-1)));
            } else {
                now = end + session.settings().command_timeout;
                session.handle_timeout(now);
            }
            let step = session.step_acquire(now, waiter.0, Waker::noop());
            assert!(matches!(step, Step::Done(Err(AcquireError::WaitElapsed))), "{answered}: {step:?}");
        }
    }

    #[test]
    fn try_crossing_a_withdrawal_asks_exactly_once_more() {
        for (second, granted) in [(&GRANTED, true), (&BUSY, false)] {
            let mut session = session();
            let waiter = asks(&mut session, Patience::Forever);
            replied(&mut session, NOW, waiter, &PLACED);
            session.abandon_acquire(NOW, waiter.0);
            let id = withdrawal(&mut session).expect("a withdrawal");
            let (ticket, flight) = asks(&mut session, Patience::Try);
            replied(&mut session, NOW, (ticket, flight), &BUSY);
            assert!(matches!(session.step_acquire(NOW, ticket, Waker::noop()), Step::Wait));
            session.handle_called(NOW, id, Ok(Reply::Int(0)));
            let step = session.step_acquire(NOW, ticket, Waker::noop());
            let Step::Send(flight, _) = step else { panic!("it asks once more: {step:?}") };
            replied(&mut session, NOW, (ticket, flight), second);
            let Step::Done(outcome) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("no end") };
            assert_eq!(outcome.expect("an answer").is_some(), granted);
        }
    }

    #[test]
    fn a_try_does_not_wait_for_a_withdrawal_that_nobody_answers() {
        let mut session = session();
        let waiter = asks(&mut session, Patience::Forever);
        replied(&mut session, NOW, waiter, &PLACED);
        session.abandon_acquire(NOW, waiter.0);
        let (ticket, flight) = asks(&mut session, Patience::Try);
        replied(&mut session, NOW, (ticket, flight), &BUSY);
        let later = NOW + session.settings().command_timeout;
        session.handle_timeout(later);
        let step = session.step_acquire(later, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }

    #[test]
    fn a_try_beside_which_nothing_is_given_up_asks_once() {
        let mut session = session();
        let (ticket, flight) = asks(&mut session, Patience::Try);
        replied(&mut session, NOW, (ticket, flight), &BUSY);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }
}
