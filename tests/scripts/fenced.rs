//! The fenced lock: what `lock` does, and a token that grows with every grant.

use crate::support::{Wish, World, each};
use leasehold_core::command::holder::Holder;
use leasehold_core::command::{Acquired, Kind, lock};

const FENCED: Kind = Kind::Fenced;

fn last(world: &World) -> Option<u64> {
    world.reply("GET redisson_lock_token:{{}}").int().ok().and_then(|token| u64::try_from(token).ok())
}

fn wish(lease: u64) -> Wish<'static> {
    Wish { lease, ..Wish::default() }
}

#[test]
fn a_grant_has_the_servers_time_in_microseconds_as_its_token() {
    let world = World::embedded("f");
    assert_eq!(last(&world), None);
    assert_eq!(world.acquire(FENCED, "me:1", 1, wish(1_000)), "[1, 1000, \"1800000000000000\"]");
    world.check("HGETALL {} => [\"me:1\", \"1\"]\nPTTL {} => 1000\nPTTL redisson_lock_token:{f} => -1");
    assert_eq!(last(&world), Some(1_800_000_000_000_000));
}

#[test]
fn a_re_entry_and_every_copy_have_the_token_of_the_grant() {
    let world = World::embedded("f");
    world.acquire(FENCED, "me:1", 1, wish(1_000));
    world.advance(100);
    let token = "\"1800000000000000\"";
    assert_eq!(world.acquire(FENCED, "me:1", 1, wish(1_000)), format!("[2, 1000, {token}]"), "held");
    assert_eq!(world.acquire(FENCED, "me:1", 2, wish(500)), format!("[1, 1000, {token}]"), "raised");
    world.advance(100);
    assert_eq!(world.acquire(FENCED, "me:1", 1, wish(9_000)), format!("[3, 900, {token}]"), "past");
    assert_eq!(world.acquire(FENCED, "me:1", 4, wish(9_000)), "[-1, 2]", "mismatch");
    world.check("HGETALL {} => [\"me:1\", \"2\"]\nPTTL {} => 900");
}

#[test]
fn a_refusal_issues_no_token() {
    let world = World::embedded("f");
    assert_eq!(world.acquire(FENCED, "me:1", 2, wish(1_000)), "[-2, 0]", "lost");
    let late = Wish { not_after: Some(1_799_999_999_999), ..wish(1_000) };
    assert_eq!(world.acquire(FENCED, "me:1", 1, late), "[-3, 0]", "too late");
    assert_eq!(last(&world), None);
    let token = world.token(FENCED, "you:1", 1);
    world.advance(10);
    assert_eq!(world.acquire(FENCED, "me:1", 1, wish(1_000)), "[0, 29990]", "busy");
    assert_eq!(last(&world), Some(token));
}

