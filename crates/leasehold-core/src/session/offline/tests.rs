use super::*;

mod fallback {
    use super::*;
    use crate::command::Kind;
    use crate::link::LinkError;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LEASE: Duration = Duration::from_secs(4);

    fn granted() -> Result<Reply, LinkError> {
        Ok(Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec()))
    }

    #[test]
    fn restored_hold_survives_an_older_grant() {
        let settings = Settings { unreachable_after: Duration::ZERO, ..Settings::default() };
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1);
        let name = || LockName::new("", "stock").expect("a name");
        let asks = |session: &mut Session, request: AcquireRequest| {
            let ticket = session.acquire(NOW, request);
            let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
            (ticket, flight)
        };
        // Each of them asks for a place of its own. The server grants this one, and what it granted ends there before the reply comes.
        let (_other, granting) = asks(&mut session, AcquireRequest::new(name(), Kind::Fair, LEASE));
        let local = AcquireRequest { fallback: Fallback::Local, ..AcquireRequest::new(name(), Kind::Fair, LEASE) };
        let (ticket, mut flight) = asks(&mut session, local);
        let guard = loop {
            session.handle_called(NOW, flight, Err(LinkError::NotSent("not connected".to_owned())));
            match session.step_acquire(NOW, ticket, Waker::noop()) {
                Step::Send(again, _) => flight = again,
                Step::Done(Ok(Some(guard))) => break guard,
                step => panic!("it falls back: {step:?}"),
            }
        };
        let later = NOW + RESTORE_INTERVAL;
        session.handle_timeout(later);
        let call = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/acquire" => Some(id),
            _ => None,
        });
        session.handle_called(later, call.expect("the server is asked again"), granted());
        assert!(!guard.cell.is_degraded());
        session.handle_called(later, granting, granted());
        assert_eq!(guard.cell.ended(later), None, "the server granted it after the other one");
    }
}

