//! The look at a name of any kind.

use crate::support::{Bench, CLIENT, Desk, LEASE, conflict, hold, ms, once, publish};
use leasehold_core::command::any::{self, Found, Inspected, Sort};
use leasehold_core::command::read_write::Mode;
use leasehold_core::command::{Kind, latch, permits, semaphore};
use leasehold_core::name::LockName;
use leasehold_core::settings::Settings;

#[track_caller]
fn look(bench: &Bench, name: &LockName, most: u32) -> Inspected {
    any::inspected(&bench.run(&any::inspect(name, &Settings::default(), most))).expect("the reply is understood")
}

#[track_caller]
fn found(bench: &Bench, name: &LockName) -> Found {
    match look(bench, name, 16) {
        Inspected::Found(found) => *found,
        other => panic!("{name}: {other:?}"),
    }
}

#[track_caller]
fn kind(bench: &Bench, name: &LockName) -> String {
    conflict(any::inspected(&bench.run(&any::inspect(name, &Settings::default(), 16))))
}

/// What a counter needs before it can be acquired.
fn set(desk: &Desk<'_>) {
    let call = match desk.kind {
        Kind::Semaphore => semaphore::set(&desk.name, 3, None, &once(), &publish()),
        Kind::Permits => permits::set(&desk.name, 3, &once(), &publish()),
        Kind::Latch => latch::set(&desk.name, 3, &once(), &publish()),
        _ => return,
    };
    desk.bench.run(&call);
}

const fn sort_of(kind: Kind) -> Sort {
    match kind {
        Kind::Lock | Kind::Spin => Sort::Lock,
        Kind::Fair => Sort::Fair,
        Kind::FencedFair => Sort::FencedFair,
        Kind::Fenced => Sort::Fenced,
        Kind::Simple => Sort::Simple,
        Kind::Read | Kind::Write => Sort::ReadWrite,
        Kind::Permits => Sort::Permits,
        Kind::Semaphore | Kind::Latch => Sort::Counter,
    }
}

#[test]
fn a_lock_of_every_kind_is_told_by_its_data() {
    Bench::everywhere(|bench| {
        for kind in Kind::ALL {
            let desk = bench.desk(kind);
            set(&desk);
            let mine = hold(1);
            if kind != Kind::Latch {
                assert!(desk.gets(&mine), "{kind:?}");
            }
            let seen = found(bench, &desk.name);
            assert_eq!((seen.sort, seen.queued), (sort_of(kind), 0), "{kind:?}");
            if matches!(kind, Kind::Semaphore | Kind::Latch) {
                let left = if kind == Kind::Latch { 3 } else { 2 };
                assert_eq!((seen.available, seen.holds.len(), seen.held), (left, 0, 0), "{kind:?}");
                continue;
            }
            let [only] = &seen.holds[..] else { panic!("{kind:?}: {:?}", seen.holds) };
            assert_eq!((only.count, seen.held), (Some(1), 1), "{kind:?}");
            assert!(only.left.is_some_and(|left| left <= LEASE && left > LEASE / 2), "{kind:?}: {only:?}");
            assert_eq!(only.mode == Mode::Read, kind == Kind::Read, "{kind:?}");
            if kind == Kind::Permits {
                assert_eq!((only.name.len(), seen.available), (32, 2));
            } else {
                assert_eq!(only.name.as_bytes(), &mine.field()[..], "{kind:?}");
                assert!(only.is_of_a_client(), "{kind:?}");
            }
            assert_eq!(seen.token.is_some(), matches!(kind, Kind::Fenced | Kind::FencedFair), "{kind:?}");
            let fair = matches!(kind, Kind::Fair | Kind::FencedFair);
            assert_eq!(seen.listeners, (!fair && kind != Kind::Simple).then_some(0), "{kind:?}");
        }
    });
}