#[test]
fn tokens_grow_over_release_expiry_and_force_release() {
    let world = World::embedded("f");
    let mut tokens = vec![world.token(FENCED, "me:1", 1)];
    assert_eq!(world.release(FENCED, "me:1", 0), 1);
    // No time passes.
    tokens.push(world.token(FENCED, "me:2", 1));
    world.advance(30_001);
    tokens.push(world.token(FENCED, "me:3", 1));
    let force = lock::force_release(&world.name, "me:3", &"PUBLISH".into());
    assert_eq!(lock::forced(&world.run(&force)), Ok(lock::ForceReleased::Ended));
    assert_eq!(last(&world), Some(tokens[2]), "the token outlives the lock");
    tokens.push(world.token(FENCED, "me:4", 1));
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn tokens_grow_when_the_servers_clock_goes_back() {
    let world = World::embedded("f");
    let first = world.token(FENCED, "me:1", 1);
    world.release(FENCED, "me:1", 0);
    world.server().step_clock(-3_600_000);
    assert_eq!(world.token(FENCED, "me:2", 1), first + 1);
}

#[test]
fn tokens_grow_past_a_stored_one_of_the_future_and_past_a_jvms() {
    each("fenced-future", |world| {
        world.command("SET redisson_lock_token:{fenced-future} 9007199254740000");
        assert_eq!(world.token(FENCED, "me:1", 1), 9_007_199_254_740_001);
        world.release(FENCED, "me:1", 0);
        // The effect of a JVM at each of its grants, and before any of ours the counter is small.
        world.check("INCR redisson_lock_token:{fenced-future} => 9007199254740002");
        assert_eq!(world.token(FENCED, "me:2", 1), 9_007_199_254_740_003);
        world.release(FENCED, "me:2", 0);
        world.command("SET redisson_lock_token:{fenced-future} 41");
        assert!(world.token(FENCED, "me:3", 1) > 1_500_000_000_000_000, "time is ahead of a small counter");
        world.release(FENCED, "me:3", 0);
        world.command("DEL redisson_lock_token:{fenced-future}");
    });
}

#[test]
fn no_token_is_issued_where_lua_cannot_count_on() {
    let world = World::embedded("f");
    world.command("SET redisson_lock_token:{f} 9007199254740991");
    let call = world.acquire_call(FENCED, "me:1", 1, Wish::default());
    let error = world.server().execute(&call).expect_err("a refusal");
    assert!(error.text().contains("2^53"), "{error}");
    world.check("EXISTS {} => 0\nGET redisson_lock_token:{f} => \"9007199254740991\"");
}

#[test]
fn a_token_that_is_gone_is_issued_anew_for_the_hold_that_stands() {
    let world = World::embedded("f");
    let first = world.token(FENCED, "me:1", 1);
    world.advance(1);
    world.command("DEL redisson_lock_token:{f}");
    let second = world.token(FENCED, "me:1", 2);
    assert!(second > first);
    assert_eq!(world.token(FENCED, "me:1", 2), second, "a copy");
}

#[test]
fn keys_of_another_kind_are_named_and_left_alone() {
    each("fenced-kind", |world| {
        world.command("RPUSH redisson_lock_token:{fenced-kind} x");
        assert_eq!(world.acquire(FENCED, "me:1", 1, Wish::default()), "[-4, \"list\"]");
        world.check("EXISTS {} => 0\nDEL redisson_lock_token:{fenced-kind} => 1");
        world.command("SET {} x");
        assert_eq!(world.acquire(FENCED, "me:1", 1, Wish::default()), "[-4, \"string\"]");
        world.check("GET {} => \"x\"\nDEL {} => 1\nHSET {} mode read you:1 1 => 2");
        assert_eq!(world.acquire(FENCED, "me:1", 1, Wish::default()), "[-4, \"read-write lock\"]");
        world.check("HLEN {} => 2\nEXISTS redisson_lock_token:{fenced-kind} => 0\nDEL {} => 1");
    });
}

#[test]
fn it_is_released_renewed_and_inspected_as_a_lock() {
    each("fenced-verbs", |world| {
        let mut listener = world.listen_to(FENCED);
        let Acquired::Held { token: Some(token), .. } = world.acquired(FENCED, "me:1", 1, wish(20_000)) else {
            panic!("the lock is free")
        };
        world.acquire(FENCED, "me:1", 2, wish(20_000));
        assert_eq!(world.renew(FENCED, &[("me:1", 40_000), ("me:2", 40_000)]), "[2, 40000, 0, 0]");
        let inspected = lock::inspected(&world.run(&lock::inspect(&world.name))).expect("it is understood");
        assert!(matches!(&inspected, Some(Holder { holder, count: 2, .. }) if holder == "me:1"), "{inspected:?}");
        assert_eq!(world.release(FENCED, "me:1", 1), 2);
        listener.hears(&[]);
        assert_eq!(world.release(FENCED, "me:1", 0), 6);
        listener.hears(&["0"]);
        assert_eq!(world.release(FENCED, "me:1", 0), 0);
        assert_eq!(last(world), Some(token));
    });
}
