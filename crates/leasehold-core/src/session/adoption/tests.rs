use super::*;
use crate::call::CallId;
use crate::command::Kind;
use crate::link::Settled;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::Reply;
use crate::session::ClientStats;
use crate::session::tests::{Deed, Step};
use crate::settings::Settings;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const LEASE: Duration = Duration::from_secs(30);

fn reply(parts: &[i64]) -> CallResult {
    Ok(Reply::Array(parts.iter().copied().map(Reply::Int).collect()))
}

fn request() -> AcquireRequest {
    AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE)
}

/// A session that holds a lock, and the number of the hold.
fn holding() -> (Session, HoldNumber) {
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
    let ticket = session.acquire(NOW, request());
    let Step::Send(id, _) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("a call") };
    session.handle_called(NOW, id, reply(&[1, 30_000, 0]));
    let Step::Done(Ok(Some(granted))) = session.step_acquire(NOW, ticket, Waker::noop()) else { panic!("a grant") };
    (session, granted.hold)
}

fn offer(session: &mut Session, hold: HoldNumber) -> (Ticket, CallId) {
    let ticket = session.offer(NOW, hold, true, LEASE, "secret".into());
    let sent = session.poll_call().expect("a call");
    assert_eq!(sent.call.script().name(), "ticket/offer");
    (ticket, sent.id)
}

/// The names of the scripts that the background calls from here on, each with the reply that all is well.
fn background(session: &mut Session) -> Vec<&'static str> {
    let mut called = Vec::new();
    while let Some(deed) = session.poll_deed() {
        match deed {
            Deed::Call { id, call } => {
                called.push(call.script().name());
                session.handle_called(NOW, id, Ok(Reply::Int(1)));
            }
            Deed::Settle { id } => session.handle_settled(NOW, id, Ok(Settled::Proven)),
            Deed::Subscribe { .. } | Deed::Unsubscribe { .. } => {}
        }
    }
    called
}

#[test]
fn offered_hold_leaves_the_session_with_its_ticket() {
    let (mut session, hold) = holding();
    let (ticket, id) = offer(&mut session, hold);
    assert_eq!(session.stats().held, 0, "nobody believes from here on");
    session.handle_called(NOW, id, reply(&[1, 30_000, 77]));
    assert_eq!(session.stats().cleaning_up, 1, "until the ticket is read");
    let Poll::Ready(Ok(offered)) = session.poll_offer(NOW, ticket, Waker::noop()) else { panic!("a ticket") };
    assert_eq!(offered.secret, "secret:77");
    assert_eq!((session.stats(), session.poll_timeout()), (ClientStats::default(), None));
    assert!(background(&mut session).is_empty());
}

#[test]
fn without_a_reply_to_the_offer_the_hold_is_released() {
    let (mut session, hold) = holding();
    let (ticket, id) = offer(&mut session, hold);
    session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
    let outcome = session.poll_offer(NOW, ticket, Waker::noop());
    assert!(matches!(outcome, Poll::Ready(Err(MoveError::OutcomeUnknown(_)))), "{outcome:?}");
    assert_eq!(background(&mut session), ["lock/release"]);
}

#[test]
fn offer_whose_future_was_dropped_is_released_after_its_reply() {
    for reply in [reply(&[1, 30_000, 77]), Err(LinkError::NotSent("no connection".to_owned()))] {
        let (mut session, hold) = holding();
        let (ticket, id) = offer(&mut session, hold);
        session.abandon_offer(NOW, ticket);
        assert!(background(&mut session).is_empty(), "one change at a time");
        session.handle_called(NOW, id, reply);
        assert_eq!(background(&mut session), ["lock/release"]);
    }
    let (mut session, hold) = holding();
    let (ticket, id) = offer(&mut session, hold);
    session.handle_called(NOW, id, reply(&[1, 30_000, 77]));
    session.abandon_offer(NOW, ticket);
    assert_eq!(background(&mut session), ["lock/release"], "the ticket was not read");
}

fn adopt(session: &mut Session) -> (Ticket, CallId) {
    let acquire = Box::new(AcquireRequest { kind: Kind::Fenced, ..request() });
    let ticket = session.adopt(NOW, &AdoptRequest { acquire, offered: "6f0c:7".into(), secret: "secret:77".into() });
    let sent = session.poll_call().expect("a call");
    assert_eq!(sent.call.script().name(), "ticket/adopt");
    (ticket, sent.id)
}

#[test]
fn without_a_reply_to_the_adoption_the_hold_is_settled_and_released() {
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
    let (ticket, id) = adopt(&mut session);
    session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
    let outcome = session.poll_adopt(ticket, Waker::noop());
    assert!(matches!(outcome, Poll::Ready(Err(MoveError::OutcomeUnknown(_)))), "{outcome:?}");
    assert_eq!(background(&mut session), ["lock/release"]);
    assert_eq!(session.stats(), ClientStats::default());
}

#[test]
fn adoption_that_the_server_did_not_apply_leaves_no_hold() {
    let spent = Ok(Reply::Array(vec![Reply::Int(0), Reply::Int(0)]));
    for reply in [spent, Err(LinkError::NotSent("no connection".to_owned()))] {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let (ticket, id) = adopt(&mut session);
        session.handle_called(NOW, id, reply);
        assert!(matches!(session.poll_adopt(ticket, Waker::noop()), Poll::Ready(Err(_))));
        assert!(background(&mut session).is_empty() && session.holds_nothing());
    }
}

#[test]
fn adopted_hold_has_its_own_field_and_token() {
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
    let (ticket, id) = adopt(&mut session);
    session.handle_called(NOW, id, reply(&[1, 30_000, 12]));
    let Poll::Ready(Ok(granted)) = session.poll_adopt(ticket, Waker::noop()) else { panic!("a grant") };
    assert_eq!(granted.cell.token(), Some(12));
    assert_ne!(granted.cell.field(), "6f0c:7");
    let due = session.poll_timeout().expect("a renewal");
    assert!(due < NOW + LEASE / 3);
    session.drop_guard(NOW, granted.hold, true);
    assert_eq!(background(&mut session), ["lock/release"]);
    let (ticket, id) = adopt(&mut session);
    session.abandon_adopt(NOW, ticket);
    assert!(background(&mut session).is_empty(), "one change at a time");
    session.handle_called(NOW, id, reply(&[1, 30_000, 13]));
    assert_eq!(background(&mut session), ["lock/release"], "nobody waits for the guard");
    let (ticket, id) = adopt(&mut session);
    session.handle_called(NOW, id, reply(&[1, 30_000, 14]));
    session.abandon_adopt(NOW, ticket);
    assert_eq!(background(&mut session), ["lock/release"], "nobody read the guard");
    let (ticket, id) = adopt(&mut session);
    session.handle_called(NOW, id, reply(&[1, 30_000, 15]));
    session.end(NOW);
    assert!(matches!(session.poll_adopt(ticket, Waker::noop()), Poll::Ready(Err(_))), "the client ends");
}

#[test]
fn adoption_whose_reply_takes_longer_than_the_lease_gives_no_guard() {
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
    let (ticket, id) = adopt(&mut session);
    session.handle_called(NOW + LEASE, id, reply(&[1, 30_000, 12]));
    let outcome = session.poll_adopt(ticket, Waker::noop());
    assert!(matches!(outcome, Poll::Ready(Err(MoveError::OutcomeUnknown(_)))), "{outcome:?}");
    assert_eq!(session.stats().held, 0);
    assert_eq!(background(&mut session), ["lock/release"]);
}
