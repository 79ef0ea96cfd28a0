//! FairOrder on the server: who has a place, and what costs it.

use super::{elapsed, nothing_left, nothing_left_after, wish, world};
use crate::world::client::{Outcome, PollPolicy};
use crate::world::network::CallFault;
use crate::world::{ms, name};
use leasehold_core::command::Kind;
use leasehold_core::error::AcquireError;
use leasehold_core::link::LinkEvent;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Event, Patience};

fn fair() -> AcquireRequest {
    AcquireRequest { kind: Kind::Fair, ..wish("a") }
}

#[test]
fn waiters_on_a_busy_executor_keep_their_places() {
    let mut world = world(3);
    let task = world.acquire(0, fair());
    let mut guard = world.granted(0, task);
    // Each future is polled a fifth of a second late, every time.
    let waiters: Vec<_> = (0..6).map(|n| (1 + n % 2, PollPolicy::Late(ms(200)))).collect();
    let mut line = Vec::new();
    for (client, polls) in waiters {
        line.push((client, world.acquire_polled(client, fair(), polls)));
        world.run(ms(1_000));
    }
    for (client, task) in line {
        world.give_back(guard);
        guard = world.granted(client, task);
    }
    for client in 1..3 {
        assert_eq!(world.events(client, |event| matches!(event, Event::UnpolledTurn { .. })), 0);
        assert_eq!(world.events(client, |event| matches!(event, Event::QueuePositionLost { .. })), 0);
    }
    nothing_left_after(&mut world, guard);
}

#[test]
fn unpolled_place_is_given_up_after_half_a_claim() {
    let mut world = world(3);
    let guard = world.hold(0, fair());
    let sleepy = world.acquire(1, fair());
    world.run(ms(100));
    let waiter = world.acquire(2, fair());
    world.run(ms(100));
    world.clients[1].tasks[sleepy].polls = PollPolicy::Never;
    let start = world.now;
    world.give_back(guard);
    let guard = world.granted(2, waiter);
    assert!(elapsed(&world, start) > ms(1_000) && elapsed(&world, start) < ms(1_010), "{:?}", elapsed(&world, start));
    world.give_back(guard);
    // It gets in at the tail when it is polled after all.
    world.clients[1].tasks[sleepy].polls = PollPolicy::AtOnce;
    world.poll(1, sleepy);
    let guard = world.granted(1, sleepy);
    nothing_left_after(&mut world, guard);
}

#[test]
fn a_front_that_is_not_polled_for_a_second_loses_its_turn() {
    let mut world = world(2);
    let guard = world.hold(0, fair());
    let front = world.acquire(1, fair());
    world.run(ms(20));
    let next = world.acquire(1, fair());
    world.run(ms(20));
    world.clients[1].tasks[front].polls = PollPolicy::Never;
    let start = world.now;
    world.give_back(guard);
    let guard = world.granted(1, next);
    assert!(elapsed(&world, start) >= ms(1_000), "who loses a turn loses a place");
    assert!(elapsed(&world, start) < ms(1_100), "in after {:?}", elapsed(&world, start));
    world.abandon(1, front);
    world.give_back(guard);
    world.run(ms(1_500));
    assert_eq!(world.clients[1].session.stats(), leasehold_core::session::ClientStats::default());
}

#[test]
fn waiter_first_on_the_server_is_woken_first() {
    let mut world = world(2);
    let guard = world.hold(0, fair());
    let slow = world.acquire(1, fair());
    let quick = world.acquire(1, fair());
    world.run(ms(5_000));
    // As if the command of the one that came first in its client had been the second to reach the server.
    let queue = format!("redisson_lock_queue:{{{}}}", String::from_utf8_lossy(name("a").key()));
    let first = world.server.command(&[b"LPOP", queue.as_bytes()]).expect("a queue");
    let first = first.text().expect("an entry");
    world.server.command(&[b"RPUSH", queue.as_bytes(), first.as_bytes()]).expect("a queue");
    world.judged(|rules, _| rules.fair_order.forget());
    world.clients[1].tasks[slow].polls = PollPolicy::Late(ms(900));
    let start = world.now;
    world.give_back(guard);
    // It is the turn of the first one, who is not polled; then a heartbeat says whose turn it is.
    let guard = world.granted(1, quick);
    assert!(elapsed(&world, start) < ms(700), "{:?}", elapsed(&world, start));
    assert_eq!(world.events(1, |event| matches!(event, Event::UnpolledTurn { .. })), 0);
    world.give_back(guard);
    let guard = world.granted(1, slow);
    nothing_left_after(&mut world, guard);
}

