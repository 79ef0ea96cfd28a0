//! The short ways of the scripts beside the long ones. Whatever state a queue is in, both answer the same and leave the same on the
//! server; and what happens most takes the short way.
//!
//! `LEASEHOLD_SEEDS=n` plays that many histories, and `LEASEHOLD_SEED=s` one.

use super::jvm::Jvm;
use super::world::{Process, World, int};
use crate::histories::each_seed;
use crate::support::ms;
use leasehold_core::call::Call;
use leasehold_core::command::{Kind, fair};
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_embedded::{RefusalEffect, RefuseAt};
use std::collections::BTreeMap;

/// The scripts that have a short way, with its text.
const SHORT_WAYS: [(&str, &str); 4] = [
    ("fair/acquire", include_str!("../../../lua/short/fair_acquire.lua")),
    ("fair/release", include_str!("../../../lua/short/fair_release.lua")),
    ("fair/beat", include_str!("../../../lua/short/fair_beat.lua")),
    ("fenced_fair/acquire", include_str!("../../../lua/short/fenced_fair_acquire.lua")),
];

/// The key that a script sets where it has left its short way.
const LEFT: &str = "left-the-short-way";

/// Runs a call with another text in the place of its short way.
fn run_with(world: &World, call: &Call, change: impl FnOnce(&str) -> String) -> Reply {
    let script = call.script();
    let source = match SHORT_WAYS.iter().find(|(name, _)| *name == script.name()) {
        Some((_, short)) => {
            assert_eq!(script.source().matches(short).count(), 1, "{} has its short way", script.name());
            script.source().replace(short, &change(short))
        }
        None => script.source().to_owned(),
    };
    world
        .server()
        .eval(&source, &call.keys().to_vec(), &call.args().to_vec())
        .unwrap_or_else(|error| panic!("{}: {error}", script.name()))
}

/// Two servers in the same state: all scripts of the one have no short way.
struct Pair {
    short: World,
    long: World,
    /// How often each script was called, and how often it ended in its short way.
    ways: BTreeMap<&'static str, [u64; 2]>,
}

impl Pair {
    fn new(kind: Kind) -> Self {
        let world = || {
            let mut world = World { kind, ..World::embedded() };
            world.settings.fair.max_wait = ms(5_000);
            world
        };
        Self { short: world(), long: world(), ways: BTreeMap::new() }
    }

    /// Sends a call to both, and answers with whether it ended in its short way.
    #[track_caller]
    fn run(&mut self, call: &Call) -> bool {
        let script = call.script().name();
        let before = shown(&self.long);
        let long = run_with(&self.long, call, |_| String::new());
        let short = run_with(&self.short, call, |short| format!("{short}\nredis.call('SET', '{LEFT}', '1')\n"));
        let is_short = int(&self.short.command(&["DEL", LEFT])) == 0;
        let [calls, ends] = self.ways.entry(script).or_default();
        (*calls, *ends) = (*calls + 1, *ends + u64::from(is_short));
        let words = call.args().iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
        assert_eq!(short, long, "{script} {words}, short and long, short: {is_short}, on {before:#?}");
        if is_short && script == "fair/release" {
            // This short way leaves the upkeep of the queue to the next command. Here that is one that does nothing else.
            let nobody = fair::force_release(&self.short.name, "nobody:1", &self.short.settings);
            self.both(|world| assert_eq!(int(&world.run(&nobody)), 0));
        }
        self.assert_equal(&format!("{script} {words}, short: {is_short}, on {before:#?}"));
        is_short
    }

    fn both(&self, change: impl Fn(&World)) {
        change(&self.short);
        change(&self.long);
    }

    #[track_caller]
    fn assert_equal(&self, what: &str) {
        assert_eq!(shown(&self.short), shown(&self.long), "by the short way and by the long one, after {what}");
    }
}

