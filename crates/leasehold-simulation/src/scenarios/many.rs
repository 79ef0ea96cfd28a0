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
use std::time::Duration;

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
fn guards_dropped_at_once_do_not_drown_a_near_server() {
    let most = most_under_way(ms(0));
    assert!((64..70).contains(&most), "{most} were under way");
}

#[test]
fn guards_dropped_at_once_fill_a_slow_link_and_no_more() {
    let most = most_under_way(ms(100));
    assert!((512..=1_024).contains(&most), "{most} were under way");
}

/// How many releases are under way at most, where thousands of guards are dropped at once: a reply takes this time, and the server a tenth of
/// a millisecond for each.
fn most_under_way(way: Duration) -> usize {
    const HOLDS: usize = 4_000;
    let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), settings(), 1);
    let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
    let mut now = Instant::from_nanos(0);
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
    let sent = |session: &mut Session, now: Instant| calls(session).into_iter().map(move |id| (id, now));
    let mut flying: VecDeque<_> = sent(&mut session, now).collect();
    let mut most = flying.len();
    let mut answered = 0;
    while let Some((id, sent_at)) = flying.pop_front() {
        now = (now + Duration::from_micros(100)).max(sent_at + way);
        session.handle_called(now, id, Epoch(1), Ok(Reply::Int(1)));
        session.handle_timeout(now);
        answered += 1;
        flying.extend(sent(&mut session, now));
        most = most.max(flying.len());
    }
    assert_eq!(answered, HOLDS);
    assert_eq!(session.stats().cleaning_up, 0);
    assert!(session.is_quiet());
    most
}