mod wait_at_gate {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, LinkEvent};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::request::AcquireOutcome;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Fallback, Granted, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const NONE: [&str; 0] = [];
    /// Shorter than a command may take.
    const UNREACHABLE: Duration = Duration::from_millis(400);

    fn session() -> Session {
        let settings = Settings { unreachable_after: UNREACHABLE, ..Settings::default() };
        Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1)
    }

    fn request(kind: Kind, fallback: Fallback) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        AcquireRequest { fallback, ..AcquireRequest::new(name, kind, Duration::from_secs(30)) }
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket) -> Step<AcquireOutcome> {
        session.step_acquire(now, ticket, Waker::noop())
    }

    fn asks(session: &mut Session, now: Instant, request: AcquireRequest) -> (Ticket, CallId) {
        let ticket = session.acquire(now, request);
        let Step::Send(flight, _) = poll(session, now, ticket) else { panic!("it asks") };
        (ticket, flight)
    }

    fn granted() -> Result<Reply, LinkError> {
        Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec()))
    }

    /// Answers to every attempt of a request that it was not sent, until it makes no more for now.
    fn fails(session: &mut Session, now: Instant, ticket: Ticket, flight: CallId) -> Step<AcquireOutcome> {
        let mut flight = flight;
        loop {
            session.handle_called(now, flight, Err(LinkError::NotSent("not connected".to_owned())));
            match poll(session, now, ticket) {
                Step::Send(again, _) => flight = again,
                step => return step,
            }
        }
    }

    /// Has a request fail until it is granted without the server, at the instant at which that is allowed.
    fn falls_back(session: &mut Session, ticket: Ticket, flight: CallId) -> Granted {
        assert!(is_waiting(&fails(session, NOW, ticket, flight)), "it makes a pause");
        session.handle_timeout(NOW + UNREACHABLE);
        let Step::Done(Ok(Some(granted))) = poll(session, NOW + UNREACHABLE, ticket) else {
            panic!("it is granted without the server")
        };
        granted
    }

    fn is_waiting(step: &Step<AcquireOutcome>) -> bool {
        matches!(step, Step::Wait)
    }

    fn is_busy(step: &Step<AcquireOutcome>) -> bool {
        matches!(step, Step::Done(Ok(None)))
    }

    fn scripts(session: &mut Session) -> Vec<&'static str> {
        let actions = std::iter::from_fn(|| session.poll_deed());
        let scripts = actions.filter_map(|action| match action {
            Deed::Call { call, .. } => Some(call.script().name()),
            _ => None,
        });
        scripts.collect()
    }

    #[test]
    fn hold_that_passes_through_is_never_asked_for() {
        for renewed in [false, true] {
            let mut session = session();
            let request = AcquireRequest { renewed, ..request(Kind::Lock, Fallback::PassThrough) };
            let (ticket, flight) = asks(&mut session, NOW, request);
            let guard = falls_back(&mut session, ticket, flight);
            let mut now = NOW + UNREACHABLE;
            session.handle_event(now, LinkEvent::CallsReset);
            session.look_again(now, "stock");
            for _ in 0..10 {
                now = now + Duration::from_millis(100);
                session.handle_timeout(now);
            }
            assert_eq!(scripts(&mut session), NONE, "renewed: {renewed}");
            assert_eq!(guard.cell.ended(now), None);
        }
    }

    #[test]
    fn try_beside_the_line_does_not_fall_back_to_a_held_lock() {
        let mut session = session();
        let try_it = || AcquireRequest { patience: Patience::Try, ..request(Kind::Lock, Fallback::Local) };
        let (first, flight) = asks(&mut session, NOW, request(Kind::Lock, Fallback::Local));
        fails(&mut session, NOW, first, flight);
        let soon = NOW + UNREACHABLE / 2;
        let [second, third] = [(); 2].map(|()| {
            let (ticket, flight) = asks(&mut session, soon, try_it());
            assert!(is_waiting(&fails(&mut session, soon, ticket, flight)), "it makes a pause");
            ticket
        });
        let Step::Send(asked, _) = poll(&mut session, soon + UNREACHABLE / 4, second) else { panic!("it asks again") };
        let now = NOW + UNREACHABLE;
        session.handle_timeout(now);
        assert!(
            matches!(poll(&mut session, now, first), Step::Done(Ok(Some(_)))),
            "it has the lock without the server"
        );
        assert!(is_busy(&fails(&mut session, now, second, asked)), "another task has it");
        assert!(is_busy(&poll(&mut session, now, third)), "it finds the gate shut");
    }

    #[test]
    fn grant_of_what_a_task_has_without_the_server_is_given_back() {
        for patience in [Patience::Try, Patience::Forever] {
            let mut session = session();
            let (first, flight) = asks(&mut session, NOW, request(Kind::Read, Fallback::Local));
            let (second, asked) =
                asks(&mut session, NOW, AcquireRequest { patience, ..request(Kind::Write, Fallback::Fail) });
            let guard = falls_back(&mut session, first, flight);
            let now = NOW + UNREACHABLE;
            session.handle_called(now, asked, granted());
            assert!(is_waiting(&poll(&mut session, now, second)), "another task has it");
            let release = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Call { id, call } if call.script().name() == "write/release" => Some(id),
                _ => None,
            });
            session.handle_timeout(now + RESTORE_INTERVAL / 2);
            assert_eq!(scripts(&mut session), NONE, "the server may still have the other one");
            session.handle_called(now, release.expect("it is given back"), Ok(Reply::Int(1)));
            let step = poll(&mut session, now, second);
            assert!(if patience == Patience::Try { is_busy(&step) } else { is_waiting(&step) });
            session.handle_timeout(now + RESTORE_INTERVAL);
            assert_eq!((scripts(&mut session), guard.cell.ended(now)), (vec!["read/acquire"], None));
        }
    }

    #[test]
    fn request_at_the_gate_enters_what_its_own_owner_has() {
        let mut session = session();
        let owner = Some(session.new_owner());
        let of_owner = |patience| AcquireRequest { owner, patience, ..request(Kind::Lock, Fallback::Local) };
        let (first, flight) = asks(&mut session, NOW, of_owner(Patience::Forever));
        fails(&mut session, NOW, first, flight);
        let soon = NOW + UNREACHABLE / 2;
        let (second, asked) = asks(&mut session, soon, of_owner(Patience::Try));
        fails(&mut session, soon, second, asked);
        session.handle_timeout(soon);
        let Step::Send(under_way, _) = poll(&mut session, soon, first) else { panic!("it asks again") };
        let now = NOW + UNREACHABLE;
        let Step::Send(asked, _) = poll(&mut session, now, second) else { panic!("it asks again") };
        let Step::Done(Ok(Some(guard))) = fails(&mut session, now, second, asked) else { panic!("it falls back") };
        let Step::Done(Ok(Some(entered))) = fails(&mut session, now, first, under_way) else {
            panic!("it does not wait for its own owner")
        };
        assert_eq!((entered.hold, guard.cell.count()), (guard.hold, 2));
    }

    #[test]
    fn halves_of_one_client_do_not_both_fall_back() {
        for (one, other) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read)] {
            let mut session = session();
            let (first, first_flight) = asks(&mut session, NOW, request(one, Fallback::Local));
            let (second, second_flight) = asks(&mut session, NOW, request(other, Fallback::Local));
            fails(&mut session, NOW, second, second_flight);
            let guard = falls_back(&mut session, first, first_flight);
            let mut now = NOW + UNREACHABLE;
            for _ in 0..20 {
                session.handle_timeout(now);
                assert!(is_waiting(&poll(&mut session, now, second)), "{other:?} waits for {one:?}");
                now = now + Duration::from_millis(100);
            }
            session.drop_guard(now, guard.hold, guard.renewed);
            assert!(matches!(poll(&mut session, now, second), Step::Send(..)), "its turn has come");
        }
    }
}

