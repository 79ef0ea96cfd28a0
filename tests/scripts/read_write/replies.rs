//! The tables, row by row, and each refusal.

use super::jvm::Jvm;
use crate::support::{Wish, World, each, show};
use leasehold_core::command::holder::Holder;
use leasehold_core::command::read_write::{self, Mode};
use leasehold_core::command::{Kind, lock};
use std::time::Duration;

const READ: Kind = Kind::Read;
const WRITE: Kind = Kind::Write;
const READERS: &str = "leasehold:1:rw_readers:{rw}";
const WRITERS: &str = "leasehold:1:rw_writers:{rw}";

fn wish(lease: u64) -> Wish<'static> {
    Wish { lease, ..Wish::default() }
}

fn beside(hold: &str) -> Wish<'_> {
    Wish { lease: 1_000, beside: Some(hold), ..Wish::default() }
}

fn inspected(world: &World) -> Vec<(Mode, Holder)> {
    read_write::inspected(&world.run(&read_write::inspect(&world.name))).expect("it is understood")
}

#[test]
fn a_reader_is_written_as_redisson_writes_one() {
    let world = World::embedded("rw");
    assert_eq!(world.acquire(READ, "me:1", 1, wish(1_000)), "[1, 1000]");
    world.check(
        "HGETALL {} => [\"mode\", \"read\", \"me:1\", \"1\"]
         PTTL {} => 1000
         GET {rw}:me:1:rwlock_timeout:1 => \"1\"
         PTTL {rw}:me:1:rwlock_timeout:1 => 1000
         ZSCORE leasehold:1:rw_readers:{rw} me:1 => \"1800000001000\"
         PTTL leasehold:1:rw_readers:{rw} => 601000",
    );
    assert_eq!(world.acquire(READ, "me:2", 1, wish(3_000)), "[1, 3000]");
    world.check("HLEN {} => 3\nPTTL {} => 3000\nPTTL {rw}:me:1:rwlock_timeout:1 => 1000");
}

#[test]
fn a_count_that_nobody_can_have_does_not_keep_the_server_busy() {
    each("count", |world| {
        for count in ["100000000000000", "inf", "many"] {
            world.command(&format!("HSET {{}} mode read somebody:1 {count}"));
            assert_eq!(
                world.acquire(WRITE, "me:1", 1, wish(1_000)),
                "[1, 1000]",
                "a reader without a hold key is dead"
            );
            assert_eq!(world.release(WRITE, "me:1", 0), 1);
        }
    });
}

#[test]
fn a_writer_is_written_as_redisson_writes_one() {
    let world = World::embedded("rw");
    assert_eq!(world.acquire(WRITE, "me:1", 1, wish(1_000)), "[1, 1000]");
    world.check("HGETALL {} => [\"mode\", \"write\", \"me:1:write\", \"1\"]\nPTTL {} => 1000");
    assert_eq!(world.server().keys(), ["rw"], "and nothing else is written");
}

#[test]
fn counts_of_readers_are_absolute() {
    let world = World::embedded("rw");
    world.acquire(READ, "me:1", 1, wish(1_000));
    world.advance(100);
    assert_eq!(world.acquire(READ, "me:1", 1, wish(1_000)), "[2, 1000]", "held");
    world.advance(100);
    assert_eq!(world.acquire(READ, "me:1", 2, wish(100)), "[1, 900]", "a shorter lease does not shorten");
    assert_eq!(world.acquire(READ, "me:1", 3, wish(100)), "[1, 900]");
    assert_eq!(world.acquire(READ, "me:1", 2, wish(9_000)), "[3, 900]", "past, and the lease is untouched");
    assert_eq!(world.acquire(READ, "me:1", 5, wish(9_000)), "[-1, 3]", "mismatch");
    assert_eq!(world.acquire(READ, "me:2", 2, wish(9_000)), "[-2, 0]", "lost");
    world.check("HGETALL {} => [\"mode\", \"read\", \"me:1\", \"3\"]\nPTTL {} => 900");
    assert_eq!(world.release(READ, "me:1", 1), 2, "lowered, from any greater count");
    assert_eq!(world.release(READ, "me:1", 1), 3, "same");
    assert_eq!(world.release(READ, "me:1", 2), 4, "below");
    assert_eq!(world.release(READ, "me:9", 1), -1, "other");
    world.check("HGET {} me:1 => \"1\"\nPTTL {} => 900");
    assert_eq!(world.release(READ, "me:1", 0), 1);
    assert_eq!(world.release(READ, "me:1", 0), 0, "absent");
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
    assert_eq!(world.acquire(READ, "me:3", 2, wish(9_000)), "[-2, 0]", "lost: the lock is free");
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
}

