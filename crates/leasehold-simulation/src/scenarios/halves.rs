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