mod restore {
    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::error::HoldEnd;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Fallback, Granted, Session};
    use crate::settings::Settings;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LEASE: Duration = Duration::from_secs(4);

    fn session() -> Session {
        let settings = Settings { unreachable_after: Duration::ZERO, ..Settings::default() };
        Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1)
    }

    fn request(renewed: bool) -> AcquireRequest {
        let request = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE);
        AcquireRequest { fallback: Fallback::Local, renewed, ..request }
    }

    /// Acquires without the server.
    fn granted(session: &mut Session, request: AcquireRequest) -> Granted {
        let ticket = session.acquire(NOW, request);
        loop {
            match session.step_acquire(NOW, ticket, Waker::noop()) {
                Step::Send(flight, _) => {
                    session.handle_called(NOW, flight, Err(LinkError::NotSent("not connected".to_owned())));
                }
                Step::Done(Ok(Some(guard))) => return guard,
                _ => panic!("it falls back"),
            }
        }
    }

    /// The call by which the server is asked for a hold.
    fn asked(session: &mut Session) -> Option<CallId> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, .. } => Some(id),
            _ => None,
        })
    }

    #[test]
    fn grant_that_comes_after_the_lease_loses_the_hold_at_once() {
        let mut session = session();
        let guard = granted(&mut session, request(false));
        let later = NOW + LEASE.mul_f64(0.9);
        session.handle_timeout(later);
        let call = asked(&mut session).expect("the server is asked");
        // What is left of the lease is over, but for the margin that a deadline keeps from the server's.
        let answered = guard.cell.deadline() - Duration::from_nanos(1);
        let left = i64::try_from(guard.cell.deadline().since(later).as_millis()).expect("a lease");
        session.handle_called(answered, call, Ok(Reply::Array([1, left, 0].map(Reply::Int).to_vec())));
        assert!(matches!(guard.cell.ended(answered), Some(HoldEnd::Lost(_))));
        let told: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
        assert!(told.iter().any(|event| matches!(event, Event::Lost { .. })), "{told:?}");
    }

    #[test]
    fn restoration_counts_once_its_replicas_have_it() {
        let mut session = session();
        let replicas = Some(Replicas { at_least: 1, within: Duration::from_millis(10) });
        let guard = granted(&mut session, AcquireRequest { replicas, ..request(true) });
        for (acknowledged, later) in [(0, NOW + RESTORE_INTERVAL), (1, NOW + RESTORE_INTERVAL * 3)] {
            session.handle_timeout(later);
            let asked = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Call { id, call } => Some((id, call.replicas())),
                _ => None,
            });
            let (call, asked) = asked.expect("the server is asked, and asked again");
            assert_eq!(asked, replicas);
            let script = Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec());
            session.handle_called(later, call, Ok(Reply::Array(vec![script, Reply::Int(acknowledged)])));
            assert_eq!(guard.cell.is_degraded(), acknowledged == 0);
        }
        assert_eq!(guard.cell.acknowledged(), Some(1));
    }

    #[test]
    fn degraded_hold_lasts_as_long_as_a_renewing_guard_of_it() {
        for is_answered in [true, false] {
            let mut session = session();
            let owner = Some(session.new_owner());
            let fixed = granted(&mut session, AcquireRequest { owner, ..request(false) });
            assert_eq!(fixed.cell.deadline(), NOW + LEASE);
            let renewing = granted(&mut session, AcquireRequest { owner, ..request(true) });
            let later = NOW + LEASE * 10;
            session.handle_timeout(later);
            assert_eq!(fixed.cell.ended(later), None);
            let call = asked(&mut session).expect("the server is asked");
            let not_sent = || Err(LinkError::NotSent("not connected".to_owned()));
            if is_answered {
                session.handle_called(later, call, not_sent());
            }
            // A session checks after every call that something watches each deadline.
            session.release(later, renewing.hold, renewing.renewed);
            assert_eq!(fixed.cell.deadline(), later + LEASE, "what is left of a lease that was renewed until now");
            if !is_answered {
                session.handle_called(later, call, not_sent());
            }
            session.handle_timeout(later + RESTORE_INTERVAL);
            assert!(asked(&mut session).is_some(), "the server is still asked");
        }
    }
}