#[test]
fn counts_of_writers_are_absolute() {
    let world = World::embedded("rw");
    world.acquire(WRITE, "me:1", 1, wish(1_000));
    world.advance(100);
    assert_eq!(world.acquire(WRITE, "me:1", 1, wish(1_000)), "[2, 1000]", "held");
    world.advance(100);
    assert_eq!(world.acquire(WRITE, "me:1", 2, wish(100)), "[1, 900]");
    assert_eq!(world.acquire(WRITE, "me:1", 1, wish(9_000)), "[3, 900]", "past");
    assert_eq!(world.acquire(WRITE, "me:1", 4, wish(9_000)), "[-1, 2]", "mismatch");
    assert_eq!(world.acquire(WRITE, "me:2", 2, wish(9_000)), "[-2, 0]", "lost: another has it");
    assert_eq!(world.acquire(WRITE, "me:2", 1, wish(9_000)), "[0, 900]", "busy");
    assert_eq!(world.acquire(READ, "me:3", 1, wish(9_000)), "[0, 900]", "busy for readers");
    assert_eq!(world.renew(WRITE, &[("me:1", 2_000), ("me:2", 2_000)]), "[2, 2000, 0, 0]");
    assert_eq!(world.release(WRITE, "me:1", 1), 2);
    assert_eq!(world.release(WRITE, "me:1", 1), 3);
    assert_eq!(world.release(WRITE, "me:1", 2), 4);
    assert_eq!(world.release(WRITE, "me:2", 0), -1);
    assert_eq!(world.release(WRITE, "me:1", 0), 1);
    assert_eq!(world.release(WRITE, "me:1", 0), 0);
    assert_eq!(world.acquire(WRITE, "me:3", 2, wish(9_000)), "[-2, 0]", "lost: the lock is free");
    assert!(world.server().keys().is_empty());
}

#[test]
fn a_first_grant_that_is_too_late_leaves_nothing() {
    let world = World::embedded("rw");
    let late = Wish { not_after: Some(1_799_999_999_999), prefer: Some(500), ..wish(1_000) };
    for kind in [READ, WRITE] {
        assert_eq!(world.acquire(kind, "me:1", 1, late), "[-3, 0]");
    }
    assert!(world.server().keys().is_empty());
    world.acquire(READ, "you:1", 1, wish(1_000));
    assert_eq!(world.acquire(WRITE, "me:1", 1, late), "[0, 1000]", "busy, and no mark for one who has gone");
    world.check(&format!("EXISTS {WRITERS} => 0"));
    assert_eq!(world.acquire(READ, "you:1", 2, late), "[1, 1000]", "a re-entry is never too late");
}

#[test]
fn a_writer_may_read_beside_itself_under_another_number() {
    let world = World::embedded("rw");
    world.acquire(WRITE, "me:1", 1, wish(1_000));
    assert_eq!(world.acquire(READ, "me:2", 1, wish(1_000)), "[0, 1000]", "nobody says whose it is");
    assert_eq!(world.acquire(READ, "me:2", 1, beside("you:1")), "[0, 1000]", "another's");
    assert_eq!(world.acquire(READ, "me:2", 1, Wish { lease: 4_000, ..beside("me:1") }), "[1, 4000]");
    world.check("HGETALL {} => [\"mode\", \"write\", \"me:1:write\", \"1\", \"me:2\", \"1\"]\nPTTL {} => 4000");
    assert_eq!(world.acquire(READ, "me:1", 1, wish(1_000)), "[1, 1000]", "nor need it name itself");
    assert_eq!(world.release(READ, "me:1", 0), 1);
    assert_eq!(world.release(READ, "me:2", 0), 1);
    world.check("HGETALL {} => [\"mode\", \"write\", \"me:1:write\", \"1\"]");
}

