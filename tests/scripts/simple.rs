//! The simple lock: a string with the caller's id, as go-zero has it.

use crate::support::{Wish, World, each, show};
use leasehold_core::command::{Kind, lock, simple};
use proptest::prelude::*;

const SIMPLE: Kind = Kind::Simple;

fn wish(lease: u64) -> Wish<'static> {
    Wish { lease, ..Wish::default() }
}

#[test]
fn the_key_is_the_plain_name_and_the_value_the_id() {
    let world = World::embedded("s");
    assert_eq!(world.acquire(SIMPLE, "Xu2k", 1, wish(5_500)), "[1, 5500]");
    world.check("TYPE {} => \"string\"\nGET {} => \"Xu2k\"\nPTTL {} => 5500");
    assert_eq!(world.server().keys(), ["s"], "and nothing else is written");
    assert_eq!(world.keys(SIMPLE).channel, None);
}

#[test]
fn the_same_id_lengthens_the_lease_and_never_shortens_it() {
    let world = World::embedded("s");
    world.acquire(SIMPLE, "me", 1, wish(1_000));
    world.advance(400);
    assert_eq!(world.acquire(SIMPLE, "me", 1, wish(1_000)), "[2, 1000]");
    world.advance(400);
    assert_eq!(world.acquire(SIMPLE, "me", 1, wish(100)), "[2, 600]");
    assert_eq!(world.acquire(SIMPLE, "me", 2, wish(2_000)), "[2, 2000]", "a re-entry is the same");
    world.check("GET {} => \"me\"\nPTTL {} => 2000");
}

#[test]
fn others_are_refused_and_a_re_entry_creates_nothing() {
    let world = World::embedded("s");
    assert_eq!(world.acquire(SIMPLE, "me", 2, wish(1_000)), "[-2, 0]", "lost: the lock is free");
    let late = Wish { not_after: Some(1_799_999_999_999), ..wish(1_000) };
    assert_eq!(world.acquire(SIMPLE, "me", 1, late), "[-3, 0]");
    world.check("EXISTS {} => 0");
    world.acquire(SIMPLE, "you", 1, wish(1_000));
    world.advance(250);
    assert_eq!(world.acquire(SIMPLE, "me", 1, wish(1_000)), "[0, 750]");
    assert_eq!(world.acquire(SIMPLE, "me", 2, wish(1_000)), "[-2, 0]", "lost: another has it");
    assert_eq!(world.acquire(SIMPLE, "you", 1, late), "[2, 1000]", "a copy is never too late");
    world.check("PERSIST {} => 1");
    assert_eq!(world.acquire(SIMPLE, "me", 1, wish(1_000)), "[0, -1]");
    world.check("GET {} => \"you\"");
}