#[test]
fn a_free_lock_is_absent_but_for_its_last_token() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Fenced);
        assert_eq!(look(bench, &desk.name, 16), Inspected::Absent { token: None });
        let mine = hold(1);
        assert!(desk.gets(&mine));
        let token = found(bench, &desk.name).token;
        desk.release(&mine);
        assert_eq!(look(bench, &desk.name, 16), Inspected::Absent { token });
        assert!(token.is_some());
    });
}

#[test]
fn what_no_lock_writes_is_named_by_its_type() {
    Bench::everywhere(|bench| {
        let name = |word: &str| bench.name(word);
        let long = "x".repeat(300);
        for (command, rest, expected) in [
            ("RPUSH", &["a"][..], "list"),
            ("ZADD", &["1", "a"], "zset"),
            ("SET", &["a text without an end"], "string"),
            ("SET", &[&long, "PX", "60000"], "string"),
            ("HSET", &["field", "1"], "hash"),
            ("HSET", &["mode", "dark", "field", "1"], "hash"),
            ("HSET", &["mode", &long], "hash"),
            (
                "HSET",
                &["a", "1", "b", "1", "c", "1", "d", "1", "e", "1", "f", "1", "g", "1", "h", "1", "i", "1"],
                "hash",
            ),
            ("HSET", &[&format!("{CLIENT}:1"), &long], "hash"),
        ] {
            let foreign = name("foreign");
            bench.on(command, foreign.key(), rest);
            // A hold of it would live for as long as the key.
            bench.on("PEXPIRE", foreign.key(), &["60000"]);
            if expected == "string" && rest.len() == 1 {
                bench.on("PERSIST", foreign.key(), &[]);
            }
            assert_eq!(kind(bench, &foreign), expected, "{command} {rest:?}");
        }
        // Companions of other types say nothing.
        let stock = name("stock");
        bench.on("HSET", stock.key(), &[&format!("{CLIENT}:1"), "1"]);
        for (prefix, command, rest) in [
            ("redisson_lock_queue", "SET", &["a"][..]),
            ("redisson_lock_timeout", "SET", &["a"]),
            ("leasehold:1:fair", "SET", &["a"]),
            ("redisson_lock_token", "RPUSH", &["a"]),
        ] {
            bench.on(command, &stock.prefixed(prefix), rest);
        }
        bench.on("SET", &stock.suffixed("timeout"), &["a"]);
        let seen = found(bench, &stock);
        assert_eq!((seen.sort, seen.left, seen.token), (Sort::Lock, None, None));
    });
}

#[test]
fn a_queue_tells_the_living_from_the_silent() {
    let bench = Bench::embedded();
    let desk = bench.desk(Kind::Fair);
    let (holder, waiter) = (hold(1), hold(1));
    assert!(desk.gets(&holder));
    desk.acquire(&waiter);
    bench.advance(500);
    let seen = found(&bench, &desk.name);
    assert_eq!(seen.queued, 1);
    assert_eq!((seen.waiters[0].age, seen.waiters[0].alive), (Some(ms(500)), true));
    bench.advance(2_000);
    assert!(!found(&bench, &desk.name).waiters[0].alive);
    // The lock is free and its key is gone, and the queue is there.
    desk.bench.on("DEL", desk.name.key(), &[]);
    let seen = found(&bench, &desk.name);
    assert_eq!((seen.sort, seen.is_there, seen.held, seen.queued), (Sort::Fair, false, 0, 1));
}

#[test]
fn a_queue_is_listed_in_order_and_counted_without_its_dead() {
    Bench::everywhere(|bench| {
        let name = bench.name("till");
        let (queue, deadlines) = (name.prefixed("redisson_lock_queue"), name.prefixed("redisson_lock_timeout"));
        for number in 0..40 {
            let entry = format!("{CLIENT}:{number}");
            bench.on("RPUSH", &queue, &[&entry]);
            // The first two have left the middle of the queue; a JVM's deadline lies far ahead.
            let score = if number < 2 { "1" } else { "9000000000000" };
            bench.on("ZADD", &deadlines, &[score, &entry]);
        }
        let Inspected::Found(seen) = look(bench, &name, 5) else { panic!("there is a queue") };
        assert_eq!((seen.queued, seen.held, seen.is_there), (38, 0, false));
        let listed: Vec<_> = seen.waiters.iter().map(|waiter| waiter.waiter.clone()).collect();
        assert_eq!(listed, (2..7).map(|number| format!("{CLIENT}:{number}")).collect::<Vec<_>>());
        assert!(seen.waiters.iter().all(|waiter| waiter.alive && waiter.age.is_none()), "{:?}", seen.waiters);
    });
}

