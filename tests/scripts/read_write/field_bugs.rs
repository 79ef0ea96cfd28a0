//! Bugs that users of other libraries met, each under the name by which the collection knows it.

use super::jvm::Jvm;
use crate::support::{Wish, World, each};
use leasehold_core::command::read_write::{self, Mode};
use leasehold_core::command::{Acquired, Kind};

const READ: Kind = Kind::Read;
const WRITE: Kind = Kind::Write;

fn wish(lease: u64) -> Wish<'static> {
    Wish { lease, ..Wish::default() }
}

#[test]
fn rw1_a_dead_reader_is_gone_by_its_own_lease() {
    let world = World::embedded("rw");
    for dead in ["native", "jvm"] {
        if dead == "jvm" {
            Jvm { world: &world, owner: "a:1" }.acquire_read(300);
        } else {
            world.acquire(READ, "a:1", 1, wish(300));
        }
        world.acquire(READ, "b:1", 1, wish(300));
        // The other reader renews for more than a lease, and further readers come and go.
        for round in 0..5 {
            world.advance(100);
            assert_eq!(world.renew(READ, &[("b:1", 300)]), "[1, 300]");
            world.acquire(READ, &format!("c:{round}"), 1, wish(300));
            world.release(READ, &format!("c:{round}"), 0);
        }
        world.check("HKEYS {} => [\"mode\", \"b:1\"]\nEXISTS {rw}:a:1:rwlock_timeout:1 => 0");
        assert_eq!(world.acquire(WRITE, "w:1", 1, wish(300)), "[0, 300]", "{dead}");
        world.release(READ, "b:1", 0);
        assert_eq!(world.acquire(WRITE, "w:1", 1, wish(300)), "[1, 300]", "{dead}");
        world.release(WRITE, "w:1", 0);
    }
}

#[test]
fn rw1_a_dead_reader_is_gone_whatever_an_old_jvm_renews() {
    let world = World::embedded("rw");
    world.acquire(READ, "a:1", 1, wish(300));
    world.advance(200);
    // A JVM before 4.4 renews the hold keys of all, and the lock.
    world.check("PEXPIRE {rw}:a:1:rwlock_timeout:1 30000 => 1\nPEXPIRE {} 30000 => 1");
    assert_eq!(world.renew(READ, &[("a:1", 50)]), "[1, 100]", "its own deadline counts");
    world.advance(101);
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(300)), "[1, 300]");
    assert_eq!(world.server().keys(), ["rw"], "its hold key is gone too");
}

#[test]
fn rw2_a_downgrade_wakes_the_readers() {
    each("rw2", |world| {
        let mut listener = world.listen_to(READ);
        world.acquire(WRITE, "a:1", 1, wish(60_000));
        world.acquire(READ, "a:2", 1, Wish { beside: Some("a:1"), ..wish(60_000) });
        assert!(world.acquire(READ, "r:1", 1, wish(60_000)).starts_with("[0, "));
        assert_eq!(world.release(WRITE, "a:1", 0), 1);
        listener.hears(&["1"]);
        assert_eq!(world.acquire(READ, "r:1", 1, wish(60_000)), "[1, 60000]");
        world.release(READ, "r:1", 0);
        world.release(READ, "a:2", 0);
    });
}

