//! Hold counts are absolute: what each acquire, release and renewal answers in each state of the key.

use super::jvm::Jvm;
use super::world::{World, int, is_held, is_placed};
use crate::support::{conflict, ms};
use leasehold_core::call::Call;
use leasehold_core::command::fair;
use leasehold_core::command::lock::ForceReleased;
use leasehold_core::command::{Acquired, HoldKey, Renewal};
use leasehold_core::reply::Reply;
use std::time::Duration;

fn raised(world: &World, entry: &str, count: u32) -> Acquired {
    world.ask(entry, |ask| ask.count = count)
}

/// The code of the reply, which the decoded outcome does not tell.
fn code(world: &World, entry: &str, count: u32) -> i64 {
    let reply = world.run(&world.acquire_call(entry, |ask| ask.count = count));
    int(&reply.array().expect("an array")[0])
}

#[test]
fn present_owner_is_raised_by_one_and_never_by_a_copy() {
    let world = World::embedded();
    let a = world.process().hold(1);
    assert_eq!(code(&world, &a, 1), 1, "granted");
    assert_eq!(code(&world, &a, 1), 2, "a copy finds it held");
    assert_eq!(code(&world, &a, 2), 1, "raised");
    assert_eq!(code(&world, &a, 2), 2);
    assert_eq!(code(&world, &a, 1), 3, "a late copy of an older command");
    assert_eq!(code(&world, &a, 4), -1, "client and server disagree");
    assert_eq!(world.holder(), Some((a, 2)));
}

#[test]
fn an_owner_that_is_absent_gets_nothing_but_a_first_grant() {
    let world = World::embedded();
    let (a, b) = (world.process().hold(1), world.process().hold(1));
    assert_eq!(raised(&world, &a, 2), Acquired::Lost, "nobody holds it");
    assert_eq!(world.holder(), None);
    assert!(is_held(&world.acquire(&b)));
    assert_eq!(raised(&world, &a, 2), Acquired::Lost, "another holds it");
    assert!(world.queue().is_empty(), "a hold that was lost does not queue in silence");
}

#[test]
fn a_lease_never_shrinks_and_never_adds_up() {
    let world = World::embedded();
    let a = world.process().hold(1);
    world.ask(&a, |ask| ask.lease = ms(60_000));
    world.ask(&a, |ask| (ask.count, ask.lease) = (2, ms(1_000)));
    assert_eq!(world.ttl("lock"), 60_000);
    world.ask(&a, |ask| (ask.count, ask.lease) = (3, ms(90_000)));
    assert_eq!(world.ttl("lock"), 90_000);
    assert_eq!(world.release(&a, 1), 2);
    assert_eq!(world.ttl("lock"), 90_000, "a partial release leaves the lease alone");
}

#[test]
fn releases_are_told_apart() {
    let world = World::embedded();
    let (a, b) = (world.process().hold(1), world.process().hold(1));
    assert_eq!(world.release(&a, 0), 0, "absent");
    assert_eq!(world.release(&a, 1), 0, "absent, whatever the count");
    world.acquire(&a);
    raised(&world, &a, 2);
    raised(&world, &a, 3);
    assert_eq!(world.release(&a, 2), 2, "lowered");
    assert_eq!(world.release(&a, 2), 3, "a copy");
    assert_eq!(world.release(&a, 1), 2);
    assert_eq!(world.release(&a, 2), 4, "a late copy of an older command");
    assert_eq!(world.holder(), Some((a.clone(), 1)));
    assert_eq!(world.release(&b, 0), -1, "other");
    assert_eq!(world.release(&b, 1), -1);
    assert_eq!(world.release(&a, 0), 1, "released");
    assert_eq!(world.release(&a, 0), 0, "a copy");
    assert_eq!(world.holder(), None);
}

#[test]
fn a_copy_of_a_release_says_nothing_to_the_next_holder() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    world.acquire(&p.hold(1));
    world.acquire(&q.hold(1));
    world.release(&p.hold(1), 0);
    assert_eq!(world.heard(&q.id()), [q.hold(1)]);
    assert!(is_held(&world.acquire(&q.hold(1))));
    assert_eq!(world.release(&p.hold(1), 0), -1);
    assert_eq!(world.heard(&q.id()), [""; 0]);
}

#[test]
fn a_renewal_renews_what_is_there_and_creates_nothing() {
    let world = World::embedded();
    let process = world.process();
    let renew = |number: u64| {
        let mut renewal = Renewal::default();
        let hold = HoldKey::new(process.hold(number).into(), 1);
        let protocol = world.kind.protocol();
        protocol.renew(&mut renewal, &world.name, &world.keys_of(process), &hold, Duration::from_secs(40));
        let reply = world.run(&Call::new(protocol.renewal().expect("a lease"), renewal.keys, renewal.args));
        reply.array().expect("an array").iter().map(int).collect::<Vec<_>>()
    };
    assert_eq!(renew(1), [0, 0]);
    assert_eq!(world.holder(), None);
    world.acquire(&process.hold(1));
    assert_eq!(renew(1), [1, 40_000]);
    assert_eq!(renew(2), [0, 0]);
}

