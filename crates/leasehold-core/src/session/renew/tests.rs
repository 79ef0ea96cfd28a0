use super::*;

mod loss {
    use crate::command::Kind;
    use crate::error::LossReason;
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
    fn loss_that_is_found_late_tells_of_the_time_to_the_deadline() {
        let (now, lease) = (Instant::from_nanos(1_000_000_000), Duration::from_secs(3));
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let ticket = session.acquire(now, AcquireRequest::new(name, Kind::Lock, lease));
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it asks") };
        let reply = Reply::Array([1, 3_000, 0].map(Reply::Int).to_vec());
        session.handle_called(now, flight, Ok(reply));
        let Step::Done(Ok(Some(granted))) = session.step_acquire(now, ticket, Waker::noop()) else {
            panic!("it is granted")
        };
        let deadline = granted.cell.deadline();
        // The process was paused for longer than the lease.
        session.handle_timeout(now + lease * 3);
        let lost = std::iter::from_fn(|| session.poll_event()).find_map(|event| match event {
            Event::Lost { reason, held, .. } => Some((reason, held)),
            _ => None,
        });
        assert_eq!(lost, Some((LossReason::NotRenewed, deadline.since(now))));
    }
}

mod extension {
    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::{AcquireRequest, CallId, Granted};

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LEASE: Duration = Duration::from_secs(1);
    const LONGER: Duration = Duration::from_secs(10);

    /// A session with a hold of a fixed lease, or of a renewed lease.
    fn held(renewed: bool, max_hold: Option<Duration>) -> (Session, Granted) {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let mut request = AcquireRequest::new(name, Kind::Lock, LEASE);
        (request.renewed, request.max_hold) = (renewed, max_hold);
        let ticket = session.acquire(NOW, request);
        assert!(session.poll_acquire(NOW, ticket, Waker::noop()).is_pending());
        let id = session.poll_call().expect("an acquire").id;
        session.handle_called(NOW, id, Ok(Reply::Array([1, 1_000, 0].map(Reply::Int).to_vec())));
        let Poll::Ready(Ok(Some(granted))) = session.poll_acquire(NOW, ticket, Waker::noop()) else {
            panic!("the lock was free")
        };
        (session, granted)
    }

    fn extend(session: &mut Session, granted: &Granted, now: Instant) -> (Ticket, Option<CallId>) {
        let ticket = session.extend(now, granted.hold, LONGER);
        (ticket, session.poll_call().map(|outgoing| outgoing.id))
    }

    fn renewed(count: i64, left: i64) -> CallResult {
        Ok(Reply::Array(vec![Reply::Int(count), Reply::Int(left)]))
    }

    #[test]
    fn reply_moves_the_deadline_of_a_fixed_lease() {
        let (mut session, granted) = held(false, None);
        let now = NOW + LEASE / 2;
        let (ticket, id) = extend(&mut session, &granted, now);
        assert!(granted.cell.deadline() < NOW + LEASE, "not before the reply");
        session.handle_called(now, id.expect("a call"), renewed(1, 10_000));
        assert_eq!(session.poll_extension(ticket, Waker::noop()), Poll::Ready(Ok(())));
        assert_eq!(granted.cell.deadline(), now + LONGER - Settings::margin(LONGER));
        session.handle_timeout(NOW + LEASE * 2);
        assert_eq!(granted.cell.ended(NOW + LEASE * 2), None);
        assert!(session.poll_call().is_none(), "nothing renews it");
    }

    #[test]
    fn reply_after_the_deadline_does_not_revive_the_hold() {
        let (mut session, granted) = held(false, None);
        let (ticket, id) = extend(&mut session, &granted, NOW);
        let late = NOW + LEASE;
        session.handle_called(late, id.expect("a call"), renewed(1, 9_000));
        let lost = Poll::Ready(Err(AcquireError::Lost(LossReason::LeaseExpired)));
        assert_eq!(session.poll_extension(ticket, Waker::noop()), lost);
        let (ticket, id) = extend(&mut session, &granted, late);
        assert!(id.is_none(), "a lost hold sends nothing");
        assert_eq!(session.poll_extension(ticket, Waker::noop()), lost);
    }

    #[test]
    fn extension_ends_with_the_longest_hold() {
        let (mut session, granted) = held(true, Some(LEASE * 2));
        let ticket = session.extend(NOW, granted.hold, LONGER);
        let sent = session.poll_call().expect("a call");
        let lease = (LEASE * 2 + Settings::margin(LONGER)).as_millis().to_string();
        assert!(
            sent.call.args().iter().any(|arg| arg == lease.as_bytes()),
            "the server has it no longer than that: {:?}",
            sent.call
        );
        session.handle_called(NOW, sent.id, renewed(1, 10_000));
        assert_eq!(session.poll_extension(ticket, Waker::noop()), Poll::Ready(Ok(())));
        assert_eq!(granted.cell.deadline(), NOW + LEASE * 2);
    }

    #[test]
    fn hold_that_is_gone_is_lost() {
        let (mut session, granted) = held(false, None);
        let (ticket, id) = extend(&mut session, &granted, NOW);
        session.handle_called(NOW, id.expect("a call"), renewed(0, 0));
        let lost = Poll::Ready(Err(AcquireError::Lost(LossReason::Removed)));
        assert_eq!(session.poll_extension(ticket, Waker::noop()), lost);
    }

    #[test]
    fn clean_up_lasts_as_long_as_a_lease_that_an_extension_may_have_set() {
        let (mut session, granted) = held(false, None);
        let (ticket, id) = extend(&mut session, &granted, NOW);
        session.abandon_extension(ticket);
        session.handle_called(NOW, id.expect("a call"), Err(LinkError::Unknown("a lost connection".to_owned())));
        assert!(granted.cell.deadline() < NOW + LEASE, "the hold trusts replies only");
        assert!(session.holds[granted.hold].clean_up.until >= NOW + LONGER);
    }

    #[test]
    fn extension_in_flight_ends_with_the_client() {
        let (mut session, granted) = held(false, None);
        let (ticket, _) = extend(&mut session, &granted, NOW);
        assert!(session.poll_extension(ticket, Waker::noop()).is_pending());
        session.end(NOW);
        let lost = Poll::Ready(Err(AcquireError::Lost(LossReason::ShutDown)));
        assert_eq!(session.poll_extension(ticket, Waker::noop()), lost);
    }
}