#[test]
fn rw4_the_end_of_a_read_leaves_the_write() {
    each("rw4", |world| {
        world.acquire(WRITE, "a:1", 1, wish(60_000));
        world.acquire(READ, "a:2", 1, Wish { beside: Some("a:1"), ..wish(60_000) });
        assert_eq!(world.release(READ, "a:2", 0), 1);
        world.check("HGETALL {} => [\"mode\", \"write\", \"a:1:write\", \"1\"]");
        assert_eq!(world.release(WRITE, "a:1", 0), 1);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn rw5_leases_of_re_entrant_writes_do_not_add_up() {
    let world = World::embedded("rw");
    for count in 1..=4 {
        assert_eq!(world.acquire(WRITE, "a:1", count, wish(30_000)), "[1, 30000]");
    }
    world.check("PTTL {} => 30000");
}

#[test]
fn rw8_a_hundred_readers_are_renewed_in_one_call() {
    let world = World::embedded("rw");
    let fields: Vec<_> = (1..=100).map(|number| format!("a:{number}")).collect();
    for field in &fields {
        world.acquire(READ, field, 1, wish(300));
    }
    let holds: Vec<_> = fields.iter().map(|field| (field.as_str(), 300)).collect();
    for _ in 0..9 {
        world.advance(100);
        assert_eq!(world.renew(READ, &holds), format!("[{}]", ["1, 300"; 100].join(", ")));
    }
    for field in &fields {
        assert_eq!(world.release(READ, field, 0), 1, "{field}");
    }
    assert!(world.server().keys().is_empty(), "{:?}", world.server().keys());
}

#[test]
fn rw9_a_release_after_the_loss_is_no_success() {
    let world = World::embedded("rw");
    for kind in [READ, WRITE] {
        assert_eq!(world.release(kind, "a:1", 0), 0, "never held");
        world.acquire(kind, "a:1", 1, wish(300));
        world.advance(301);
        assert_eq!(world.release(kind, "a:1", 0), 0, "expired");
        world.acquire(kind, "b:1", 1, wish(300));
        assert_eq!(world.release(kind, "a:1", 0), -1, "another's");
        assert_eq!(world.release(kind, "b:1", 0), 1);
    }
    world.acquire(READ, "a:2", 1, wish(300));
    world.acquire(READ, "b:2", 1, wish(900));
    world.advance(300);
    assert_eq!(world.release(READ, "a:2", 0), 0, "over, beside one who lives");
    world.check("HKEYS {} => [\"mode\", \"b:2\"]");
}

#[test]
fn rw10_all_waiting_readers_enter_together() {
    each("rw10", |world| {
        let mut listener = world.listen_to(READ);
        world.acquire(WRITE, "w:1", 1, wish(60_000));
        for reader in ["r:1", "r:2", "r:3"] {
            assert!(world.acquire(READ, reader, 1, wish(60_000)).starts_with("[0, "));
        }
        world.release(WRITE, "w:1", 0);
        listener.hears(&["1"]);
        for reader in ["r:1", "r:2", "r:3"] {
            assert_eq!(world.acquire(READ, reader, 1, wish(60_000)), "[1, 60000]");
        }
        world.check("HLEN {} => 4");
        for reader in ["r:1", "r:2", "r:3"] {
            assert_eq!(world.release(READ, reader, 0), 1);
        }
        listener.hears(&["0"]);
    });
}

#[test]
fn rw11_an_upgrade_is_refused_at_once() {
    let world = World::embedded("rw");
    world.acquire(READ, "a:1", 1, wish(300));
    world.acquire(READ, "b:1", 1, wish(900));
    let upgrade = Wish { beside: Some("a:1"), prefer: Some(500), ..wish(300) };
    assert_eq!(world.acquired(WRITE, "a:2", 1, upgrade), Acquired::UpgradeNotSupported);
    world.check("HKEYS {} => [\"mode\", \"a:1\", \"b:1\"]\nEXISTS leasehold:1:rw_writers:{rw} => 0");
    // Two who want to upgrade do not wait for each other.
    assert_eq!(world.acquired(WRITE, "b:2", 1, Wish { beside: Some("b:1"), ..upgrade }), Acquired::UpgradeNotSupported);
    // Nor does the mark of one that has waited before it came to read keep readers out.
    assert_eq!(world.acquire(WRITE, "c:2", 1, Wish { beside: None, ..upgrade }), "[4, 300, 0, 0, 0]");
    world.acquire(READ, "c:1", 1, wish(300));
    assert_eq!(world.acquired(WRITE, "c:2", 1, Wish { beside: Some("c:1"), ..upgrade }), Acquired::UpgradeNotSupported);
    world.check("EXISTS leasehold:1:rw_writers:{rw} => 0");
    world.advance(301);
    assert_eq!(world.acquire(WRITE, "a:2", 1, upgrade), "[4, 599, 0, 0, 0]", "a read that is over is none");
}

#[test]
fn rw12_a_waiting_writer_goes_before_new_readers() {
    let world = World::embedded("rw");
    let prefer = Wish { prefer: Some(150), ..wish(100) };
    let mut reader = 1;
    world.acquire(READ, "r:1", 1, prefer);
    for step in 0.. {
        assert!(step < 10, "the writer starves");
        if world.acquire(WRITE, "w:1", 1, prefer).starts_with("[1, ") {
            break;
        }
        // A reader that overlaps with the last one, as there always is.
        world.advance(40);
        reader += 1;
        world.acquire(READ, &format!("r:{reader}"), 1, prefer);
    }
    // Without a mark they would come for ever.
    let world = World::embedded("rw");
    world.acquire(READ, "r:1", 1, wish(100));
    for reader in 2..20 {
        world.advance(40);
        assert_eq!(world.acquire(READ, &format!("r:{reader}"), 1, wish(100)), "[1, 100]");
        assert!(world.acquire(WRITE, "w:1", 1, wish(100)).starts_with("[0, "));
    }
}

#[test]
fn rw13_one_name_for_two_kinds_is_a_conflict() {
    each("rw13", |world| {
        world.acquire(Kind::Lock, "a:1", 1, wish(60_000));
        for kind in [READ, WRITE] {
            assert_eq!(world.acquired(kind, "a:1", 1, wish(60_000)), Acquired::Kind("hash".to_owned()));
        }
        world.release(Kind::Lock, "a:1", 0);
        world.acquire(READ, "a:1", 1, wish(60_000));
        let conflict = Acquired::Kind("read-write lock".to_owned());
        assert_eq!(world.acquired(Kind::Lock, "b:1", 1, wish(60_000)), conflict);
        world.release(READ, "a:1", 0);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn rw15_readers_are_told_beside_the_writer_that_they_belong_to() {
    let world = World::embedded("rw");
    world.acquire(WRITE, "a:1", 1, wish(300));
    world.acquire(READ, "a:2", 1, Wish { beside: Some("a:1"), ..wish(300) });
    let reply = world.run(&read_write::inspect(&world.name));
    let holders = read_write::inspected(&reply).expect("it is understood");
    let told: Vec<_> = holders.iter().map(|(mode, holder)| (*mode, holder.holder.as_str())).collect();
    assert_eq!(told, [(Mode::Write, "a:1"), (Mode::Read, "a:2")]);
}

#[test]
fn rw18_reentrant_read_keeps_writers_out_to_its_last_release() {
    each("rw18", |world| {
        world.acquire(READ, "a:1", 1, wish(60_000));
        world.acquire(READ, "a:1", 2, wish(60_000));
        assert_eq!(world.release(READ, "a:1", 1), 2);
        assert!(world.acquire(WRITE, "w:1", 1, wish(60_000)).starts_with("[0, "));
        assert!(Jvm { world, owner: "jvm:1" }.acquire_write(60_000).is_some());
        assert_eq!(world.release(READ, "a:1", 0), 1);
        assert_eq!(world.acquire(WRITE, "w:1", 1, wish(60_000)), "[1, 60000]");
        world.release(WRITE, "w:1", 0);
    });
}

#[test]
fn rw5_and_a_jvm_that_adds_leases_is_waited_for() {
    let world = World::embedded("rw");
    let jvm = Jvm { world: &world, owner: "jvm:1" };
    jvm.acquire_write(300);
    jvm.acquire_write(300);
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(300)), "[0, 600]");
    assert!(jvm.release_write(300) && jvm.release_write(300));
    assert_eq!(world.acquire(WRITE, "w:1", 1, wish(300)), "[1, 300]");
    assert!(!jvm.renew_write(300) && !jvm.release_read());
}
