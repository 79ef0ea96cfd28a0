use super::*;

mod beside {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn sent(session: &mut Session, ticket: Ticket) -> Option<CallId> {
        match session.step_acquire(NOW, ticket, Waker::noop()) {
            Step::Send(flight, _) => Some(flight),
            _ => None,
        }
    }

    fn reply(first: i64) -> Result<Reply, LinkError> {
        Ok(Reply::Array([first, 1_000, 0].map(Reply::Int).to_vec()))
    }

    #[test]
    fn waiter_whose_reply_was_lost_asks_again_although_busy() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let mut acquire = || {
            let name = LockName::new("", "seats").expect("a name");
            let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Semaphore, Duration::from_secs(4)));
            (ticket, sent(&mut session, ticket))
        };
        let [(_first, contends), (second, _), (third, _)] = [(); 3].map(|()| acquire());
        session.handle_called(NOW, contends.expect("it is sent"), reply(1));
        let contends = sent(&mut session, second).expect("it is the contender");
        let invited = sent(&mut session, third).expect("it is invited");
        session.handle_called(NOW, contends, reply(0));
        session.handle_called(NOW, invited, Err(LinkError::Unknown("the connection was lost".to_owned())));
        let id = std::iter::from_fn(|| session.poll_deed())
            .find_map(|action| match action {
                Deed::Settle { id, .. } => Some(id),
                _ => None,
            })
            .expect("it is settled");
        session.handle_settled(NOW, id, Ok(Settled::Proven));
        assert!(sent(&mut session, third).is_some(), "it may have the permit that all wait for");
    }

    #[test]
    fn an_invitation_is_void_once_somebody_has_found_the_lock_busy() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let request = || AcquireRequest::new(name.clone(), Kind::Read, Duration::from_secs(4));
        let tickets = [(); 6].map(|()| session.acquire(NOW, request()));
        // The contender asks, and each grant invites twice as many.
        let first = sent(&mut session, tickets[0]).expect("the first asks");
        assert!(tickets[1..].iter().all(|ticket| sent(&mut session, *ticket).is_none()), "the others wait");
        session.handle_called(NOW, first, reply(1));
        let second = sent(&mut session, tickets[1]).expect("the next asks");
        session.handle_called(NOW, second, reply(1));
        let third = sent(&mut session, tickets[2]).expect("the contender asks");
        let beside = sent(&mut session, tickets[3]).expect("who was invited asks beside it");
        session.handle_called(NOW, beside, reply(0));
        session.handle_called(NOW, third, reply(0));
        assert_eq!(sent(&mut session, tickets[3]), None, "it waits behind the contender again");
    }
}

mod after_attempt {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::Step;
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::sync::Arc;
    use std::task::Waker;

    #[test]
    fn own_back_off_of_a_caller_is_asked_once_for_each_failure() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let pause = Duration::from_millis(10);
        let backoff = Some(Arc::new(Backoff::custom(move |_| Some(pause))));
        let request = AcquireRequest { backoff, ..AcquireRequest::new(name, Kind::Spin, Duration::from_secs(30)) };
        let ticket = session.acquire(now, request);
        let mut asked = Vec::new();
        for _ in 0..3 {
            assert_eq!(session.poll_backoff(ticket), None, "no failure has come");
            let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it asks") };
            assert_eq!(session.poll_backoff(ticket), None, "it is under way");
            session.handle_called(now, flight, Ok(Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec())));
            asked.push(session.poll_backoff(ticket));
            session.handle_backoff(now, ticket, Some(pause));
            now = now + pause;
            session.handle_timeout(now);
        }
        assert_eq!(asked, [Some(1), Some(2), Some(3)]);
    }
}

mod warn {
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::Step;
    use crate::session::{AcquireRequest, Event, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    #[test]
    fn contention_within_a_client_is_told_once_a_second() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let request = || AcquireRequest::new(name.clone(), Kind::Lock, Duration::from_secs(30));
        let holder = session.acquire(now, request());
        let Step::Send(flight, _) = session.step_acquire(now, holder, Waker::noop()) else { panic!("it asks") };
        session.handle_called(now, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        assert!(matches!(session.step_acquire(now, holder, Waker::noop()), Step::Done(Ok(Some(_)))));
        let contender = session.acquire(now, request());
        let Step::Send(flight, _) = session.step_acquire(now, contender, Waker::noop()) else { panic!("it asks") };
        session.handle_called(now, flight, Ok(Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec())));
        let mut told = Vec::new();
        for _ in 0..20 {
            let waits = session.acquire(now, request());
            assert!(matches!(session.step_acquire(now, waits, Waker::noop()), Step::Wait));
            let events = std::iter::from_fn(|| session.poll_event());
            told.push(events.filter(|event| matches!(event, Event::QueuesBehindOwnClient { .. })).count());
            now = now + Duration::from_millis(100);
        }
        assert_eq!((told[0], told[10], told.iter().sum::<usize>()), (1, 1, 2), "{told:?}");
    }
    #[test]
    fn wait_for_the_own_client_is_told_once_a_minute_for_a_lock() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let mut alarms = Vec::new();
        let ask = |session: &mut Session, now: Instant, lease: Duration| {
            let ticket = session.acquire(now, AcquireRequest::new(name.clone(), Kind::Lock, lease));
            (ticket, session.step_acquire(now, ticket, Waker::noop()))
        };
        let (holder, Step::Send(flight, _)) = ask(&mut session, now, Duration::from_secs(600)) else {
            panic!("it asks")
        };
        session.handle_called(now, flight, Ok(Reply::Array([1, 600_000, 0].map(Reply::Int).to_vec())));
        assert!(matches!(session.step_acquire(now, holder, Waker::noop()), Step::Done(Ok(Some(_)))));
        let lock = session.locks.of_name(&name).next().expect("a lock");
        let earlier = Instant::from_nanos(999_999_999);
        assert!(session.is_held_since(lock, now));
        assert!(!session.is_held_since(lock, earlier), "a wait that began before the hold is contention");
        let (contender, mut step) = ask(&mut session, now, Duration::from_secs(1));
        let waiters = [(); 3].map(|()| ask(&mut session, now, Duration::from_secs(1)).0);
        for _ in 0..4 {
            if let Step::Send(flight, _) = step {
                let busy = Reply::Array([0, 600_000, 0].map(Reply::Int).to_vec());
                session.handle_called(now, flight, Ok(busy));
            }
            step = session.step_acquire(now, contender, Waker::noop());
            for waiter in waiters {
                session.step_acquire(now, waiter, Waker::noop());
            }
            let events = std::iter::from_fn(|| session.poll_event());
            alarms.push(events.filter(|event| matches!(event, Event::WaitsForOwnClient { .. })).count());
            now = now + Duration::from_secs(25);
            session.handle_timeout(now);
        }
        assert_eq!(alarms, [0, 1, 0, 0], "no more than one a minute, of four that wait");
    }
}
