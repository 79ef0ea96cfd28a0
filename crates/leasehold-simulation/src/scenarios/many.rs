//! Many holds at once.

use super::driver::wish;
use crate::world::{ms, name, settings};
use leasehold_core::link::{Epoch, Plane};
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::session::{Action, CallId, Session, Step, Via};
use leasehold_core::time::Instant;
use std::collections::VecDeque;
use std::task::Waker;

/// The calls that the session wants sent now.
fn calls(session: &mut Session) -> Vec<CallId> {
    std::iter::from_fn(|| session.poll_action())
        .filter_map(|action| match action {
            Action::Call { id, .. } => Some(id),
            _ => None,
        })
        .collect()
}

#[test]
fn guards_that_are_dropped_all_at_once_do_not_drown_the_server() {
    const HOLDS: usize = 1_000;
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), settings(), 1);
    let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
    let now = Instant::from_nanos(0);
    let mut holds = Vec::new();
    for number in 0..HOLDS {
        let mut wish = wish("a");
        wish.name = name(&number.to_string());
        let ticket = session.acquire(now, wish);
        let Step::Send(flight, _) = session.poll_acquire(now, ticket, via, Waker::noop()) else { panic!("a call") };
        let granted = Reply::Array(vec![Reply::Int(1), Reply::Int(3_000), Reply::Int(0)]);
        session.handle_reply(now, ticket, flight, Ok(granted));
        let Step::Done(Ok(Some(granted))) = session.poll_acquire(now, ticket, via, Waker::noop()) else {
            panic!("a grant")
        };
        holds.push(granted.hold);
    }
    for hold in holds {
        session.drop_guard(now, hold, true);
    }
    let mut flying = VecDeque::from(calls(&mut session));
    let mut most = flying.len();
    let mut answered = 0;
    while let Some(id) = flying.pop_front() {
        session.handle_called(now + ms(1), id, Epoch(1), Ok(Reply::Int(1)));
        session.handle_timeout(now + ms(1));
        answered += 1;
        flying.extend(calls(&mut session));
        most = most.max(flying.len());
    }
    assert_eq!((answered, most), (HOLDS, 64), "answered, and under way at most");
    assert_eq!(session.census().cleaning_up, 0);
    assert!(session.is_quiet());
}