/// All keys with their values and times to live; the channels are lists of what was said.
fn shown(world: &World) -> Vec<String> {
    let text = |reply: Reply| format!("{reply:?}");
    let of = |key: &str| {
        let value = match text(world.command(&["TYPE", key])) {
            kind if kind.contains("hash") => {
                let Reply::Array(parts) = world.command(&["HGETALL", key]) else { panic!("a hash") };
                let mut fields: Vec<_> = parts.chunks_exact(2).map(|pair| format!("{pair:?}")).collect();
                fields.sort();
                fields.join(" ")
            }
            kind if kind.contains("zset") => text(world.command(&["ZRANGE", key, "0", "-1", "WITHSCORES"])),
            kind if kind.contains("list") => text(world.command(&["LRANGE", key, "0", "-1"])),
            _ => text(world.command(&["GET", key])),
        };
        format!("{key}: {value}, for {}", int(&world.command(&["PTTL", key])))
    };
    let mut keys: Vec<_> = world.server().keys().iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    keys.sort();
    keys.iter().map(|key| of(key)).collect()
}

/// A history of some processes, with now and then a JVM, or a change by hand.
fn play(seed: u64, ways: &mut BTreeMap<&'static str, [u64; 2]>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::new(if random.bool() { Kind::Fair } else { Kind::FencedFair });
    let processes: Vec<_> = (0..random.usize(1..=3)).map(|_| pair.short.process()).collect();
    let jvms = if random.u8(..4) == 0 { 2 } else { 0 };
    let damages = random.u8(..3) == 0;
    for _ in 0..200 {
        let process = processes[random.usize(..processes.len())];
        let hold = process.hold(random.u64(1..=4));
        match random.u8(..100) {
            0..=39 => pair.run(&an_acquire(&mut random, &pair.short, &hold)),
            40..=69 => {
                // The holder's release ends a hold; that of another gives up its place, or finds nothing.
                let holder = pair.short.holder().map(|(holder, _)| holder).filter(|_| random.u8(..4) > 0);
                let count = u32::from(random.u8(..20) == 0);
                let call = pair.short.release_call(&holder.unwrap_or(hold), count);
                pair.run(&call)
            }
            70..=84 => {
                let front = (random.u8(..5) > 0).then_some(hold);
                let call = pair.short.beat_call(process, front.as_deref());
                pair.run(&call)
            }
            85..=94 => {
                let most = [1, 60, 700, 2_500][random.usize(..4)];
                let millis = random.u64(..=most);
                pair.both(|world| world.advance(millis));
                false
            }
            95..=97 => {
                if jvms > 0 {
                    by_a_jvm(&mut random, &pair, jvms);
                }
                false
            }
            _ => {
                if damages {
                    by_hand(&mut random, &pair, &processes);
                }
                false
            }
        };
    }
    for (script, [calls, ends]) in pair.ways {
        let sum = ways.entry(script).or_default();
        *sum = [sum[0] + calls, sum[1] + ends];
    }
}

fn an_acquire(random: &mut fastrand::Rng, world: &World, hold: &str) -> Call {
    let (count, lease) = (1 + u32::from(random.u8(..15) == 0), ms(random.u64(200..5_000)));
    let (waits, placed) = (random.u8(..6) > 0, random.u8(..4) == 0);
    let now = u64::try_from(world.now()).expect("a time");
    let not_after = (random.u8(..6) == 0).then(|| now - 20 + random.u64(..40));
    world.acquire_call(hold, |ask| {
        (ask.count, ask.lease, ask.waits, ask.placed, ask.not_after) = (count, lease, waits, placed, not_after);
    })
}

fn by_a_jvm(random: &mut fastrand::Rng, pair: &Pair, jvms: u32) {
    let jvm = Jvm::new(random.u32(..jvms), 1_000);
    let what = random.u8(..4);
    pair.both(|world| match what {
        0 | 1 => drop(jvm.acquire(world, 2_000)),
        2 => drop(jvm.unlock(world, 2_000)),
        _ => jvm.give_up(world, 1_000),
    });
}