mod link_events {
    use super::*;
    use crate::command::Kind;
    use crate::hold_cell::HoldCell;
    use crate::link::LinkEvent;
    use crate::name;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::Step;
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Acquires a lock for so many milliseconds.
    fn holds(session: &mut Session, name: &str, left: i64) -> Arc<HoldCell> {
        let name = LockName::new("", name).expect("a name");
        let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(30)));
        let Step::Send(flight, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        session.handle_called(NOW, flight, Ok(Reply::Array([1, left, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(granted))) = session.step_acquire(NOW, ticket, Waker::noop()) else {
            panic!("it is granted")
        };
        granted.cell
    }

    fn out(session: &mut Session, server: &str, slots: Option<Vec<u16>>) {
        let (server, why, lost_for) = (server.to_owned(), "refused".to_owned(), Duration::from_millis(300));
        session.handle_event(NOW, LinkEvent::OutOfReach { server, why, lost_for, slots });
    }

    fn events(session: &mut Session) -> Vec<Event> {
        std::iter::from_fn(|| session.poll_event()).collect()
    }

    #[test]
    fn outage_tells_the_holds_at_stake_and_the_first_to_be_lost() {
        let mut session = session();
        holds(&mut session, "{a}1", 20_000);
        let first = holds(&mut session, "{a}2", 10_000);
        holds(&mut session, "{a}3", 30_000);
        holds(&mut session, "{b}", 5_000);
        events(&mut session);
        out(&mut session, "one", Some(vec![name::slot(b"{a}1")]));
        let told = events(&mut session);
        let [Event::OutOfReach { holds: 3, first_lost_in, .. }] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(*first_lost_in, Some(first.deadline().since(NOW)));
        out(&mut session, "other", Some(Vec::new()));
        let told = events(&mut session);
        assert!(matches!(told.as_slice(), [Event::OutOfReach { holds: 0, first_lost_in: None, .. }]), "{told:?}");
    }

    #[test]
    fn outage_told_twice_ends_once_and_others_go_on() {
        let mut session = session();
        let later = NOW + Duration::from_millis(700);
        let told_of = |server: &str| [server.to_owned(), server.to_owned()];
        for retired in [false, true] {
            out(&mut session, "one", None);
            out(&mut session, "one", None);
            out(&mut session, "other", None);
            events(&mut session);
            for (server, awaited) in told_of("one").into_iter().zip([Some(Duration::from_secs(1)), None]) {
                let event =
                    if retired { LinkEvent::Retired { server } } else { LinkEvent::Connected { server, again: true } };
                session.handle_event(later, event);
                let told = events(&mut session);
                let [Event::Connected { out_for, .. } | Event::Retired { out_for, .. }] = told.as_slice() else {
                    panic!("{told:?}")
                };
                assert_eq!(*out_for, awaited, "from when its connection was lost");
            }
            let outages = &mut session.outages;
            assert!(outages.end("other").is_some() && outages.of(b"stock").is_none(), "{outages:?}");
        }
    }
}
