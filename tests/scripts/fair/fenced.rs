//! The fair lock with fencing tokens.

use super::world::{World, is_placed};
use leasehold_core::command::{Acquired, Kind};

fn fenced() -> World {
    World { kind: Kind::FencedFair, ..World::embedded() }
}

#[track_caller]
fn token(acquired: &Acquired) -> u64 {
    match acquired {
        Acquired::Held { token: Some(token), .. } => *token,
        other => panic!("{other:?} has no token"),
    }
}

#[test]
fn every_grant_has_a_greater_token() {
    let world = fenced();
    let mut last = 0;
    for number in 1..=4 {
        let hold = world.process().hold(number);
        let granted = token(&world.acquire(&hold));
        assert!(granted > last, "{granted} after {last}, at the same microsecond");
        assert_eq!(granted, u64::try_from(world.now()).expect("a time") * 1_000 + number - 1);
        last = granted;
        world.release(&hold, 0);
    }
    world.advance(1);
    assert_eq!(token(&world.acquire(&world.process().hold(1))), u64::try_from(world.now()).expect("a time") * 1_000);
}

#[test]
fn a_copy_and_a_reentry_have_the_token_of_the_grant() {
    let world = fenced();
    let a = world.process().hold(1);
    let first = token(&world.acquire(&a));
    world.advance(5);
    assert_eq!(token(&world.acquire(&a)), first);
    assert_eq!(token(&world.ask(&a, |ask| ask.count = 2)), first);
    assert_eq!(token(&world.ask(&a, |ask| ask.count = 1)), first, "a late copy");
}

#[test]
fn a_place_has_no_token_and_takes_none() {
    let world = fenced();
    let (a, b) = (world.process().hold(1), world.process().hold(1));
    let first = token(&world.acquire(&a));
    assert!(is_placed(&world.acquire(&b)));
    assert!(matches!(world.try_acquire(&world.process().hold(1)), Acquired::Busy { .. }));
    world.release(&a, 0);
    assert_eq!(token(&world.acquire(&b)), first + 1);
    assert_eq!(world.ttl("token"), -1, "it stays for ever");
    world.release(&b, 0);
    assert_eq!(world.ttl("token"), -1);
}

#[test]
fn a_token_key_that_was_deleted_is_begun_anew_and_greater() {
    let world = fenced();
    let a = world.process().hold(1);
    let first = token(&world.acquire(&a));
    world.command(&["DEL", &world.key("token")]);
    world.advance(1);
    let again = token(&world.acquire(&a));
    assert!(again > first);
    assert_eq!(token(&world.acquire(&a)), again);
}

#[test]
fn a_token_key_of_another_kind_costs_no_place() {
    let world = fenced();
    let (a, b) = (world.process().hold(1), world.process().hold(1));
    world.acquire(&a);
    world.acquire(&b);
    world.release(&a, 0);
    world.command(&["DEL", &world.key("token")]);
    world.command(&["HSET", &world.key("token"), "a", "b"]);
    assert_eq!(world.acquire(&b), Acquired::Kind("hash".into()));
    assert_eq!(world.queue(), [b]);
}

#[test]
fn no_token_is_issued_where_lua_cannot_count_on() {
    let world = fenced();
    let hold = world.process().hold(1);
    let call = world.acquire_call(&hold, |_| {});
    world.command(&["SET", &world.key("token"), "9007199254740991"]);
    let error = world
        .server()
        .eval(call.script().source(), &call.keys().to_vec(), &call.args().to_vec())
        .expect_err("a refusal");
    assert!(error.to_string().contains("2^53"), "{error}");
}