/// Changes a key as no script does.
fn by_hand(random: &mut fastrand::Rng, pair: &Pair, processes: &[Process]) {
    let key = ["lock", "queue", "deadlines", "marks"][random.usize(..4)];
    let entry = processes[random.usize(..processes.len())].hold(random.u64(1..=4));
    let process = processes[random.usize(..processes.len())].id();
    let now = pair.short.now();
    let score = [1, now - 5_000, now + 1_000, now + 90_000][random.usize(..4)].to_string();
    let fields = ["h", "o", "ot", "s", "f", "k", "g", "p", "a", "w"];
    let field = match fields[random.usize(..fields.len())] {
        "p" => format!("p:{process}"),
        sort @ ("a" | "w") => format!("{sort}:{entry}"),
        other => other.to_owned(),
    };
    let what = random.u8(..10);
    pair.both(|world| {
        let (queue, deadlines, marks) = (world.key("queue"), world.key("deadlines"), world.key("marks"));
        let reply = match what {
            0 => world.command(&["DEL", &world.key(key)]),
            1 => world.command(&["LREM", &queue, "1", &entry]),
            2 => world.command(&["ZREM", &deadlines, &entry]),
            3 => world.command(&["ZADD", &deadlines, &score, &entry]),
            4 => world.command(&["HDEL", &marks, &field]),
            5 => world.command(&["RPUSH", &queue, &entry]),
            6 => world.command(&["HSET", "stock", "0a0b:21", "1"]),
            7 => {
                // As many entries as scores, and not the same ones.
                world.command(&["LREM", &queue, "1", &entry]);
                world.command(&["RPUSH", &queue, &format!("{process}:77")])
            }
            8 => world.command(&["HSET", &marks, &field, &score]),
            _ => world.command(&["PERSIST", &world.key(key)]),
        };
        drop(reply);
    });
}

#[test]
fn short_way_and_long_way_do_the_same_in_any_history() {
    let mut ways = BTreeMap::new();
    let histories = each_seed(60, |seed| play(seed, &mut ways));
    eprintln!("calls, and those that ended in the short way: {ways:?}");
    for (script, [calls, ends]) in ways {
        let both = ends > histories && calls - ends > histories;
        assert!(histories == 1 || both, "{script}: {ends} of {calls} calls ended in the short way");
    }
}

#[test]
fn what_happens_most_takes_the_short_way() {
    for kind in [Kind::Fair, Kind::FencedFair] {
        let mut pair = Pair::new(kind);
        let (ours, others) = (pair.short.process(), pair.short.process());
        let acquire = |pair: &Pair, hold: &str| pair.short.acquire_call(hold, |_| {});
        let try_acquire = |pair: &Pair, hold: &str| pair.short.acquire_call(hold, |ask| ask.waits = false);
        let release = |pair: &Pair, hold: &str| pair.short.release_call(hold, 0);
        // The marks come into being by the long way.
        let first = acquire(&pair, &ours.hold(1));
        assert!(!pair.run(&first), "the first acquire of all");
        let mut story = vec![
            ("the release with no waiter", release(&pair, &ours.hold(1))),
            ("a free lock", acquire(&pair, &ours.hold(2))),
            ("a try of a lock that is held", try_acquire(&pair, &ours.hold(3))),
            ("the first waiter", acquire(&pair, &others.hold(1))),
        ];
        for number in 2..=64 {
            let process = if number % 2 == 0 { ours } else { others };
            story.push(("an arrival", acquire(&pair, &process.hold(100 + number))));
        }
        story.extend([
            ("a waiter that asks again", acquire(&pair, &ours.hold(150))),
            ("the head that asks again", acquire(&pair, &others.hold(1))),
            ("the tail that asks again", acquire(&pair, &ours.hold(164))),
            ("a heartbeat", pair.short.beat_call(ours, Some(&ours.hold(102)))),
            ("a release", release(&pair, &ours.hold(2))),
            ("an arrival at a free lock that is offered", acquire(&pair, &ours.hold(200))),
            ("a try of a lock that is offered", try_acquire(&pair, &ours.hold(201))),
            ("the grant to the head", acquire(&pair, &others.hold(1))),
            ("a release", release(&pair, &others.hold(1))),
            ("the grant to the next", acquire(&pair, &ours.hold(102))),
        ]);
        for (what, call) in story {
            assert!(pair.run(&call), "{what} takes the long way");
            pair.both(|world| world.advance(1));
        }
    }
}