#[test]
fn a_lock_that_reads_is_left_to_readers_by_a_downgrade() {
    each("rw-downgrade", |world| {
        let mut listener = world.listen_to(READ);
        world.acquire(WRITE, "me:1", 1, wish(60_000));
        world.acquire(READ, "me:2", 1, Wish { lease: 20_000, beside: Some("me:1"), ..Wish::default() });
        assert_eq!(world.release(WRITE, "me:1", 0), 1);
        listener.hears(&["1"]);
        world.check("HGETALL {} => [\"mode\", \"read\", \"me:2\", \"1\"]");
        let left = world.reply("PTTL {}").int().expect("an integer");
        assert!((15_000..=20_000).contains(&left), "the lock lives as long as its longest hold, not {left}");
        assert_eq!(world.release(WRITE, "me:1", 0), -1, "a copy");
        listener.hears(&[]);
        assert_eq!(world.release(READ, "me:2", 0), 1);
        listener.hears(&["0"]);
        world.check("EXISTS {} leasehold:1:rw_readers:{rw-downgrade} => 0");
    });
}

#[test]
fn a_reader_that_is_over_is_lost_and_nothing_to_re_enter() {
    let world = World::embedded("rw");
    world.acquire(READ, "me:1", 1, wish(500));
    world.acquire(READ, "me:2", 1, wish(2_000));
    world.advance(600);
    assert_eq!(world.acquire(READ, "me:1", 2, wish(500)), "[-2, 0]", "lost");
    world.check("HGETALL {} => [\"mode\", \"read\", \"me:2\", \"1\"]\nZCARD leasehold:1:rw_readers:{rw} => 1");
    assert_eq!(world.release(READ, "me:1", 0), -1);
    world.check("PEXPIRE {} 60000 => 1");
    world.advance(1_500);
    // No reader lives; the lock is there because its lease was lifted by hand.
    assert_eq!(world.release(READ, "me:2", 0), 0, "it was over before");
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
}

#[test]
fn a_shell_without_readers_holds_nobody_up() {
    let world = World::embedded("rw");
    let shell = |world: &World| {
        world.acquire(READ, "dead:1", 1, wish(500));
        world.check("PEXPIRE {} 60000 => 1");
        world.advance(501);
    };
    shell(&world);
    let mut listener = world.listen_to(READ);
    assert_eq!(world.acquire(WRITE, "me:1", 1, wish(500)), "[1, 500]");
    listener.hears(&["0"]);
    world.release(WRITE, "me:1", 0);
    listener.hears(&["1"]);
    shell(&world);
    assert_eq!(world.acquire(READ, "me:2", 2, wish(500)), "[-2, 0]");
    listener.hears(&["0"]);
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
    shell(&world);
    assert_eq!(world.renew(READ, &[("dead:1", 500)]), "[0, 0]", "never revived");
    listener.hears(&["0"]);
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
    shell(&world);
    let late = Wish { not_after: Some(1), ..wish(500) };
    assert_eq!(world.acquire(WRITE, "me:3", 1, late), "[-3, 0]");
    listener.hears(&["0"]);
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
}

#[test]
fn reader_renewals_stand_alone_and_zero_only_lifts_the_lock() {
    let world = World::embedded("rw");
    world.acquire(READ, "me:1", 1, wish(1_000));
    world.acquire(READ, "me:2", 1, wish(3_000));
    world.acquire(READ, "me:2", 2, wish(3_000));
    world.advance(400);
    assert_eq!(world.renew(READ, &[("me:1", 1_000), ("none:1", 1_000), ("me:2", 1_000)]), "[1, 1000, 0, 0, 2, 2600]");
    world.check("PTTL {} => 2600\nPTTL {rw}:me:1:rwlock_timeout:1 => 1000");
    Jvm { world: &world, owner: "jvm:1" }.acquire_read(90);
    Jvm { world: &world, owner: "jvm:1" }.renew_read(90);
    world.check("PTTL {} => 90");
    assert_eq!(world.renew(READ, &[("me:2", 0)]), "[2, 2600]");
    world.check("PTTL {} => 2600\nPTTL {rw}:me:2:rwlock_timeout:1 => 2600");
    world.command("DEL {}");
    world.command("SET {} x");
    assert_eq!(world.renew(READ, &[("me:1", 1_000)]), "[-4, 0]");
}

#[test]
fn last_reader_is_told_and_the_lock_ends_with_its_holds() {
    let world = World::embedded("rw");
    let mut listener = world.listen_to(READ);
    world.acquire(READ, "long:1", 1, wish(9_000));
    world.acquire(READ, "short:1", 1, wish(1_000));
    world.check("PTTL {} => 9000");
    assert_eq!(world.release(READ, "long:1", 0), 1);
    world.check("PTTL {} => 1000");
    listener.hears(&[]);
    world.acquire(READ, "long:2", 1, wish(9_000));
    // A writer that is preferred hears that the lock may be free sooner.
    let marks = Wish { prefer: Some(500), ..wish(1_000) };
    assert_eq!(world.acquire(WRITE, "w:1", 1, marks), "[4, 1000, 0, 0, 0]");
    assert_eq!(world.release(READ, "long:2", 0), 1);
    listener.hears(&["0"]);
    assert_eq!(world.release(READ, "short:1", 0), 1);
    listener.hears(&["0"]);
    world.check("EXISTS {} => 0");
}

