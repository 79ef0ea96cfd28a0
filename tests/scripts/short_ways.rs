//! The short ways of the acquires that take a free lock, beside the long ones: both answer the same, and leave the same on the server.

use crate::support::{Wish, World, show};
use leasehold_core::command::Kind;

/// The lock's value and the time that it has, and the last token.
fn shown(world: &World) -> [String; 4] {
    let value = match world.command("TYPE {}").as_str() {
        "\"hash\"" => world.command("HGETALL {}"),
        _ => world.command("GET {}"),
    };
    [world.command("TYPE {}"), value, world.command("PTTL {}"), world.command("TYPE redisson_lock_token:{short-way}")]
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
        let call = world.acquire_call(kind, "me:1", count, *wish);
        let source = call.script().source();
        assert_eq!(source.matches(short_way).count(), 1, "the script has its short way");
        let left = format!("{short_way}\nredis.call('SET', 'left-the-short-way', '1')\n");
        let [long, short] = [source.replace(short_way, ""), source.replace(short_way, &left)].map(|source| {
            for key in ["{}", "redisson_lock_token:{short-way}"] {
                world.command(&format!("DEL {key}"));
            }
            state.lines().for_each(|command| drop(world.command(command)));
            let reply = world.server().eval(&source, call.keys(), call.args());
            (reply.map(|reply| show(&reply)).map_err(|error| error.to_string()), shown(&world))
        });
        assert_eq!(short, long, "count {count}, {wish:?}, {state:?}");
        let is_short = world.command("DEL left-the-short-way") == "0";
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