#[test]
fn a_crowd_of_readers_is_counted_and_not_listed() {
    Bench::everywhere(|bench| {
        let name = bench.name("catalog");
        bench.on("HSET", name.key(), &["mode", "read"]);
        let fields: Vec<String> =
            (0..1_500).flat_map(|number| [format!("{CLIENT}:{number}"), "1".to_owned()]).collect();
        bench.on("HSET", name.key(), &fields.iter().map(String::as_str).collect::<Vec<_>>());
        let seen = found(bench, &name);
        assert_eq!((seen.sort, seen.held, seen.holds.len()), (Sort::ReadWrite, 1_500, 0));
        // Few readers are listed one by one, as far as they live, and never more than are wanted.
        let desk = bench.desk(Kind::Read);
        let readers = [hold(1), hold(1), hold(1)];
        assert!(readers.iter().all(|reader| desk.gets(reader)));
        bench.on("HSET", desk.name.key(), &[&format!("{CLIENT}:dead"), "1"]);
        let Inspected::Found(seen) = look(bench, &desk.name, 2) else { panic!("a lock") };
        assert_eq!((seen.holds.len(), seen.held), (2, 4));
        let seen = found(bench, &desk.name);
        assert_eq!((seen.holds.len(), seen.held), (3, 3), "the dead one counts for nothing");
        // If all are dead, the lock is free.
        let over = bench.name("over");
        bench.on("HSET", over.key(), &["mode", "read", &format!("{CLIENT}:dead"), "1"]);
        assert_eq!(look(bench, &over, 16), Inspected::Absent { token: None });
    });
}

#[test]
fn held_permits_are_listed_and_expired_ones_are_available() {
    let bench = Bench::embedded();
    let desk = bench.desk(Kind::Permits);
    set(&desk);
    assert!(desk.gets(&hold(2)));
    let seen = found(&bench, &desk.name);
    assert_eq!((seen.held, seen.available, seen.holds.len()), (2, 1, 2));
    bench.advance(30_001);
    let seen = found(&bench, &desk.name);
    assert_eq!((seen.held, seen.available, seen.holds.len()), (0, 3, 0));
}

#[test]
fn listeners_of_a_channel_are_counted() {
    Bench::everywhere(|bench| {
        for kind in [Kind::Lock, Kind::Read, Kind::Semaphore, Kind::Latch, Kind::Permits] {
            let desk = bench.desk(kind);
            set(&desk);
            if kind != Kind::Latch {
                assert!(desk.gets(&hold(1)));
            }
            let _ears = [bench.listen(desk.channel()), bench.listen(desk.channel())];
            assert_eq!(found(bench, &desk.name).listeners, Some(2), "{kind:?}");
        }
    });
}

#[test]
fn names_with_braces_have_their_keys_beside_them() {
    Bench::everywhere(|bench| {
        let desk = Desk::new(
            bench,
            Kind::Fair,
            LockName::new("", &format!("{{shop}}:{}", bench.name("till").as_str())).expect("a name"),
            Settings::default(),
        );
        assert!(desk.gets(&hold(1)));
        desk.acquire(&hold(1));
        let seen = found(bench, &desk.name);
        assert_eq!((seen.sort, seen.held, seen.queued), (Sort::Fair, 1, 1));
        let call = any::inspect(&desk.name, &Settings::default(), 1);
        let slots: std::collections::BTreeSet<_> = call.keys().iter().map(leasehold_core::name::slot).collect();
        assert_eq!(slots.len(), 1, "one node of a cluster has all of it");
    });
}
