//! The halves of a read-write lock, which lie under one key.

use super::{elapsed, nothing_left, world};
use crate::world::{ms, name};
use leasehold_core::command::Kind;
use leasehold_core::session::AcquireRequest;

#[test]
fn a_write_lease_that_ends_beside_its_own_reader_does_not_keep_other_readers_out() {
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
    world.give_back(other);
    nothing_left(&mut world);
}

#[test]
fn a_reader_beside_a_writer_that_the_server_has_forgotten_waits_as_others_do() {
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
    world.give_back(read);
    nothing_left(&mut world);
}
