use super::*;

mod client_record {
    use super::*;
    use crate::command::Kind;
    use crate::settings::Settings;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LIFETIME: Duration = Duration::from_secs(60);

    fn kept() -> (Session, ClientId) {
        let client = ClientId::new(uuid::Uuid::nil());
        let mut session = Session::new(client, Settings::default(), 1);
        session.announce(NOW, record("orders"), LIFETIME);
        (session, client)
    }

    fn record(application: &str) -> record::ClientRecord {
        let (host, application) = ("host".to_owned(), application.to_owned());
        record::ClientRecord { host, pid: 7, application, since: 0, within: Vec::new(), note: String::new() }
    }

    /// The record, and with it its next write or comparison.
    fn of(session: &mut Session) -> &mut Kept {
        session.record.as_mut().expect("it keeps a record")
    }

    fn holds(key: &str) -> Vec<LockUse> {
        let hold = Some("a:1".to_owned());
        vec![LockUse {
            key: key.to_owned(),
            kind: Kind::Lock,
            hold,
            owners: Vec::new(),
            lasted: COMPARE_INTERVAL,
            lease: None,
        }]
    }

    #[test]
    fn a_record_is_written_at_once_and_again_at_a_third_of_its_life() {
        let (mut session, client) = kept();
        assert_eq!(of(&mut session).next(true), Some(NOW));
        assert!(of(&mut session).write(NOW, &client, Vec::new()).is_some());
        assert!(of(&mut session).write(NOW + LIFETIME, &client, Vec::new()).is_none(), "it is being written");
        assert_eq!(of(&mut session).next(true), None);
        session.record_written(NOW, true);
        assert_eq!(of(&mut session).next(true), Some(NOW + LIFETIME / 3));
        assert!(of(&mut session).write(NOW + LIFETIME / 4, &client, Vec::new()).is_none(), "it is not time yet");
    }

    #[test]
    fn a_record_that_could_not_be_written_is_written_again_soon() {
        let (mut session, client) = kept();
        assert!(of(&mut session).write(NOW, &client, Vec::new()).is_some());
        session.record_written(NOW, false);
        assert_eq!(of(&mut session).next(true), Some(NOW + RETRY_PAUSE));
    }

    #[test]
    fn a_record_is_written_again_when_its_locks_are_others() {
        let (mut session, client) = kept();
        assert!(of(&mut session).write(NOW, &client, Vec::new()).is_some());
        session.record_written(NOW, true);
        assert_eq!(of(&mut session).next(true), Some(NOW + LIFETIME / 3), "an idle client does not look");
        assert_eq!(of(&mut session).next(false), Some(NOW + COMPARE_INTERVAL));
        let mut now = NOW + COMPARE_INTERVAL;
        assert!(of(&mut session).write(now, &client, holds("stock")).is_some());
        assert_eq!(of(&mut session).next(false), None);
        session.record_written(now, true);
        assert_eq!(of(&mut session).next(false), Some(now + COMPARE_INTERVAL));
        now = now + COMPARE_INTERVAL;
        assert!(of(&mut session).write(now, &client, holds("stock")).is_none(), "they have only lasted longer");
        assert_eq!(
            of(&mut session).next(false),
            Some(now + COMPARE_INTERVAL),
            "and are looked at no more often for that"
        );
        now = now + COMPARE_INTERVAL;
        assert!(of(&mut session).write(now, &client, holds("other")).is_some());
        session.record_written(now, true);
        assert_eq!(of(&mut session).next(true), Some(now + COMPARE_INTERVAL), "the server is still told of a lock");
        assert!(of(&mut session).write(now + COMPARE_INTERVAL, &client, Vec::new()).is_some());
    }

    #[test]
    fn late_answer_of_an_earlier_record_delays_nothing() {
        let (mut session, client) = kept();
        assert!(of(&mut session).write(NOW, &client, Vec::new()).is_some());
        session.announce(NOW, record("other"), LIFETIME);
        session.record_written(NOW, true);
        assert_eq!(of(&mut session).next(true), Some(NOW));
    }
}

mod shut_down {
    use super::*;
    use crate::command::Kind;
    use crate::error::{HoldEnd, ReleaseError};
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[test]
    fn release_without_a_reply_ends_with_its_client() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let request =
            AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, Duration::from_secs(30));
        let ticket = session.acquire(NOW, request);
        let Step::Send(call, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("it asks") };
        session.handle_called(NOW, call, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(guard))) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("a guard") };
        let ticket = session.release(NOW, guard.hold, guard.renewed);
        assert!(matches!(session.step_release(NOW, ticket, Waker::noop()), Step::Send(..)));
        session.close(NOW);
        session.lose_all(NOW);
        assert!(matches!(session.step_release(NOW, ticket, Waker::noop()), Step::Wait), "a reply may come yet");
        session.end(NOW);
        let step = session.step_release(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Err(ReleaseError::OutcomeUnknown(_)))), "{step:?}");
    }

    #[test]
    fn end_of_a_client_is_told_to_its_waiters_and_its_holders() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let stock = LockName::new("", "stock").expect("a name");
        assert!(session.holds_nothing());
        let mut request =
            || session.acquire(NOW, AcquireRequest::new(stock.clone(), Kind::Lock, Duration::from_secs(30)));
        let [holder, waiter] = [(); 2].map(|()| request());
        let poll = |session: &mut Session, ticket| session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(flight, _) = poll(&mut session, holder) else { panic!("it asks") };
        session.handle_called(NOW, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
        let Step::Done(Ok(Some(granted))) = poll(&mut session, holder) else { panic!("it is granted") };
        assert!(!session.closed);
        session.close(NOW);
        assert!(session.closed);
        assert!(matches!(poll(&mut session, waiter), Step::Done(Err(AcquireError::Closed))));
        assert_eq!(granted.cell.ended(NOW), None, "a hold may be used until it is released");
        assert!(!session.has_clean_up() && !session.holds_nothing());
        assert_eq!(session.unreleased(), std::slice::from_ref(&stock));
        assert!(session.lose_all(NOW));
        assert_eq!(granted.cell.ended(NOW), Some(HoldEnd::Lost(LossReason::ShutDown)));
        let acts = std::iter::from_fn(|| session.poll_deed()).any(|action| matches!(action, Deed::Call { .. }));
        assert!(!acts && !session.has_clean_up(), "its work may not have stopped yet");
        session.drop_guard(NOW, granted.hold, granted.renewed);
        assert!(session.has_clean_up());
        let mut released = 0;
        while let Some(action) = session.poll_deed() {
            match action {
                Deed::Call { id, call, .. } if call.script().name() == "lock/release" => {
                    session.handle_called(NOW, id, Ok(Reply::Int(1)));
                    released += 1;
                }
                Deed::Unsubscribe { channel, .. } => session.handle_unsubscribed(NOW, &channel, Ok(())),
                _ => {}
            }
        }
        assert_eq!(released, 1);
        assert!(session.holds_nothing() && !session.has_clean_up() && session.unreleased().is_empty());
    }
}
