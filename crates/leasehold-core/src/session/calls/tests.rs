use super::*;

mod pending {
    use super::*;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn calls_are_due_in_the_order_of_their_time() {
        let mut pending = Pending::default();
        let at = |millis| NOW + Duration::from_millis(millis);
        for (id, millis) in [(1, 10), (2, 30), (3, 20), (4, 30)] {
            pending.insert(at(millis), CallId(id), Purpose::Nothing);
        }
        assert_eq!((pending.next_timeout(), pending.pop_due(at(9))), (Some(at(10)), None));
        let due: Vec<_> = std::iter::from_fn(|| pending.pop_due(at(30))).collect();
        assert_eq!(due, [1, 3, 2, 4].map(CallId));
    }

    #[test]
    fn answered_calls_take_no_room_for_long() {
        let mut pending = Pending::default();
        for id in 0..100_000 {
            pending.insert(NOW, CallId(id), Purpose::Nothing);
            if id > 0 {
                pending.take(CallId(id)).expect("it was in flight");
            }
        }
        assert!(pending.by_deadline.len() <= MIN_TO_COMPACT, "{}", pending.by_deadline.len());
        assert_eq!(pending.by_deadline.front(), Some(&(NOW, CallId(0))));
    }
}

mod settle {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, Session, Ticket};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn session() -> Session {
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1)
    }

    /// Sends a lock's first acquire, drops its future, and loses the reply.
    fn loses_a_reply(session: &mut Session, lock: &str) {
        let name = LockName::new("", lock).expect("a name");
        let ticket: Ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)));
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(id, _) = step else { panic!("a free lock is asked for at once: {step:?}") };
        session.abandon_acquire(NOW, ticket);
        session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
    }

    /// The settlements and the released locks among the next actions.
    fn actions(session: &mut Session) -> (Vec<CallId>, Vec<Bytes>) {
        let (mut settlements, mut released) = (Vec::new(), Vec::new());
        while let Some(action) = session.poll_deed() {
            match action {
                Deed::Settle { id, .. } => settlements.push(id),
                Deed::Call { call, .. } => released.push(call.keys().to_vec()[0].clone()),
                Deed::Subscribe { .. } | Deed::Unsubscribe { .. } => {}
            }
        }
        (settlements, released)
    }

    #[test]
    fn call_during_a_settlement_waits_for_its_own() {
        let mut session = session();
        loses_a_reply(&mut session, "a");
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0));
        loses_a_reply(&mut session, "b");
        assert_eq!(actions(&mut session), (vec![], vec![]), "one settlement at a time");
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        let (settlements, released) = actions(&mut session);
        assert_eq!(released, [Bytes::from_static(b"a")], "the second one was sent after the settlement");
        assert_eq!(settlements.len(), 1);
        session.handle_settled(NOW, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session), (vec![], vec![Bytes::from_static(b"b")]));
    }

    #[test]
    fn late_hold_of_a_failed_settlement_joins_the_next() {
        let mut session = session();
        loses_a_reply(&mut session, "a");
        let settlements = actions(&mut session).0;
        loses_a_reply(&mut session, "b");
        session.handle_settled(NOW, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
        let later = NOW + Duration::from_secs(1);
        session.handle_timeout(later);
        let (settlements, released) = actions(&mut session);
        assert_eq!((settlements.len(), released.len()), (1, 0), "one for both");
        session.handle_settled(later, settlements[0], Ok(Settled::Proven));
        assert_eq!(actions(&mut session).1, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
    }

    #[test]
    fn failed_settlement_is_retried_after_growing_pauses() {
        let mut session = session();
        loses_a_reply(&mut session, "a");
        let mut now = NOW;
        for pause in [20, 40, 80].map(Duration::from_millis) {
            let settlements = actions(&mut session).0;
            session.handle_settled(now, settlements[0], Err(LinkError::NotSent("no connection".to_owned())));
            let next = session.settlements.next_timeout().expect("a retry");
            assert!((pause / 2..=pause).contains(&next.since(now)), "{pause:?}");
            now = next;
            session.handle_timeout(now);
        }
        let settlements = actions(&mut session).0;
        assert!(session.settlements.at_work_since(now + Duration::from_secs(1)));
        session.handle_settled(now, settlements[0], Ok(Settled::Proven));
        assert!(session.settlements.at_work_since(now) && !session.settlements.at_work_since(now + pause_before(1)));
    }
}