#[test]
fn a_refusal_within_a_grant_leaves_no_place_behind() {
    for (kind, others) in [(Kind::Fair, 0), (Kind::Fair, 2), (Kind::FencedFair, 0), (Kind::FencedFair, 2)] {
        for at in 1.. {
            let world = World { kind, ..World::embedded() };
            let process = world.process();
            let [holder, head] = [1, 2].map(|number| process.hold(number));
            assert_eq!(world.release(&holder, 0), 0, "the marks are there");
            drop((world.acquire(&holder), world.acquire(&head)));
            let rest: Vec<_> = (3..3 + others).map(|number| process.hold(number)).collect();
            rest.iter().for_each(|hold| drop(world.acquire(hold)));
            assert_eq!(world.release(&holder, 0), 1);
            let denied = ServerError::new("ERR ACL failure in script: User app has no permissions to run a command");
            let (_, met) =
                world.server().execute_refused(&world.acquire_call(&head, |_| {}), RefuseAt::Call(at), denied);
            // The hold goes, as the client has it go if it does not know what became of its request.
            world.release(&head, 0);
            let queue = world.command(&["LRANGE", &world.key("queue"), "0", "-1"]);
            let scores = world.command(&["ZRANGE", &world.key("deadlines"), "0", "-1"]);
            let left = Reply::Array(rest.iter().map(|hold| Reply::Bulk(hold.clone().into())).collect());
            assert_eq!((&queue, &scores), (&left, &left), "{kind:?}, {others} others, refused at {at}: {met:?}");
            assert_eq!(int(&world.command(&["EXISTS", "stock"])), 0);
            if met == RefusalEffect::Nothing {
                break;
            }
        }
    }
}

#[test]
fn free_lock_whose_queue_lost_a_score_is_granted_as_by_the_long_way() {
    // At each place of the list: an entry without a score, beside a score without an entry, so that both are as long.
    for at in 0..3 {
        for asks in 0..4 {
            let mut pair = Pair::new(Kind::Fair);
            let process = pair.short.process();
            let [holder, first, second, unscored, gone] = [1, 2, 3, 77, 78].map(|number| process.hold(number));
            for hold in [&holder, &first, &second] {
                let call = pair.short.acquire_call(hold, |_| {});
                pair.run(&call);
            }
            let mut entries = vec![first, second];
            entries.insert(at, unscored);
            pair.both(|world| {
                let (queue, deadlines) = (world.key("queue"), world.key("deadlines"));
                let score = (world.now() + 1_000).to_string();
                drop(world.command(&["DEL", &queue, "stock"]));
                entries.iter().for_each(|entry| drop(world.command(&["RPUSH", &queue, entry])));
                drop(world.command(&["ZADD", &deadlines, &score, &gone]));
            });
            entries.push(gone);
            let call = pair.short.acquire_call(&entries[asks], |_| {});
            pair.run(&call);
            // The next grant finds the queue that this one has left.
            if let Some((holder, _)) = pair.short.holder() {
                let call = pair.short.release_call(&holder, 0);
                pair.run(&call);
            }
            let call = pair.short.acquire_call(&entries[asks], |_| {});
            pair.run(&call);
        }
    }
}
