//! The spin lock: it does as `lock` does, and announces nothing.

use crate::support::{Wish, World, each};
use leasehold_core::command::{Kind, lock};

const SPIN: Kind = Kind::Spin;

#[test]
fn its_releases_are_announced_to_nobody() {
    each("spin-silent", |world| {
        assert_eq!(world.keys(SPIN).channel, None);
        let mut listener = world.listen_to(Kind::Lock);
        world.acquire(SPIN, "me:1", 1, Wish::default());
        assert_eq!(world.acquire(SPIN, "me:1", 2, Wish::default()), "[1, 30000]");
        assert_eq!(world.release(SPIN, "me:1", 1), 2);
        assert_eq!(world.release(SPIN, "me:1", 0), 1);
        assert_eq!(world.release(SPIN, "me:1", 0), 0, "a copy");
        world.check("EXISTS {} => 0");
        world.acquire(SPIN, "me:2", 1, Wish::default());
        let forced = world.run(&lock::force_release(&world.name, "me:2", &"SILENT".into()));
        assert_eq!(lock::forced(&forced), Ok(lock::ForceReleased::Ended));
        world.check("EXISTS {} => 0");
        listener.hears(&[]);
        // The lock's release is heard where the spin lock's is not.
        world.acquire(Kind::Lock, "me:3", 1, Wish::default());
        world.release(Kind::Lock, "me:3", 0);
        listener.hears(&["0"]);
    });
}

#[test]
fn it_contends_by_the_rules_of_the_lock() {
    let world = World::embedded("s");
    let wish = Wish { lease: 1_000, ..Wish::default() };
    assert_eq!(world.acquire(SPIN, "me:1", 1, wish), "[1, 1000]");
    world.advance(400);
    assert_eq!(world.acquire(SPIN, "you:1", 1, wish), "[0, 600]");
    assert_eq!(world.release(SPIN, "you:1", 0), -1);
    assert_eq!(world.renew(SPIN, &[("me:1", 1_000), ("you:1", 1_000)]), "[1, 1000, 0, 0]");
    world.advance(1_001);
    assert_eq!(world.acquire(SPIN, "you:1", 1, wish), "[1, 1000]");
    world.command("DEL {}");
    world.command("HSET {} mode write you:1:write 1");
    assert_eq!(world.acquire(SPIN, "me:2", 1, wish), "[-4, \"read-write lock\"]");
    world.check("HLEN {} => 2");
}
