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

mod settlements {
    use super::*;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SCOPE: Scope = (0, false);

    fn numbers() -> [HoldNumber; 3] {
        let first = HoldNumber::FIRST;
        [first, first.next(), first.next().next()]
    }

    #[test]
    fn a_late_hold_is_not_settled_with_the_others() {
        let [one, other, late] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(SCOPE, Bytes::new(), one), "the first hold asks");
        assert!(settlements.begin(SCOPE, CallId(1)).is_some());
        assert!(!settlements.add(SCOPE, Bytes::new(), late), "one settlement at a time");
        assert!(settlements.at_work_since(NOW + Duration::from_secs(1)));
        assert!(settlements.take(NOW, CallId(2)).is_none());
        let (scope, done) = settlements.take(NOW, CallId(1)).expect("it is in flight");
        assert_eq!((scope, done.holds, done.late), (SCOPE, vec![one], vec![late]));
        assert!(settlements.at_work_since(NOW) && !settlements.at_work_since(NOW + Duration::from_nanos(1)));
        assert!(settlements.add(SCOPE, Bytes::new(), other), "the next one asks anew");
    }

    #[test]
    fn a_failed_settlement_is_tried_again_for_all_ever_later() {
        let [one, late, other] = numbers();
        let mut settlements = Settlements::default();
        assert!(settlements.add(SCOPE, Bytes::new(), one));
        let mut waits = Vec::new();
        for attempt in 1..=3 {
            assert!(settlements.begin(SCOPE, CallId(attempt)).is_some());
            if attempt == 1 {
                assert!(!settlements.add(SCOPE, Bytes::new(), late));
            }
            let (scope, failed) = settlements.take(NOW, CallId(attempt)).expect("it is in flight");
            settlements.retry(NOW, scope, failed, 1.0);
            let at = settlements.next_timeout().expect("it is tried again");
            assert_eq!(settlements.due(at), [SCOPE]);
            waits.push(at.since(NOW).as_millis());
        }
        assert_eq!(waits, [20, 40, 80]);
        assert!(!settlements.add(SCOPE, Bytes::new(), other), "it waits for the next attempt");
        assert!(settlements.begin(SCOPE, CallId(9)).is_some());
        let (_, done) = settlements.take(NOW, CallId(9)).expect("it is in flight");
        assert_eq!(done.holds, [one, late, other]);
    }
}

mod settle {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::steps::{Deed, Step};
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
}