#[test]
fn release_compares_and_deletes() {
    each("simple-release", |world| {
        assert_eq!(world.release(SIMPLE, "me", 0), 0);
        world.acquire(SIMPLE, "me", 1, wish(60_000));
        assert_eq!(world.release(SIMPLE, "you", 0), -1);
        assert_eq!(world.release(SIMPLE, "you", 1), -1);
        assert_eq!(world.release(SIMPLE, "me", 1), 3);
        world.check("GET {} => \"me\"");
        assert_eq!(world.release(SIMPLE, "me", 0), 1);
        assert_eq!(world.release(SIMPLE, "me", 0), 0, "a copy");
        assert_eq!(world.release(SIMPLE, "me", 1), 0);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn renew_treats_each_key_alone() {
    let world = World::embedded("s");
    world.acquire(SIMPLE, "me", 1, wish(1_000));
    world.advance(500);
    assert_eq!(world.renew(SIMPLE, &[("me", 1_000), ("you", 9_000), ("me", 300)]), "[1, 1000, 0, 0, 1, 1000]");
    world.advance(1_001);
    assert_eq!(world.renew(SIMPLE, &[("me", 1_000)]), "[0, 0]");
    world.check("EXISTS {} => 0\nHSET {} me 1 => 1");
    assert_eq!(world.renew(SIMPLE, &[("me", 1_000)]), "[-4, 0]");
    world.check("PTTL {} => -1");
}

#[test]
fn it_is_inspected_and_forced_by_the_id_that_was_seen() {
    each("simple-force", |world| {
        let inspect = || show(&world.run(&simple::inspect(&world.name)));
        let force = |holder| lock::forced(&world.run(&simple::force_release(&world.name, holder)));
        assert_eq!(inspect(), "[0]");
        assert_eq!(force("me"), Ok(lock::ForceReleased::Absent));
        world.command("SET {} me");
        assert_eq!(inspect(), "[1, -1, \"me\", 1]");
        assert_eq!(force("you"), Ok(lock::ForceReleased::Other));
        assert_eq!(force("me"), Ok(lock::ForceReleased::Ended));
        assert_eq!(inspect(), "[0]");
    });
}

#[test]
fn hashes_and_strings_are_told_apart() {
    each("simple-kind", |world| {
        world.acquire(Kind::Lock, "me:1", 1, wish(60_000));
        assert_eq!(world.acquire(SIMPLE, "me", 1, wish(60_000)), "[-4, \"hash\"]");
        assert_eq!(world.release(SIMPLE, "me", 0), -4);
        assert_eq!(show(&world.run(&simple::inspect(&world.name))), "[-4, \"hash\"]");
        world.check("HGETALL {} => [\"me:1\", \"1\"]\nDEL {} => 1");
        world.acquire(SIMPLE, "me", 1, wish(60_000));
        for kind in [Kind::Lock, Kind::Fenced, Kind::Spin] {
            assert_eq!(world.acquire(kind, "me:1", 1, wish(60_000)), "[-4, \"string\"]");
            assert_eq!(world.release(kind, "me:1", 0), -4);
        }
        world.check("GET {} => \"me\"\nDEL {} => 1");
    });
}

/// The behaviour that go-zero publishes of its lock: an acquire of the same id sets the lease anew, another's takes the key only if it is
/// absent; a release deletes the key of its own id. Leases are whole seconds and 500 ms, and a key is there until its last millisecond is
/// over.
#[derive(Default)]
struct GoZero {
    held: Option<(String, u64)>,
}

impl GoZero {
    fn acquire(&mut self, now: u64, id: &str, seconds: u64) -> bool {
        let free = self.held.as_ref().is_none_or(|(holder, until)| *until < now || holder == id);
        if free {
            self.held = Some((id.to_owned(), now + seconds * 1_000 + 500));
        }
        free
    }

    fn release(&mut self, now: u64, id: &str) -> bool {
        self.held.take_if(|(holder, until)| *until < now || holder == id).is_some_and(|(_, until)| until >= now)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The id, and the lease in seconds.
    Acquire(usize, u64),
    Release(usize),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize, 0..4_u64).prop_map(|(who, lease)| Step::Acquire(who, lease)),
        2 => (0..4_usize).prop_map(Step::Release),
        2 => (0..3_000_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The first two of four ids are ours, and go by our scripts; the others are go-zero's, and do with plain commands what its
    /// scripts are known to do. The model says who gets in.
    #[test]
    fn go_zero_and_we_exclude_each_other(steps in proptest::collection::vec(step(), 1..60)) {
        let world = World::embedded("s");
        let mut model = GoZero::default();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(millis) => {
                    world.advance(millis);
                    now += millis;
                }
                Step::Acquire(who, seconds) => {
                    let id = format!("id{who}");
                    let lease = seconds * 1_000 + 500;
                    let before = model.held.clone();
                    let expected = model.acquire(now, &id, seconds);
                    let got = if who < 2 {
                        if let Some((holder, until)) = before.filter(|(holder, until)| *holder == id && *until >= now) {
                            // Ours never shortens.
                            model.held = Some((holder, until.max(now + lease)));
                        }
                        ["[1", "[2"].contains(&&world.acquire(SIMPLE, &id, 1, wish(lease))[..2])
                    } else if world.command("GET {}") == format!("\"{id}\"") {
                        world.command(&format!("SET {{}} {id} PX {lease}")) == "\"OK\""
                    } else {
                        world.command(&format!("SET {{}} {id} NX PX {lease}")) == "\"OK\""
                    };
                    prop_assert_eq!(got, expected, "{} acquires at {}", id, now);
                }
                Step::Release(who) => {
                    let id = format!("id{who}");
                    let expected = model.release(now, &id);
                    let got = if who < 2 {
                        world.release(SIMPLE, &id, 0) == 1
                    } else if world.command("GET {}") == format!("\"{id}\"") {
                        world.command("DEL {}") == "1"
                    } else {
                        false
                    };
                    prop_assert_eq!(got, expected, "{} releases at {}", id, now);
                }
            }
            let left = model.held.as_ref().filter(|(_, until)| *until >= now).map_or(-2, |(_, until)| (until - now) as i64);
            prop_assert_eq!(world.command("PTTL {}"), left.to_string());
        }
    }
}
