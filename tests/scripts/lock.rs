//! The reentrant lock: a hash with a hold count for its holder, as Redisson's `RLock` has it.

use crate::support::{Wish, World, each};
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::command::holder::Holder;
use leasehold_core::command::lock::{self, ForceReleased};
use leasehold_core::reply::Reply;

const LOCK: Kind = Kind::Lock;

fn wish(lease: u64) -> Wish<'static> {
    Wish { lease, ..Wish::default() }
}

/// The rest of the lease, which on a server has begun to run.
fn left(world: &World) -> i64 {
    world.reply("PTTL {}").int().expect("an integer")
}

fn inspected(world: &World) -> Option<Holder> {
    lock::inspected(&world.run(&lock::inspect(&world.name))).expect("a reply of an inspection")
}

fn forced(world: &World, holder: &str) -> ForceReleased {
    let reply: Reply = world.run(&lock::force_release(&world.name, holder, &world.settings.publish));
    lock::forced(&reply).expect("a code")
}

#[test]
fn a_grant_is_a_hash_with_a_lease_and_a_copy_changes_nothing() {
    each("lock-grant", |world| {
        assert_eq!(world.acquire(LOCK, "me:1", 1, wish(60_000)), "[1, 60000]");
        world.check("TYPE {} => \"hash\"\nHGETALL {} => [\"me:1\", \"1\"]");
        assert!((50_000..=60_000).contains(&left(world)));
        let code = world.acquire(LOCK, "me:1", 1, wish(60_000));
        assert!(code.starts_with("[2, "), "a copy: {code}");
        let busy = world.acquire(LOCK, "you:1", 1, wish(60_000));
        assert!(busy.starts_with("[0, "), "{busy}");
        let late = Wish { not_after: Some(1), ..wish(60_000) };
        assert!(world.acquire(LOCK, "me:1", 1, late).starts_with("[2, "), "a copy is never too late");
        world.check("HGETALL {} => [\"me:1\", \"1\"]\nDEL {} => 1");
        assert_eq!(world.acquire(LOCK, "me:2", 1, late), "[-3, 0]", "a first grant is");
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn counts_are_set_and_not_added() {
    each("lock-counts", |world| {
        assert_eq!(world.acquire(LOCK, "me:1", 2, wish(60_000)), "[-2, 0]", "a re-entry creates nothing");
        world.check("EXISTS {} => 0");
        world.acquire(LOCK, "me:1", 1, wish(60_000));
        for code in ["[1, ", "[2, "] {
            let reply = world.acquire(LOCK, "me:1", 2, wish(60_000));
            assert!(reply.starts_with(code), "{reply}");
            world.check("HGETALL {} => [\"me:1\", \"2\"]");
        }
        let mut listener = world.listen_to(LOCK);
        assert_eq!([2, 3].map(|_| world.release(LOCK, "me:1", 1)), [2, 3], "the second one is a copy");
        listener.hears(&[]);
        assert_eq!(world.release(LOCK, "you:1", 0), -1);
        assert_eq!([6, 0].map(|_| world.release(LOCK, "me:1", 0)), [6, 0]);
        listener.hears(&["0"]);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn count_and_lease_decide_the_row() {
    let world = World::embedded("lock-rows");
    assert_eq!(world.acquire(LOCK, "me:1", 1, wish(1_000)), "[1, 1000]");
    world.advance(100);
    assert_eq!(world.acquire(LOCK, "me:1", 2, wish(500)), "[1, 900]", "a shorter lease does not shorten");
    assert_eq!(world.acquire(LOCK, "me:1", 1, wish(9_000)), "[3, 900]", "past, and the lease is untouched");
    assert_eq!(world.acquire(LOCK, "me:1", 4, wish(9_000)), "[-1, 2]", "mismatch");
    world.check("HGETALL {} => [\"me:1\", \"2\"]\nPTTL {} => 900");
    assert_eq!(world.acquire(LOCK, "me:1", 3, wish(2_000)), "[1, 2000]");
    assert_eq!([1, 2].map(|count| world.release(LOCK, "me:1", count)), [2, 4], "lowered, then below");
    world.check("HGETALL {} => [\"me:1\", \"1\"]\nPTTL {} => 2000");
    assert_eq!(world.acquire(LOCK, "you:1", 2, wish(1_000)), "[-2, 0]", "another has it");
    world.check("PERSIST {} => 1");
    assert_eq!(world.acquire(LOCK, "you:1", 1, wish(1_000)), "[0, -1]", "busy without an end");
}

#[test]
fn a_renewal_prolongs_and_never_shortens_nor_creates() {
    each("lock-renew", |world| {
        world.acquire(LOCK, "me:1", 1, wish(60_000));
        assert_eq!(world.renew(LOCK, &[("me:1", 90_000), ("you:1", 90_000)]), "[1, 90000, 0, 0]");
        assert!((80_000..=90_000).contains(&left(world)));
        assert!(world.renew(LOCK, &[("me:1", 1_000)]).starts_with("[1, "));
        assert!(left(world) >= 80_000, "{}", left(world));
        world.check("DEL {} => 1");
        assert_eq!(world.renew(LOCK, &[("me:1", 60_000)]), "[0, 0]");
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn an_operator_sees_the_holder_and_frees_it_by_name() {
    each("lock-force", |world| {
        assert_eq!(inspected(world), None);
        assert_eq!(forced(world, "me:1"), ForceReleased::Absent);
        world.acquire(LOCK, "me:1", 1, wish(60_000));
        world.acquire(LOCK, "me:1", 2, wish(60_000));
        let Holder { holder, count, left } = inspected(world).expect("it is held");
        assert_eq!((holder.as_str(), count), ("me:1", 2));
        assert!(left.is_some());
        let mut listener = world.listen_to(LOCK);
        assert_eq!(forced(world, "you:1"), ForceReleased::Other);
        assert_eq!(forced(world, "me:1"), ForceReleased::Ended);
        listener.hears(&["0"]);
        world.check("EXISTS {} => 0");
    });
}

/// No program writes two fields. A person may, and so may a server that lost its data and got an old copy of them back.
#[test]
fn a_force_release_of_one_field_leaves_the_other_one() {
    each("lock-force-two", |world| {
        world.check("HSET {} me:1 1 you:1 1 => 2\nPEXPIRE {} 60000 => 1");
        assert_eq!(forced(world, "me:1"), ForceReleased::Ended);
        world.check("HKEYS {} => [\"you:1\"]");
        assert!(left(world) > 0);
        assert_eq!(forced(world, "me:1"), ForceReleased::Other);
        assert_eq!(forced(world, "you:1"), ForceReleased::Ended);
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn other_data_is_told_and_left_alone() {
    each("lock-conflict", |world| {
        world.check("SET {} text => \"OK\"");
        assert!(world.acquire(LOCK, "me:1", 1, wish(60_000)).starts_with("[-4, "));
        assert_eq!(world.release(LOCK, "me:1", 0), -4);
        assert_eq!(world.renew(LOCK, &[("me:1", 60_000)]), "[-4, 0]");
        world.check("GET {} => \"text\"\nDEL {} => 1\nHSET {} mode write you:1:write 1 => 2");
        assert_eq!(world.acquire(LOCK, "me:1", 1, wish(60_000)), "[-4, \"read-write lock\"]");
        assert_eq!(forced(world, "you:1:write"), ForceReleased::Kind, "a writer is no holder of this lock");
        world.check("HLEN {} => 2\nDEL {} => 1");
    });
}

/// The message 2 asks for a lock; the embedded engine tells that one came, and servers which.
#[test]
fn busy_lock_is_asked_for_where_its_hold_may_linger() {
    each("lock-wanted", |world| {
        let mut listener = world.listen_to(LOCK);
        let busy = |holder: &str, by: &str| {
            world.acquire(LOCK, holder, 1, wish(60_000));
            let reply = world.acquire(LOCK, by, 1, wish(60_000));
            assert!(reply.starts_with("[0, "), "{reply}");
        };
        busy("me:1", "you:1");
        listener.hears(&[]);
        world.check("DEL {} => 1");
        busy("me:2~", "me:3~");
        listener.hears(&[]);
        world.check("DEL {} => 1");
        busy("me:2~", "you:1~");
        listener.hears(&["2"]);
        world.check("HGETALL {} => [\"me:2~\", \"1\"]");
        assert!(world.acquire(LOCK, "me:2~", 1, wish(60_000)).starts_with("[2, "), "a copy asks for nothing");
        assert_eq!(world.acquire(LOCK, "you:1", 2, wish(60_000)), "[-2, 0]", "nor does an entry");
        listener.hears(&[]);
        assert_eq!(forced(world, "me:2~"), ForceReleased::Ended);
        listener.hears(&["2", "0"]);
        world.acquire(LOCK, "me:3~", 1, wish(60_000));
        assert_eq!(world.release(LOCK, "me:3~", 0), 6);
        listener.hears(&["0"]);
    });
}

#[test]
fn release_tells_whether_none_one_or_more_listen() {
    each("lock-listeners", |world| {
        let mut listeners = Vec::new();
        for code in [1, 6, 7, 7] {
            world.acquire(LOCK, "me:1", 1, wish(60_000));
            assert_eq!(world.release(LOCK, "me:1", 0), code);
            listeners.push(world.listen_to(LOCK));
        }
    });
}

/// A time that is over already stands for a server whose clock is set back within the script.
#[test]
fn key_that_expires_within_a_release_is_not_left_without_an_end() {
    each("lock-kept-back", |world| {
        world.acquire(LOCK, "me:1", 1, wish(60_000));
        let release = world.keep_call(LOCK, "me:1", 0, 5_000);
        let script = release.script();
        let (keys, mut args) = (release.keys(), release.args().to_vec());
        let keep = args.iter().position(|arg| *arg == "5000").expect("the time to be kept");
        args[keep] = "-5000".into();
        world.run(&Call::new(script, keys, args));
        world.check("EXISTS {} => 0");
    });
}

#[test]
fn a_released_lock_that_stays_busy_is_that_of_no_hold() {
    each("lock-kept", |world| {
        world.acquire(LOCK, "me:1", 1, wish(60_000));
        world.acquire(LOCK, "me:1", 2, wish(60_000));
        let mut listener = world.listen_to(LOCK);
        assert_eq!(world.release_and_keep(LOCK, "me:1", 1, 500_000), 2, "a count that is left keeps its lease");
        assert!(left(world) <= 60_000);
        listener.hears(&[]);
        assert_eq!(world.release_and_keep(LOCK, "me:1", 0, 500_000), 6);
        listener.hears(&["0"]);
        let kept = "HGETALL {} => [\"me:1!\", \"1\"]";
        world.check(kept);
        assert!((490_000..=500_000).contains(&left(world)));
        // Copies of what was sent before find another holder, also that of the release.
        assert_eq!(world.release_and_keep(LOCK, "me:1", 0, 900_000), 5);
        assert_eq!(world.release(LOCK, "me:1", 0), -1, "and one that is late");
        assert!(world.acquire(LOCK, "me:1", 1, wish(900_000)).starts_with("[0, "));
        assert_eq!(world.acquire(LOCK, "me:1", 2, wish(900_000)), "[-2, 0]");
        assert_eq!(world.renew(LOCK, &[("me:1", 900_000)]), "[0, 0]");
        assert!(left(world) <= 500_000);
        world.check(kept);
        let Some(Holder { holder, count: 1, .. }) = inspected(world) else { panic!("it is held") };
        assert_eq!(forced(world, &holder), ForceReleased::Ended);
        // A time that is shorter than the lease ends the lease sooner.
        world.acquire(LOCK, "me:2", 1, wish(60_000));
        assert_eq!(world.release_and_keep(LOCK, "me:2", 0, 5_000), 6);
        assert!(left(world) <= 5_000);
        world.check("DEL {} => 1");
    });
}
