//! The watchdog: batches, failures, its races with releases, and many holds at once.

use super::{nothing_left, nothing_left_after, wish, world};
use crate::world::network::{CallFault, Role};
use crate::world::{World, ms, name, settings};
use leasehold_core::call::Replicas;
use leasehold_core::command::Kind;
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::hold_cell::HoldCell;
use leasehold_core::link::LinkEvent;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, CallId, Event, Granted, Outgoing, Session};
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::collections::VecDeque;
use std::task::{Poll, Waker};
use std::time::Duration;

fn hold_many(world: &mut World, count: usize) -> Vec<usize> {
    let tasks: Vec<_> = (0..count).map(|n| world.acquire(0, wish(&format!("a{n}")))).collect();
    tasks.into_iter().map(|task| world.granted(0, task)).collect()
}

#[test]
fn hundred_holds_renew_together_and_a_gone_one_harms_none() {
    let mut world = world(1);
    let guards = hold_many(&mut world, 100);
    world.server.command(&[b"DEL", b"a42"]).expect("the server works");
    world.run(ms(1_100));
    for (index, guard) in guards.iter().enumerate() {
        let ended = world.guards[*guard].cell.ended(world.now);
        assert_eq!(ended, (index == 42).then_some(HoldEnd::Lost(LossReason::Removed)), "{index}");
    }
    world.run(ms(20_000));
    world.check_counts(ms(0));
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    nothing_left(&mut world);
}

#[test]
fn time_of_a_renewal_under_way_counts_against_the_holder() {
    let mut world = world(1);
    let guard = hold_many(&mut world, 1)[0];
    world.fault(0, "lock/renew", CallFault::Delay(ms(150)));
    world.run(ms(1_500));
    assert_eq!(world.server.calls("lock/renew"), 1);
    let Ok(Reply::Int(left)) = world.server.command(&[b"PTTL", b"a0"]) else { panic!("it is held") };
    let lease_ends = world.now + ms(u64::try_from(left).expect("a lease"));
    let deadline = world.guards[guard].cell.deadline();
    // The margin is 32 ms, and the server's clock is a millisecond coarse.
    assert!(deadline + ms(180) <= lease_ends, "{deadline:?}, and the lease ends at {lease_ends:?}");
    nothing_left_after(&mut world, guard);
}

/// The answer to a renewal: the count of a hold, and its milliseconds that are left.
const HELD: [i64; 2] = [1, 3_000];
const GONE: [i64; 2] = [0, 0];

/// The process stands still while a renewal is under way: when it goes on, it reads the reply before it looks at its timers.
fn reads_a_renewal(reply: [i64; 2], when: impl FnOnce(&HoldCell) -> Instant) {
    let mut world = world(1);
    let guard = hold_many(&mut world, 1)[0];
    let cell = world.guards[guard].cell.clone();
    let due = world.now + ms(1_000);
    let session = &mut world.clients[0].session;
    session.handle_timeout(due);
    let Outgoing { id, call, .. } = session.poll_call().expect("the renewal is due");
    assert_eq!(call.script().name(), "lock/renew");
    let reply = Reply::Array(reply.map(Reply::Int).to_vec());
    let (now, deadline) = (when(&cell), cell.deadline());
    session.handle_called(now, id, Ok(reply));
    world.look_after(0);
    assert_eq!(cell.ended(now), Some(HoldEnd::Lost(LossReason::NotRenewed)));
    assert_eq!(cell.deadline(), deadline);
    assert!(world.guards[guard].ended.is_raised(), "its guard has been told");
}

#[test]
fn a_renewal_that_is_read_after_the_deadline_saves_nothing() {
    reads_a_renewal(HELD, |cell| cell.deadline() + ms(1));
}

#[test]
fn renewal_refused_after_the_deadline_is_no_removal() {
    reads_a_renewal(GONE, |cell| cell.deadline() + ms(1));
}

#[test]
fn a_renewal_saves_nothing_that_a_guard_has_seen_lost() {
    reads_a_renewal(HELD, |cell| {
        // The instant at which the reply is read was taken before that at which another thread has asked.
        assert!(cell.ended(cell.deadline()).is_some());
        cell.deadline() - ms(1)
    });
}

#[test]
fn failed_renewal_repeats_soon_despite_a_clock_put_back() {
    let mut world = world(1);
    world.plan.settings = settings();
    let guard = hold_many(&mut world, 1)[0];
    world.step_server(-60_000);
    world.run(ms(1_100));
    assert!(
        world.guards[guard].cell.deadline() > world.now + ms(50_000),
        "the server has much more left than the lease"
    );
    world.fault(0, "lock/renew", CallFault::NotSent);
    while world.events(0, |event| matches!(event, Event::RenewalFailed { .. })) == 0 {
        world.run(ms(1));
    }
    let renewals = world.server.calls("lock/renew");
    // An eighth of the lease.
    world.run(ms(375));
    assert_eq!(world.server.calls("lock/renew"), renewals + 1);
    nothing_left_after(&mut world, guard);
}

#[test]
fn renewal_answered_behind_a_later_one_is_no_mismatch() {
    let mut world = super::seeded(1);
    world.add_client(Settings { renewals_in_flight: 2, ..settings() });
    let owner = world.clients[0].session.new_owner();
    let wish = AcquireRequest { owner: Some(owner), lease: ms(480), ..wish("a") };
    let guard = world.hold(0, wish.clone());
    // The first renewal is executed, and its answer comes after that to the second.
    while world.server.calls("lock/renew") == 0 {
        world.net.connection(0, Role::Calls).last_reply = world.now + ms(180);
        world.run(Duration::from_micros(50));
    }
    let by_another_connection = Some(Replicas { at_least: 0, within: ms(0) });
    let entry = world.hold(0, AcquireRequest { replicas: by_another_connection, ..wish });
    world.run(ms(170));
    assert_eq!(world.server.calls("lock/renew"), 2);
    assert_eq!(world.events(0, |event| matches!(event, Event::Renewed { .. })), 1, "the later one is answered");
    world.run(ms(1_000));
    assert_eq!(world.guards[guard].cell.ended(world.now), None);
    world.give_back(entry);
    nothing_left_after(&mut world, guard);
}