#[test]
fn late_first_grant_refuses_itself_and_leaves_nothing() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    let limit = u64::try_from(world.now()).expect("a time");
    world.advance(10);
    let late = |entry: &str| world.ask(entry, |ask| ask.not_after = Some(limit));
    assert!(matches!(late(&p.hold(1)), Acquired::TooLate { time: Some(_) }), "free");
    assert!(world.holder().is_none() && world.queue().is_empty());
    assert!(!world.marks().contains_key(&format!("p:{}", p.id())), "a late copy is no sign of life");

    world.acquire(&q.hold(1));
    assert!(matches!(late(&p.hold(1)), Acquired::TooLate { .. }), "held: it gets no place");
    assert!(world.queue().is_empty());
    assert!(matches!(late(&q.hold(1)), Acquired::Held { .. }), "who holds it is answered");

    world.acquire(&p.hold(2));
    assert!(is_placed(&late(&p.hold(2))), "who has a place keeps it");
    assert_eq!(world.release(&q.hold(1), 0), 1);
    assert!(matches!(late(&p.hold(2)), Acquired::TooLate { .. }), "its turn, and too late");
    assert_eq!(world.queue(), [p.hold(2)], "the place is still there");
    assert!(is_held(&world.acquire(&p.hold(2))));
}

#[test]
fn a_limit_of_zero_asks_for_the_time_and_sets_none() {
    let world = World::embedded();
    let a = world.process().hold(1);
    assert!(matches!(world.ask(&a, |ask| ask.not_after = Some(0)), Acquired::Held { time: Some(_), .. }));
}

#[test]
fn a_key_of_another_kind_is_told_and_left_alone() {
    let world = World::embedded();
    let process = world.process();
    let a = process.hold(1);
    let everything = |kind: &str| {
        assert_eq!(world.acquire(&a), Acquired::Kind(kind.to_owned()));
        assert_eq!(world.try_acquire(&a), Acquired::Kind(kind.to_owned()));
        assert!(world.queue().is_empty() && world.marks().is_empty(), "nothing is left of {kind}");
    };
    world.command(&["HSET", "stock", "mode", "read", "b:1", "1"]);
    everything("read-write lock");
    assert_eq!(world.release(&a, 0), -1);
    assert_eq!(world.force_release("b:1"), ForceReleased::Kind);
    world.command(&["DEL", "stock"]);
    world.command(&["SET", "stock", "text"]);
    everything("string");
    assert_eq!(world.release(&a, 0), -4);
    assert_eq!(world.force_release("b:1"), ForceReleased::Kind);
    assert!(matches!(world.beat(process, Some(&a)), fair::Heartbeat::Kind(_)));
    let inspect = fair::inspect(&world.name, &world.settings.fair);
    assert_eq!(conflict(fair::inspected(&world.run(&inspect))), "string");
    world.command(&["DEL", "stock"]);
    for key in ["queue", "deadlines", "marks"] {
        world.command(&["SET", &world.key(key), "text"]);
        assert_eq!(world.acquire(&a), Acquired::Kind("string".into()), "{key}");
        assert_eq!(world.release(&a, 0), -4, "{key}");
        world.command(&["DEL", &world.key(key)]);
    }
    assert!(is_held(&world.acquire(&a)));
}

#[test]
fn place_is_given_up_although_the_lock_changed_its_kind() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    world.acquire(&p.hold(1));
    world.acquire(&q.hold(1));
    world.command(&["DEL", "stock"]);
    world.command(&["SET", "stock", "text"]);
    assert_eq!(world.release(&q.hold(1), 0), -4);
    assert!(world.queue().is_empty());
}

#[test]
fn a_force_release_of_one_field_leaves_the_other_one() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    world.acquire(&p.hold(1));
    world.acquire(&q.hold(1));
    world.command(&["HSET", "stock", "you:1", "1"]);
    assert_eq!(world.force_release(&p.hold(1)), ForceReleased::Ended);
    assert_eq!(world.command(&["EXISTS", "stock"]), Reply::Int(1));
    assert!(!is_held(&world.acquire(&q.hold(1))), "the other field still has the lock");
    assert_eq!(world.force_release("you:1"), ForceReleased::Ended);
    assert!(is_held(&world.acquire(&q.hold(1))));
}

#[test]
fn a_force_release_ends_the_named_hold_and_no_other() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    assert_eq!(world.force_release(&p.hold(1)), ForceReleased::Absent);
    world.acquire(&p.hold(1));
    world.acquire(&q.hold(1));
    assert_eq!(world.force_release(&q.hold(1)), ForceReleased::Other);
    assert_eq!(world.force_release(&p.hold(1)), ForceReleased::Ended);
    assert_eq!(world.heard(&q.id()), [q.hold(1)]);
    assert_eq!(world.force_release(&p.hold(1)), ForceReleased::Absent, "a copy");
    assert!(is_held(&world.acquire(&q.hold(1))));
    assert_eq!(world.force_release(&p.hold(1)), ForceReleased::Other, "a late copy");
    let jvm = Jvm::new(1, 5_000);
    world.release(&q.hold(1), 0);
    assert_eq!(jvm.acquire(&world, 30_000), None);
    assert_eq!(world.force_release(&jvm.entry), ForceReleased::Ended);
    world.command(&["HSET", "stock", "mode", "write", "you:1:write", "1"]);
    assert_eq!(world.force_release("you:1:write"), ForceReleased::Kind, "a writer is no holder of this lock");
    assert_eq!(world.command(&["HLEN", "stock"]), Reply::Int(2));
}