#[test]
fn a_writer_is_told_when_the_first_reader_may_be_gone() {
    let world = World::embedded("rw");
    let asks = |left: &str| assert_eq!(world.acquire(WRITE, "w:1", 1, wish(1_000)), left);
    let jvm = Jvm { world: &world, owner: "jvm:1" };
    world.acquire(READ, "long:1", 1, wish(9_000));
    world.acquire(READ, "middle:1", 1, wish(3_000));
    asks("[0, 3000]");
    assert!(jvm.acquire_read(2_000).is_none());
    asks("[0, 2000]");
    world.acquire(READ, "short:1", 1, wish(70));
    asks("[0, 70]");
    // It is not worth asking again for less, unless there is no other reader.
    world.advance(60);
    asks("[0, 40]");
    world.advance(11);
    asks("[0, 1929]");
    assert!(jvm.release_read());
    asks("[0, 2929]");
    assert_eq!(world.release(READ, "long:1", 0), 1);
    assert_eq!(world.release(READ, "middle:1", 0), 1);
    world.acquire(READ, "last:1", 1, wish(15));
    asks("[0, 15]");
    world.advance(16);
    asks("[1, 1000]");
}

#[test]
fn lock_above_33_fields_is_not_shortened() {
    let world = World::embedded("rw");
    for number in 1..=40 {
        world.acquire(READ, &format!("me:{number}"), 1, wish(if number == 40 { 9_000 } else { 1_000 }));
    }
    assert_eq!(world.release(READ, "me:40", 0), 1);
    world.check("PTTL {} => 9000");
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(1_000)), "[0, 1000]");
    // A dead JVM among them: the index and the hash differ, so a writer looks at all.
    Jvm { world: &world, owner: "jvm:1" }.acquire_read(500);
    world.advance(1_001);
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(1_000)), "[1, 1000]");
    assert_eq!(world.server().keys(), ["rw"], "nothing of the dead is left");
}

#[test]
fn waiting_writers_leave_marks_and_release_takes_them_back() {
    let world = World::embedded("rw");
    let mut listener = world.listen_to(READ);
    let prefer = Wish { prefer: Some(500), ..wish(1_000) };
    world.acquire(READ, "r:1", 1, wish(1_000));
    assert_eq!(world.acquire(WRITE, "w:1", 1, Wish { waits: false, ..prefer }), "[0, 1000]", "a try leaves nothing");
    world.check(&format!("EXISTS {WRITERS} => 0"));
    assert_eq!(world.acquire(WRITE, "w:1", 1, prefer), "[4, 1000, 0, 0, 0]");
    assert_eq!(world.acquire(WRITE, "w:2", 1, Wish { prefer: Some(200), ..prefer }), "[4, 1000, 0, 0, 0]");
    world.check(&format!("ZCARD {WRITERS} => 2\nPTTL {WRITERS} => 500"));
    assert_eq!(world.acquire(READ, "r:2", 1, prefer), "[0, 500]", "a new reader gives way");
    assert_eq!(world.acquire(READ, "r:3", 1, wish(1_000)), "[1, 1000]", "one that was not told to does not");
    assert_eq!(world.acquire(READ, "r:1", 2, prefer), "[1, 1000]", "a re-entry is not held up");
    assert_eq!(world.release(WRITE, "w:1", 0), -1);
    listener.hears(&[]);
    assert_eq!(world.release(WRITE, "w:2", 0), -1, "the last one lets the readers in");
    listener.hears(&["1"]);
    assert_eq!(world.release(WRITE, "w:2", 0), -1, "a copy");
    listener.hears(&[]);
    world.check(&format!("EXISTS {WRITERS} => 0"));
    assert_eq!(world.acquire(READ, "r:2", 1, prefer), "[1, 1000]");
}