#[test]
fn the_renewals_of_many_holds_meet_in_batches() {
    let mut world = world(1);
    let guards = hold_many(&mut world, 1_000);
    world.run(ms(5_000));
    // Four fifths of a second is the shortest period, and it has 64 instants.
    let renewals = world.server.calls("lock/renew");
    assert!(renewals < 5 * 80 + 20, "{renewals} commands in 5 s for a thousand holds");
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    nothing_left(&mut world);
}

#[test]
fn holds_that_no_command_may_share_are_renewed_in_time_on_a_slow_network() {
    let mut world = world(1);
    let guards = hold_many(&mut world, 600);
    world.net.rates.delay = (ms(50), ms(51));
    world.fault(0, "lock/renew", CallFault::Refuse("CROSSSLOT keys of several slots"));
    world.run(ms(15_000));
    let lost = guards.iter().filter(|guard| world.guards[**guard].cell.ended(world.now).is_some()).count();
    assert_eq!(lost, 0, "of 600");
    world.net.rates.delay = (ms(1), ms(2));
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    nothing_left(&mut world);
}

#[test]
fn at_most_one_batch_is_on_the_way() {
    let mut world = world(0);
    world.add_client(Settings { renew_batch: 10, ..settings() });
    let guards = hold_many(&mut world, 95);
    world.event(0, LinkEvent::CallsReset);
    world.run(ms(100));
    assert!(world.server.calls("lock/renew") >= 10);
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    nothing_left(&mut world);
}

#[test]
fn no_renewal_names_more_than_a_thousand_permits() {
    let mut world = world(1);
    // There are more permits than the worlds' own semaphores have.
    world.judged(|rules, _| rules.exclusion.is_waived = true);
    world.server.command(&[b"SET", b"seats", b"10000"]).expect("the server works");
    let request = || AcquireRequest { permits: 400, kind: Kind::Permits, ..wish("seats") };
    let tasks: Vec<_> = (0..5).map(|_| world.acquire(0, request())).collect();
    let guards: Vec<_> = tasks.into_iter().map(|task| world.granted(0, task)).collect();
    world.reset(0, Role::Calls);
    world.run(ms(20));
    assert_eq!(world.server.calls("permits/renew"), 3, "two holds of 400 permits, and two, and one");
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    world.run(ms(1_000));
    assert_eq!(world.server.command(&[b"GET", b"seats"]), Ok(Reply::Bulk("10000".into())));
}

#[test]
fn a_reconnect_has_everything_renewed_at_once() {
    let mut world = world(1);
    let guards = hold_many(&mut world, 10);
    world.server.command(&[b"DEL", b"a3"]).expect("the server works");
    world.reset(0, Role::Calls);
    world.run(ms(20));
    assert!(world.guards[guards[3]].over, "the loss is seen at once, not after a third of the lease");
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    nothing_left(&mut world);
}

#[test]
fn a_renewal_that_failed_is_repeated() {
    for kind in [CallFault::LoseReply, CallFault::Swallow, CallFault::NotSent, CallFault::Refuse("LOADING wait")] {
        let mut world = world(1);
        let guards = hold_many(&mut world, 1);
        world.fault(0, "lock/renew", kind);
        world.run(ms(10_000));
        world.check_counts(ms(0));
        assert!(!world.guards[guards[0]].over);
        nothing_left_after(&mut world, guards[0]);
    }
}

#[test]
fn concurrent_renewal_and_release_are_no_loss() {
    let mut world = world(1);
    world.net.rates.delay = (Duration::from_micros(50), Duration::from_micros(900));
    let owner = Some(world.clients[0].session.new_owner());
    let outer = AcquireRequest { owner, ..wish("a") };
    let kept = world.hold(0, outer.clone());
    for round in 0..10_000 {
        let guard = world.hold(0, outer.clone());
        // Every renewal is made due again, so that one is on the way at any instant of the release.
        world.event(0, LinkEvent::CallsReset);
        let pause = world.between(Duration::ZERO, Duration::from_micros(1_200));
        world.run(pause);
        world.give_back(guard);
        assert!(!world.guards[kept].over, "lost in round {round}: {:?}", world.guards[kept].cell.ended(world.now));
        if round % 100 == 0 {
            world.run(ms(20));
            world.check_counts(ms(0));
        }
        world.guards.truncate(1);
        world.clients[0].tasks.clear();
        world.clients[0].events.clear();
    }
    assert!(world.server.calls("lock/renew") > 5_000, "{}", world.server.calls("lock/renew"));
    nothing_left_after(&mut world, kept);
}

#[test]
fn a_slow_server_does_not_make_the_next_renewal_too_late() {
    let mut world = world(0);
    world.add_client(Settings { command_timeout: ms(2_500), ..settings() });
    let guards = hold_many(&mut world, 1);
    // The reply comes when little of the lease that it tells of is left.
    world.fault(0, "lock/renew", CallFault::Delay(ms(1_800)));
    world.run(ms(3_000));
    world.fault(0, "lock/renew", CallFault::Delay(ms(500)));
    world.run(ms(6_000));
    assert!(!world.guards[guards[0]].over);
    nothing_left_after(&mut world, guards[0]);
}

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
    assert_eq!((session.stats().cleaning_up, session.stats().subscriptions), (0, 0));
    assert!(session.holds_nothing());
    most
}