#[test]
fn parked_future_slows_no_other_when_the_queue_is_forgotten() {
    let mut world = world(2);
    let guard = world.hold(0, fair());
    let parked = world.acquire(1, fair());
    world.run(ms(20));
    world.clients[1].tasks[parked].polls = PollPolicy::Never;
    let waiters: Vec<_> = (0..20).map(|_| world.acquire(1, fair())).collect();
    world.run(ms(100));
    world.restart_empty();
    world.run(ms(100));
    world.drop_guard(guard);
    let start = world.now;
    for waiter in waiters {
        let guard = world.granted(1, waiter);
        world.give_back(guard);
    }
    assert!(elapsed(&world, start) < ms(4_000), "{:?}", elapsed(&world, start));
    world.abandon(1, parked);
    world.run(ms(1_500));
    assert_eq!(world.clients[1].session.stats(), leasehold_core::session::ClientStats::default());
}

#[test]
fn unread_place_is_given_up_after_a_long_outage() {
    let mut world = world(2);
    let guard = world.hold(0, fair());
    let short = AcquireRequest { lease: ms(300), renewed: false, ..fair() };
    let sleepy = world.acquire_polled(1, short, PollPolicy::Never);
    // By then it is known that the call was answered, and not yet that its future is not polled.
    world.run(ms(100));
    let queue = [b"LLEN".as_slice(), b"redisson_lock_queue:{a}"];
    assert_eq!(world.server.command(&queue), Ok(Reply::Int(1)));
    world.set_unreachable(1, true);
    world.run(ms(3_000));
    world.set_unreachable(1, false);
    world.run(ms(3_000));
    assert_eq!(world.server.command(&queue), Ok(Reply::Int(0)));
    world.abandon(1, sleepy);
    nothing_left_after(&mut world, guard);
}

#[test]
fn wait_ending_before_a_new_place_is_taken_is_busy() {
    let mut world = world(2);
    let guard = world.hold(0, fair());
    let patience = Patience::Until(world.now + ms(700));
    let waiter = world.acquire(1, AcquireRequest { patience, ..fair() });
    world.run(ms(200));
    world.clients[1].tasks[waiter].polls = PollPolicy::Late(ms(400));
    // The next heartbeat finds that there is no queue any more, and the future is polled after the end of its wait.
    for key in ["leasehold:1:fair:{a}", "redisson_lock_queue:{a}", "redisson_lock_timeout:{a}"] {
        world.server.command(&[b"DEL", key.as_bytes()]).expect("a key that can be deleted");
    }
    let outcome = world.outcome(1, waiter);
    assert_eq!(outcome, Outcome::NotAcquired(AcquireError::WaitElapsed));
    nothing_left_after(&mut world, guard);
}

#[test]
fn notices_in_quick_succession_do_not_make_as_many_beats() {
    let mut world = world(3);
    let guard = world.hold(0, fair());
    let first = world.acquire(1, fair());
    world.run(ms(20));
    let waiter = world.acquire(2, fair());
    world.run(ms(20));
    // The free lock is offered to one that does not take it: the waiter behind it asks whose turn it is.
    world.clients[1].tasks[first].polls = PollPolicy::Never;
    world.fault(2, "fair/beat", CallFault::Delay(ms(300)));
    let before = world.server.calls("fair/beat");
    world.give_back(guard);
    let client = world.clients[2].session.client();
    let channel = Kind::Fair.protocol().keys(&name("a"), &client).channel.expect("a fair lock has notices");
    for _ in 0..12 {
        world.server.command(&[b"PUBLISH", &channel, b"0"]).expect("a notice");
        world.event(2, LinkEvent::Notice { channel: channel.clone() });
        world.run(ms(20));
    }
    world.run(ms(100));
    // The one that was late, one more for all that has come up since, and those that are sent from time to time.
    let heartbeats = world.server.calls("fair/beat") - before;
    assert!((2..=4).contains(&heartbeats), "{heartbeats} heartbeats");
    let guard = world.granted(2, waiter);
    world.abandon(1, first);
    world.give_back(guard);
    world.run(ms(3_000));
    nothing_left(&mut world);
}
