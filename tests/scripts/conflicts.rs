//! Data that no lock writes: what each script says of it, and that it changes none of it.

use crate::support::{Bench, Desk, LEASE, conflict, hold, ms, once, publish};
use leasehold_core::call::Call;
use leasehold_core::command::store::{self, Claim};
use leasehold_core::command::{Acquired, Kind, Listeners, Released, Renewal, Renewed};
use leasehold_core::command::{latch, lock, permits, read_write, semaphore};
use leasehold_core::reply::{DecodeError, Reply};
use std::fmt::Debug;

/// Texts that Lua's `tonumber` takes for a number, or for another one, and Redis does not.
const NO_NUMBERS: [&str; 14] =
    ["nan", "-nan", "inf", "-inf", "0x10", "1e3", " 7", "7 ", "+7", "007", "-0", "7.0", "9007199254740993", ""];

/// A counter with a value that is no number.
fn scene<'a>(bench: &'a Bench, kind: Kind, value: &str) -> Desk<'a> {
    let desk = bench.desk(kind);
    bench.on("SET", desk.name.key(), &[value]);
    desk
}

#[track_caller]
fn refused<T: Debug>(result: Result<T, DecodeError>, what: &str) {
    let kind = conflict(result);
    assert!(kind.contains("no number"), "{what}: {kind}");
}

#[test]
fn a_counter_that_is_no_number_is_a_conflict_and_stays_as_it_is() {
    Bench::everywhere(|bench| {
        for value in NO_NUMBERS {
            for kind in [Kind::Semaphore, Kind::Permits, Kind::Latch] {
                let desk = scene(bench, kind, value);
                let what = format!("{value:?} as {kind:?}");
                let acquired = desk.acquire(&hold(1));
                assert!(
                    matches!(&acquired, Acquired::Kind(kind) if kind.contains("no number")),
                    "{what}: {acquired:?}"
                );
                if kind != Kind::Latch {
                    assert_eq!(desk.release(&hold(1)), Released::Gone, "{what}");
                }
                let (name, id, publish) = (&desk.name, once(), publish());
                let run = |call: &Call| desk.bench.run(call);
                match kind {
                    Kind::Semaphore => {
                        refused(semaphore::added(&run(&semaphore::add(name, 1, &id, &publish))), &what);
                        refused(semaphore::drained(&run(&semaphore::drain(name, &id))), &what);
                        let set = semaphore::set(name, 1, None, &id, &publish);
                        refused(semaphore::set_done(&run(&set)), &what);
                        refused(semaphore::inspected(&run(&semaphore::inspect(name))), &what);
                    }
                    Kind::Permits => {
                        refused(permits::resized(&run(&permits::resize(name, 1, &id, &publish))), &what);
                        refused(permits::set_done(&run(&permits::set(name, 1, &id, &publish))), &what);
                        refused(permits::inspected(&run(&permits::inspect(name))), &what);
                    }
                    _ => {
                        refused(latch::set_done(&run(&latch::set(name, 1, &id, &publish))), &what);
                        let down = latch::count_down(name, 1, &id, &publish);
                        refused(latch::counted_down(&run(&down)), &what);
                        refused(latch::inspected(&run(&latch::inspect(name))), &what);
                    }
                }
                assert_eq!(desk.number(), value, "{what}: nothing has changed");
            }
        }
        for value in ["0", "7", "-7", "9007199254740991"] {
            let desk = scene(bench, Kind::Semaphore, value);
            let seen = semaphore::inspected(&bench.run(&semaphore::inspect(&desk.name))).expect("a reply");
            let available = value.parse().expect("a number");
            assert_eq!(seen, Some((available, None)), "{value}");
        }
    });
}

