//! The short ways of the acquires that take a free lock, beside the long ones: both answer the same, and leave the same on the server.

use crate::support::{Wish, World, show};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::script::SIMPLE_RELEASE;

/// The lock's value and the time that it has, and the last token.
fn shown(world: &World) -> [String; 4] {
    let value = match world.command("TYPE {}").as_str() {
        "\"hash\"" => world.command("HGETALL {}"),
        _ => world.command("GET {}"),
    };
    [world.command("TYPE {}"), value, world.command("PTTL {}"), world.command("TYPE redisson_lock_token:{short-way}")]
}

/// Runs a call with and without the short way, and asserts equal results. Returns whether the short way handled it.
fn run_both(world: &World, call: &Call, short_way: &str, state: &str) -> bool {
    let source = call.script().source();
    assert_eq!(source.matches(short_way).count(), 1, "the script has its short way");
    let left = format!("{short_way}\nredis.call('SET', 'left-the-short-way', '1')\n");
    let [long, short] = [source.replace(short_way, ""), source.replace(short_way, &left)].map(|source| {
        for key in ["{}", "redisson_lock_token:{short-way}"] {
            world.command(&format!("DEL {key}"));
        }
        state.lines().for_each(|command| drop(world.command(command)));
        let reply = world.server().eval(&source, &call.keys().to_vec(), &call.args().to_vec());
        (reply.map(|reply| show(&reply)).map_err(|error| error.to_string()), shown(world))
    });
    assert_eq!(short, long, "{call:?}, {state:?}");
    world.command("DEL left-the-short-way") == "0"
}

/// Runs all wishes in all states, and says how many took the short way.
fn compare(kind: Kind, short_way: &str, states: &[&str]) -> u32 {
    let world = World::embedded("short-way");
    let wishes = [None, Some(0), Some(1), Some(u64::MAX / 4096)].map(|not_after| Wish {
        lease: 60_000,
        not_after,
        ..Wish::default()
    });
    let asks = || wishes.iter().flat_map(|wish| [1, 2].map(|count| (wish, count)));
    let mut short_ways = 0;
    for (state, (wish, count)) in states.iter().flat_map(|state| asks().map(move |ask| (state, ask))) {
        let is_short = run_both(&world, &world.acquire_call(kind, "me:1", count, *wish), short_way, state);
        assert!(!is_short || wish.not_after.is_none() && count == 1, "{wish:?}, {state:?}");
        short_ways += u32::from(is_short);
    }
    short_ways
}

const LOCKS: [&str; 7] = [
    "",
    "HSET {} me:1 1\nPEXPIRE {} 70000",
    "HSET {} you:1 1\nPEXPIRE {} 70000",
    "HSET {} mode 1\nPEXPIRE {} 70000",
    "SET {} me:1",
    "HSET {} you:1 1",
    "HSET {} me:1 nonsense",
];

#[test]
fn the_short_way_of_a_lock_does_as_the_long_one() {
    assert_eq!(compare(Kind::Lock, include_str!("../../lua/short/lock_acquire.lua"), &LOCKS), 1);
}

#[test]
fn the_short_way_of_a_fenced_lock_does_as_the_long_one() {
    let short_way = include_str!("../../lua/short/fenced_acquire.lua");
    assert_eq!(compare(Kind::Fenced, short_way, &LOCKS), 1);
    let tokens = [
        "SET redisson_lock_token:{short-way} 5",
        "SET redisson_lock_token:{short-way} 9007199254740990",
        "SET redisson_lock_token:{short-way} nonsense",
        "SET redisson_lock_token:{short-way} 9007199254740991",
        "RPUSH redisson_lock_token:{short-way} 5",
    ];
    assert_eq!(compare(Kind::Fenced, short_way, &tokens), 3, "the last two are refused");
}

#[test]
fn the_short_way_of_the_release_of_a_simple_lock_does_as_the_long_one() {
    let world = World::embedded("short-way");
    let short_way = include_str!("../../lua/short/simple_release.lua");
    let mut short_ways = 0;
    for state in ["", "SET {} me", "SET {} you", "SET {} mess", "SET {} m", "HSET {} me 1"] {
        for (id, count) in [("me", "0"), ("me", "1"), ("", "0")] {
            let args = [id, count].map(Bytes::from).to_vec();
            let call = Call::new(&SIMPLE_RELEASE, vec![Bytes::from("short-way")], args);
            short_ways += u32::from(run_both(&world, &call, short_way, state));
        }
    }
    assert_eq!(short_ways, 1);
}
