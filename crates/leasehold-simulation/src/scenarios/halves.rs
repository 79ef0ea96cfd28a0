//! The halves of a read-write lock, which lie under one key.

use super::{elapsed, nothing_left, nothing_left_after, world};
use crate::world::conditions::CallFault;
use crate::world::{ms, name};
use leasehold_core::command::Kind;
use leasehold_core::session::AcquireRequest;

#[test]
fn ended_write_lease_beside_its_reader_admits_readers() {
    let mut world = world(2);
    let owner = world.clients[0].session.new_owner();
    let half = |kind, lease| AcquireRequest { owner: Some(owner), ..AcquireRequest::new(name("a"), kind, lease) };
    let write = world.acquire(0, AcquireRequest { renewed: false, ..half(Kind::Write, ms(400)) });
    let write = world.granted(0, write);
    let read = world.acquire(0, half(Kind::Read, ms(3_000)));
    let read = world.granted(0, read);
    world.run(ms(600));
    assert!(world.guards[write].cell.ended(world.now).is_some());
    world.drop_guard(write);
    world.run(ms(20));
    let start = world.now;
    let other = world.acquire(1, AcquireRequest::new(name("a"), Kind::Read, ms(3_000)));
    let other = world.granted(1, other);
    assert!(elapsed(&world, start) < ms(20));
    world.give_back(read);
    nothing_left_after(&mut world, other);
}

#[test]
fn reader_beside_a_forgotten_writer_waits_as_others_do() {
    let mut world = world(2);
    let owner = world.clients[0].session.new_owner();
    let half = |kind| AcquireRequest { owner: Some(owner), ..AcquireRequest::new(name("a"), kind, ms(3_000)) };
    let write = world.acquire(0, half(Kind::Write));
    let write = world.granted(0, write);
    world.server.command(&[b"DEL", b"a"]).expect("the server works");
    let other = world.acquire(1, AcquireRequest::new(name("a"), Kind::Write, ms(3_000)));
    let other = world.granted_beside(1, other);
    let before = world.server.calls("read/acquire");
    let read = world.acquire(0, half(Kind::Read));
    world.run(ms(600));
    assert!(!world.guards[write].over, "the next renewal tells of the loss");
    // Beside the writer, in line, and once more when notices are confirmed.
    assert_eq!(world.server.calls("read/acquire") - before, 3);
    world.give_back(other);
    let read = world.granted(0, read);
    world.run(ms(1_000));
    assert!(world.guards[write].over);
    world.drop_guard(write);
    nothing_left_after(&mut world, read);
}

/// An owner writes and reads for two seconds, and enters its read hold for a minute, without a reply, which is settled or not. Then the
/// server is out of reach for ten seconds, and both guards are dropped after so many milliseconds of that.
fn gives_up_an_entry_beside_a_writer(settled: bool, dropped_after: u64) {
    let mut world = world(1);
    let owner = world.clients[0].session.new_owner();
    let half = |kind, lease| AcquireRequest {
        owner: Some(owner),
        renewed: false,
        ..AcquireRequest::new(name("a"), kind, ms(lease))
    };
    let guards = [Kind::Write, Kind::Read].map(|kind| world.hold(0, half(kind, 2_000)));
    world.net.rates.settle_fails = if settled { 0.0 } else { 1.0 };
    world.fault(0, "read/acquire", CallFault::LoseReply);
    let entry = world.acquire(0, half(Kind::Read, 60_000));
    world.run(ms(1));
    assert_eq!(world.server.calls("read/acquire"), 2);
    world.abandon(0, entry);
    world.run(ms(if settled { 20 } else { 0 }));
    world.set_unreachable(0, true);
    world.run(ms(dropped_after));
    guards.into_iter().for_each(|guard| world.drop_guard(guard));
    world.run(ms(10_000 - dropped_after));
    assert!(!world.server.keys().is_empty(), "the server has both for a minute");
    world.net.rates.settle_fails = 0.0;
    world.set_unreachable(0, false);
    world.run(ms(3_000));
    assert_eq!(world.server.keys(), Vec::<bytes::Bytes>::new());
    nothing_left(&mut world);
}

#[test]
fn writer_is_taken_back_while_a_readers_entry_may_keep_it() {
    gives_up_an_entry_beside_a_writer(true, 9_900);
}

#[test]
fn writer_is_kept_while_its_readers_call_is_unknown() {
    gives_up_an_entry_beside_a_writer(false, 100);
}