#[test]
fn one_hold_count_that_is_no_number_spoils_no_renewal_of_others() {
    Bench::everywhere(|bench| {
        for value in ["-7", "-4", "-5", "0", "2147483648", "99999999999", "nan", "inf", "0x10", "x", ""] {
            let (good, bad) = (bench.desk(Kind::Lock), bench.desk(Kind::Lock));
            let (kept, lost) = (hold(1), hold(1));
            assert!(good.gets(&kept) && bad.gets(&lost));
            bench.command(&[b"HSET", bad.name.key(), &lost.field(), value.as_bytes()]);
            let mut renewal = Renewal::default();
            Kind::Lock.protocol().renew(&mut renewal, &bad.name, &bad.keys, &lost, LEASE);
            Kind::Lock.protocol().renew(&mut renewal, &good.name, &good.keys, &kept, LEASE);
            let script = Kind::Lock.protocol().renewal().expect("holds have a lease");
            let reply = bench.run(&Call::new(script, renewal.keys, renewal.args));
            let renewed = Renewed::decode(&reply, 2).expect("an answer for each");
            assert_eq!(renewed[0], Renewed::Gone, "{value:?}");
            assert!(matches!(renewed[1], Renewed::Held { count: 1, left } if left > ms(0)), "{value:?}: {renewed:?}");
            let field = String::from_utf8_lossy(&lost.field()).into_owned();
            if value != "0" {
                let seen = conflict(lock::inspected(&bench.run(&lock::inspect(&bad.name))));
                assert!(seen.contains(&field), "{value:?}: {seen}");
            }
            let entered = bad.acquired(&bad.ask(&lost, 2, LEASE, None));
            assert!(matches!(entered, Acquired::Mismatch | Acquired::Lost), "{value:?}: {entered:?}");
            assert_eq!(bad.release(&lost), Released::EndedBefore(Listeners::None), "{value:?}: it can be removed");
        }
    });
}

#[test]
fn a_register_that_is_no_number_admits_nobody() {
    Bench::everywhere(|bench| {
        for value in ["nan", "inf", "0x10", "1e3", "x"] {
            let data = bench.name("value");
            bench.on("HSET", &store::fence_key(&data), &["token", value, "owner", "somebody"]);
            let owner = once();
            let claim = Claim { token: 1 << 50, owner: &owner, keep: None };
            let read = conflict(store::read_done(&bench.run(&store::read(&data, &claim))));
            assert!(read.contains("token"), "{value}: {read}");
        }
    });
}

#[test]
fn too_many_readers_are_believed_until_the_lease_ends() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Write);
        let key = desk.name.key();
        bench.on("HSET", key, &["mode", "read"]);
        // None of them has a key that says that it lives.
        for reader in 0..1_001 {
            bench.on("HSET", key, &[&format!("6f0c:{reader}"), "1"]);
        }
        bench.on("PEXPIRE", key, &["60000"]);
        let busy = desk.acquire(&hold(1));
        assert!(matches!(busy, Acquired::Busy { left: Some(left), .. } if left > ms(0)), "{busy:?}");
        assert_eq!(bench.on("HLEN", key, &[]), Reply::Int(1_002), "nobody was looked at");
        bench.on("HDEL", key, &["6f0c:0"]);
        assert!(desk.gets(&hold(1)), "a thousand are looked at, and are found to be dead");
        bench.on("DEL", key, &[]);

        // A writer that leaves is not held up by them, and leaves them the lease that they have.
        let writer = hold(1);
        assert!(desk.gets(&writer));
        for reader in 0..1_001 {
            bench.on("HSET", key, &[&format!("6f0c:{reader}"), "1"]);
        }
        assert_eq!(desk.release(&writer), Released::Ended);
        assert_eq!(bench.on("HGET", key, &["mode"]), Reply::Bulk("read".into()));
        assert!(matches!(bench.on("PTTL", key, &[]), Reply::Int(left) if left > 0), "the lease stays");
        let seen = read_write::inspected(&bench.run(&read_write::inspect(&desk.name))).expect("a reply");
        assert_eq!(seen, [], "an inspection looks at more of them");
    });
}
