//! Many holds at once.

use super::wish;
use crate::world::{ms, name, settings};
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, CallId, Granted, Session};
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::collections::VecDeque;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The calls that the session wants sent now.
fn calls(session: &mut Session) -> Vec<CallId> {
    std::iter::from_fn(|| session.poll_call()).map(|outgoing| outgoing.id).collect()
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

/// A session with `holds` locks.
fn holding(now: Instant, holds: usize, lease: Duration) -> (Session, Vec<Granted>) {
    let mut session =
        Session::new(ClientId::new(uuid::Uuid::nil()), Settings { command_timeout: ms(1_000), ..settings() }, 1);
    let granted = (0..holds).map(|number| {
        let wish = AcquireRequest { name: name(&number.to_string()), lease, ..wish("a") };
        let ticket = session.acquire(now, wish);
        assert!(session.poll_acquire(now, ticket, Waker::noop()).is_pending());
        let id = session.poll_call().expect("a call").id;
        let reply = [1, i64::try_from(lease.as_millis()).expect("a lease"), 0];
        session.handle_called(now, id, Ok(Reply::Array(reply.map(Reply::Int).to_vec())));
        match session.poll_acquire(now, ticket, Waker::noop()) {
            Poll::Ready(Ok(Some(granted))) => granted,
            step => panic!("a grant: {step:?}"),
        }
    });
    let granted = granted.collect();
    (session, granted)
}

/// The reply to a renewal of `locks` locks.
fn renewed(locks: usize, lease: Duration) -> Reply {
    let lease = i64::try_from(lease.as_millis()).expect("a lease");
    Reply::Array([1, lease].repeat(locks).into_iter().map(Reply::Int).collect())
}

#[test]
fn locks_of_many_batches_are_kept_over_a_slow_link() {
    let (way, lease) = (ms(400), ms(6_000));
    let begun = Instant::from_nanos(0);
    let (mut session, granted) = holding(begun, 5_000, lease);
    let mut now = begun;
    let mut flying: VecDeque<(CallId, usize, Instant)> = VecDeque::new();
    while now < begun + lease * 4 {
        let due = session.poll_timeout().into_iter().chain(flying.front().map(|(_, _, sent_at)| *sent_at + way)).min();
        now = now.max(due.expect("renewals go on"));
        session.handle_timeout(now);
        while let Some((id, locks, _)) = flying.pop_front_if(|(_, _, sent_at)| *sent_at + way <= now) {
            session.handle_called(now, id, Ok(renewed(locks, lease)));
        }
        let sent = std::iter::from_fn(|| session.poll_call());
        flying.extend(sent.map(|outgoing| (outgoing.id, outgoing.call.keys().len(), now)));
    }
    let lost = granted.iter().filter(|granted| granted.cell.ended(now).is_some()).count();
    assert_eq!(lost, 0, "of {}", granted.len());
}

/// How many releases are under way at most, where thousands of guards are dropped at once: a reply takes this time, and the server a tenth of
/// a millisecond for each.
fn most_under_way(way: Duration) -> usize {
    const HOLDS: usize = 4_000;
    let mut now = Instant::from_nanos(0);
    let (mut session, granted) = holding(now, HOLDS, ms(3_000));
    for granted in granted {
        session.drop_guard(now, granted.hold, true);
    }
    let sent = |session: &mut Session, now: Instant| calls(session).into_iter().map(move |id| (id, now));
    let mut flying: VecDeque<_> = sent(&mut session, now).collect();
    let mut most = flying.len();
    let mut answered = 0;
    while let Some((id, sent_at)) = flying.pop_front() {
        now = (now + Duration::from_micros(100)).max(sent_at + way);
        session.handle_called(now, id, Ok(Reply::Int(1)));
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