#[test]
fn a_mark_ends_with_its_grant_or_its_time() {
    let world = World::embedded("rw");
    let prefer = Wish { prefer: Some(500), ..wish(1_000) };
    world.acquire(READ, "r:1", 1, wish(1_000));
    world.acquire(WRITE, "w:1", 1, prefer);
    world.acquire(WRITE, "w:2", 1, prefer);
    world.release(READ, "r:1", 0);
    assert_eq!(world.acquire(READ, "r:2", 1, prefer), "[0, 500]", "a free lock is the writer's");
    assert_eq!(world.acquire(WRITE, "w:1", 1, prefer), "[1, 1000]");
    world.check(&format!("ZRANGE {WRITERS} 0 -1 => [\"w:2:write\"]"));
    assert_eq!(world.acquire(READ, "r:3", 1, Wish { beside: Some("w:1"), ..prefer }), "[1, 1000]", "the writer's own");
    world.release(READ, "r:3", 0);
    world.release(WRITE, "w:1", 0);
    world.advance(501);
    assert_eq!(world.acquire(READ, "r:2", 1, prefer), "[1, 1000]", "w:2 has died");
    world.check(&format!("EXISTS {WRITERS} => 0"));
}

#[test]
fn force_release_ends_the_named_hold_only() {
    each("rw-force", |world| {
        let force = |mode, holder: &str| {
            lock::forced(&world.run(&read_write::force_release(&world.name, mode, holder, &"PUBLISH".into())))
        };
        let mut listener = world.listen_to(READ);
        assert_eq!(force(Mode::Read, "me:1"), Ok(lock::ForceReleased::Absent));
        world.acquire(READ, "me:1", 1, wish(60_000));
        world.acquire(READ, "me:2", 1, wish(60_000));
        assert_eq!(force(Mode::Read, "me:3"), Ok(lock::ForceReleased::Other));
        assert_eq!(force(Mode::Write, "me:1"), Ok(lock::ForceReleased::Other), "the halves are two");
        assert_eq!(force(Mode::Read, "me:1"), Ok(lock::ForceReleased::Ended));
        listener.hears(&[]);
        assert_eq!(force(Mode::Read, "me:2"), Ok(lock::ForceReleased::Ended));
        listener.hears(&["0"]);
        world.acquire(WRITE, "me:4", 1, wish(60_000));
        assert_eq!(force(Mode::Write, "me:4"), Ok(lock::ForceReleased::Ended));
        listener.hears(&["1"]);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn inspect_tells_both_halves_and_leaves_out_the_dead() {
    let world = World::embedded("rw");
    let holder = |mode, holder: &str, count, left| {
        let left = Some(Duration::from_millis(left));
        (mode, Holder { holder: holder.to_owned(), count, left })
    };
    assert_eq!(inspected(&world), []);
    world.acquire(READ, "me:1", 1, wish(500));
    world.acquire(READ, "me:2", 1, wish(2_000));
    world.acquire(READ, "me:2", 2, wish(2_000));
    Jvm { world: &world, owner: "jvm:7" }.acquire_read(700);
    world.advance(501);
    let holders = vec![holder(Mode::Read, "me:2", 2, 1_499), holder(Mode::Read, "jvm:7", 1, 199)];
    assert_eq!(inspected(&world), holders);
    world.check("HLEN {} => 4\nPEXPIRE {} 60000 => 1");
    world.advance(1_500);
    assert_eq!(inspected(&world), [], "the dead hold nothing");
    world.acquire(WRITE, "me:3", 1, wish(1_000));
    world.acquire(READ, "me:4", 1, beside("me:3"));
    let holders = vec![holder(Mode::Write, "me:3", 1, 1_000), holder(Mode::Read, "me:4", 1, 1_000)];
    assert_eq!(inspected(&world), holders);
}

#[test]
fn a_name_with_braces_keeps_its_own_tag() {
    let world = World::embedded("{shop}:stock");
    world.acquire(READ, "me:1", 1, wish(500));
    world.check("PTTL {shop}:stock:me:1:rwlock_timeout:1 => 500");
    world.check("DEL leasehold:1:rw_readers:{shop}:stock => 1");
    // Without the index the hold key counts, by the name that the script puts together.
    assert_eq!(world.acquire(READ, "me:1", 1, wish(500)), "[2, 500]");
    world.advance(501);
    assert_eq!(world.acquire(WRITE, "me:2", 1, wish(500)), "[1, 500]");
}

#[test]
fn a_reader_whose_index_is_gone_lives_by_its_hold_key() {
    let world = World::embedded("rw");
    world.acquire(READ, "me:1", 1, wish(500));
    world.acquire(READ, "me:2", 1, wish(2_000));
    world.check(&format!("DEL {READERS} => 1"));
    assert_eq!(world.renew(READ, &[("me:2", 3_000)]), "[1, 3000]");
    world.advance(501);
    assert_eq!(world.acquire(READ, "me:1", 2, wish(500)), "[-2, 0]", "over");
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(500)), "[0, 2499]");
    world.check(&format!("HKEYS {{}} => [\"mode\", \"me:2\"]\nZRANGE {READERS} 0 -1 => [\"me:2\"]"));
}

#[test]
fn an_index_of_an_earlier_lock_is_forgotten() {
    let world = World::embedded("rw");
    world.acquire(READ, "old:1", 1, wish(60_000));
    world.command("DEL {}");
    world.acquire(READ, "me:1", 1, wish(500));
    world.check(&format!("ZRANGE {READERS} 0 -1 => [\"me:1\"]\nDEL {{}} => 1"));
    world.acquire(WRITE, "w:1", 1, wish(500));
    world.check(&format!("EXISTS {READERS} => 0"));
}

#[test]
fn acquire_after_the_last_reader_died_leaves_no_index() {
    let ways: [fn(&World); 3] = [
        |world| assert_eq!(world.release(READ, "me:1", 0), 0),
        |world| assert_eq!(world.renew(READ, &[("me:1", 1_000)]), "[0, 0]"),
        |world| assert_eq!(world.release(WRITE, "me:2:write", 0), 0),
    ];
    for comes_back in ways {
        let world = World::embedded("rw");
        assert_eq!(world.acquire(READ, "me:1", 1, wish(1_000)), "[1, 1000]");
        world.advance(1_001);
        world.check(&format!("EXISTS {{}} => 0\nEXISTS {READERS} => 1"));
        comes_back(&world);
        world.check(&format!("EXISTS {READERS} => 0"));
    }
}

#[test]
fn keys_of_another_kind_are_named_and_left_alone() {
    each("rw-kind", |world| {
        let untouched = |shown: &str| {
            for kind in [READ, WRITE] {
                assert_eq!(world.acquire(kind, "me:1", 1, wish(60_000)), format!("[-4, \"{shown}\"]"));
                assert_eq!(world.release(kind, "me:1", 0), -4);
                assert_eq!(world.release(kind, "me:1", 1), -4);
            }
            assert_eq!(show(&world.run(&read_write::inspect(&world.name))), format!("[-4, \"{shown}\"]"));
        };
        world.acquire(Kind::Lock, "me:1", 1, wish(60_000));
        untouched("hash");
        world.check("HGETALL {} => [\"me:1\", \"1\"]\nDEL {} => 1");
        world.acquire(Kind::Simple, "me:1", 1, wish(60_000));
        untouched("string");
        assert_eq!(world.renew(READ, &[("me:1", 60_000)]), "[-4, 0]");
        world.check("GET {} => \"me:1\"\nDEL {} => 1");
        for kind in [READ, WRITE] {
            world.acquire(kind, "me:1", 1, wish(60_000));
            for other in [Kind::Lock, Kind::Fenced, Kind::Spin] {
                assert_eq!(world.acquire(other, "you:1", 1, wish(60_000)), "[-4, \"read-write lock\"]");
            }
            assert_eq!(world.acquire(Kind::Simple, "you", 1, wish(60_000)), "[-4, \"hash\"]");
            assert_eq!(world.release(kind, "me:1", 0), 1);
        }
        world.check("EXISTS {} leasehold:1:rw_readers:{rw-kind} redisson_lock_token:{rw-kind} => 0");
    });
}

#[test]
fn only_a_first_grant_meets_full_memory() {
    let world = World::embedded("rw");
    let refused = |kind, field| {
        let call = world.acquire_call(kind, field, 1, wish(1_000));
        let error = world.server().execute(&call).expect_err("memory is full");
        assert!(error.text().starts_with("OOM "), "{error}");
    };
    world.acquire(READ, "me:1", 1, wish(1_000));
    world.acquire(READ, "me:2", 1, wish(5_000));
    world.advance(500);
    world.server().deny_growth(true);
    refused(READ, "me:3");
    assert_eq!(world.renew(READ, &[("me:1", 1_000)]), "[1, 1000]", "renewals need no memory");
    assert_eq!(world.release(READ, "me:1", 0), 1, "nor do releases");
    assert_eq!(world.release(READ, "me:2", 0), 1);
    for kind in [READ, WRITE] {
        refused(kind, "me:4");
    }
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
}
