//! The leased semaphore, reply by reply.

use crate::support::{Bench, Desk, LEASE, conflict, hold, ms, once, publish};
use bytes::Bytes;
use leasehold_core::command::operation::Done;
use leasehold_core::command::permits::{self, PermitId};
use leasehold_core::command::{Acquired, HoldKey, Kind, Released, Renewed};
use leasehold_core::reply::Reply;
use std::time::Duration;

const START: u64 = 1_800_000_000_000;
/// The deadline that Redisson writes for a permit that does not expire.
const NEVER: &str = "922337203685477";

fn permits(bench: &Bench, capacity: u32) -> Desk<'_> {
    let desk = bench.desk(Kind::Permits);
    assert_eq!(set(&desk, capacity), done(capacity.into()));
    desk
}

const fn done(number: i64) -> Done {
    Done::Done { number, copy: false }
}

const fn granted(left: Duration, time: u64, in_all: u64) -> Acquired {
    Acquired::Held { left, time: Some(time), token: None, in_all: Some(in_all) }
}

const fn held(left: Duration, time: u64) -> Acquired {
    Acquired::Held { left, time: Some(time), token: None, in_all: None }
}

#[track_caller]
fn set(desk: &Desk<'_>, capacity: u32) -> Done {
    let call = permits::set(&desk.name, capacity, &once(), &publish());
    permits::set_done(&desk.bench.run(&call)).expect("the reply is understood")
}

#[track_caller]
fn resize(desk: &Desk<'_>, capacity: u32) -> Done {
    let call = permits::resize(&desk.name, capacity, &once(), &publish());
    permits::resized(&desk.bench.run(&call)).expect("the reply is understood")
}

#[track_caller]
fn add(desk: &Desk<'_>, capacity: i32) -> Done {
    let call = permits::add(&desk.name, capacity, &once(), &publish());
    permits::added(&desk.bench.run(&call)).expect("the reply is understood")
}

#[track_caller]
fn give(desk: &Desk<'_>, ids: &[PermitId]) -> Vec<bool> {
    let call = permits::give(&desk.name, ids.iter().copied(), &publish());
    permits::given(&desk.bench.run(&call)).expect("the reply is understood")
}

/// Available and held permits.
#[track_caller]
fn counts(desk: &Desk<'_>) -> (i64, u64) {
    let seen = permits::inspected(&desk.bench.run(&permits::inspect(&desk.name))).expect("the reply is understood");
    seen.map(|counts| (counts.available, counts.held)).expect("the semaphore is there")
}

#[track_caller]
fn rest_of(desk: &Desk<'_>, id: PermitId) -> Option<Option<Duration>> {
    let lease = permits::leased(&desk.bench.run(&permits::lease(&desk.name, id)), id).expect("the reply is understood");
    lease.map(|permit| permit.left)
}

fn ids(hold: &HoldKey) -> Vec<PermitId> {
    PermitId::of_hold(&hold.field(), hold.permits).collect()
}

/// Takes one permit as a JVM would, with a deadline by its own clock.
fn jvm_takes(desk: &Desk<'_>, id: PermitId, deadline: &str) {
    desk.bench.on("DECRBY", desk.name.key(), &["1"]);
    desk.bench.command(&[b"ZADD", &desk.keys.keys[1], deadline.as_bytes(), id.as_bytes()]);
}

fn id(byte: u8) -> PermitId {
    PermitId::from_bytes(&[byte; 16]).expect("these are sixteen")
}

#[test]
fn permits_are_taken_and_come_back() {
    Bench::everywhere(|bench| {
        let desk = permits(bench, 3);
        let mut ear = bench.listen(desk.channel());
        let (one, two) = (hold(2), hold(2));
        assert!(desk.gets(&one));
        assert_eq!(counts(&desk), (1, 2));
        assert_eq!(bench.on("ZCARD", &desk.keys.keys[1], &[]), Reply::Int(2));
        assert!(matches!(desk.acquire(&two), Acquired::Busy { left: Some(left), .. } if left <= LEASE && left > ms(0)));
        ear.hears(&[]);
        assert_eq!(desk.release(&one), Released::Ended);
        ear.hears(&["3"]);
        assert_eq!(desk.release(&one), Released::Gone, "a copy");
        ear.hears(&[]);
        assert!(desk.gets(&two));
        assert_eq!(counts(&desk), (1, 2));
    });
}

#[test]
fn a_hold_is_known_by_its_ids_as_a_jvm_sees_them() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 2);
    let hold = hold(2);
    assert_eq!(desk.acquire(&hold), granted(LEASE, START, 2));
    let listed = bench.on("ZRANGE", &desk.keys.keys[1], &["0", "-1", "WITHSCORES"]);
    let mut expected: Vec<_> = ids(&hold);
    expected.sort();
    let row = |id: &PermitId| [Reply::Bulk(Bytes::copy_from_slice(id.as_bytes())), Reply::Bulk("1800000030000".into())];
    assert_eq!(listed, Reply::Array(expected.iter().flat_map(row).collect()), "raw bytes, and milliseconds");
    let seen = permits::inspected(&bench.run(&permits::inspect(&desk.name))).expect("the reply is understood");
    let permits = seen.expect("the semaphore is there").permits;
    assert_eq!(permits.iter().map(|permit| permit.id).collect::<Vec<_>>(), expected);
    assert!(permits.iter().all(|permit| permit.left == Some(LEASE)));
}

#[test]
fn s3_acquire_sent_twice_takes_its_permits_once() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    let hold = hold(2);
    desk.acquire(&hold);
    bench.advance(100);
    assert_eq!(desk.acquired(&desk.ask(&hold, 1, ms(50), None)), held(ms(29_900), START + 100));
    assert_eq!(desk.acquire(&hold), held(LEASE, START + 100), "a longer lease counts");
    assert_eq!(counts(&desk), (1, 2));
    assert_eq!(desk.withdraw(&hold), Released::Ended);
    assert_eq!(counts(&desk), (3, 0));
}

#[test]
fn s1_the_permits_of_a_crashed_client_come_back_after_the_lease() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 2);
    let (crashed, waiter, other) = (hold(2), hold(1), hold(1));
    desk.acquire(&crashed);
    bench.advance(29_999);
    assert_eq!(
        desk.acquire(&waiter),
        Acquired::Busy { left: Some(ms(1)), time: Some(START + 29_999) },
        "a waiter knows when to try again"
    );
    let mut ear = bench.listen(desk.channel());
    bench.advance(1);
    assert_eq!(counts(&desk), (2, 0), "what has expired counts as available");
    assert!(desk.gets(&waiter));
    ear.hears(&["1"]);
    assert!(desk.gets(&other), "one was left");
    assert_eq!(desk.release(&crashed), Released::Gone);
    assert_eq!(counts(&desk), (0, 2));
}

#[test]
fn s9_server_clock_steps_take_no_permit_twice() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 1);
    let hold_here = hold(1);
    desk.acquire(&hold_here);
    assert!(!desk.gets(&hold(1)), "no argument of a caller says what time it is");
    // A JVM whose clock is an hour fast gives its permit a deadline that is late by as much, and takes no permit of others.
    desk.release(&hold_here);
    jvm_takes(&desk, id(7), &(START + 3_600_000 + 1_000).to_string());
    bench.advance(2_000);
    assert!(!desk.gets(&hold(1)));
    assert_eq!(counts(&desk), (0, 1));
    assert_eq!(rest_of(&desk, id(7)), Some(Some(ms(3_599_000))));
}

#[test]
fn s4_a_capacity_is_set_where_there_is_none_and_once() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Permits);
        let mut ear = bench.listen(desk.channel());
        let call = permits::set(&desk.name, 1, &once(), &publish());
        let run = || permits::set_done(&bench.run(&call)).expect("the reply is understood");
        assert_eq!([run(), run()], [done(1), Done::Done { number: 1, copy: true }]);
        ear.hears(&["1"]);
        let holder = hold(1);
        assert!(desk.gets(&holder));
        assert_eq!(set(&desk, 5), Done::Refused { number: 0 }, "all are taken");
        bench.on("DEL", desk.name.key(), &[]);
        assert_eq!(set(&desk, 5), done(4), "permits that are still held count");
        assert_eq!(desk.release(&holder), Released::Ended);
        assert_eq!(counts(&desk), (5, 0));
        assert_eq!(set(&bench.desk(Kind::Permits), 2_147_483_648), Done::Overflow { number: 0 });
    });
}

#[test]
fn s5_a_release_of_two_lets_one_waiter_for_two_in() {
    Bench::everywhere(|bench| {
        let desk = permits(bench, 2);
        let (holder, first, second) = (hold(2), hold(2), hold(2));
        assert!(desk.gets(&holder));
        assert!(!desk.gets(&first) && !desk.gets(&second));
        desk.release(&holder);
        assert_eq!([desk.gets(&first), desk.gets(&second)], [true, false]);
        assert_eq!(counts(&desk), (0, 2));
    });
}

#[test]
fn s6_who_waits_for_a_capacity_of_zero_gets_what_is_added() {
    Bench::everywhere(|bench| {
        let (absent, zero) = (bench.desk(Kind::Permits), permits(bench, 0));
        for desk in [&absent, &zero] {
            let waiter = hold(2);
            let told = desk.acquire(&waiter);
            let is_told = if std::ptr::eq(desk, &absent) {
                matches!(told, Acquired::Unset { .. })
            } else {
                matches!(told, Acquired::Busy { left: None, .. })
            };
            assert!(is_told, "no error, for it may be set: {told:?}");
            let mut ear = bench.listen(desk.channel());
            assert_eq!(add(desk, 2), done(2));
            ear.hears(&["2"]);
            assert!(desk.gets(&waiter));
        }
    });
}

#[test]
fn s7_of_several_permits_those_that_live_are_given_back() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 5);
    let (short, long, gone) = (hold(1), hold(2), hold(2));
    desk.acquired(&desk.ask(&short, 1, ms(100), None));
    desk.acquire(&long);
    desk.acquire(&gone);
    bench.advance(100);
    let all = [ids(&short)[0], ids(&long)[0], ids(&long)[0], id(9), ids(&long)[1]];
    let mut ear = bench.listen(desk.channel());
    assert_eq!(give(&desk, &all), [false, true, false, false, true], "each is answered, and an id counts once");
    ear.hears(&["3"]);
    assert_eq!(counts(&desk), (3, 2));
    assert_eq!(give(&desk, &all), [false; 5], "a copy");
    assert_eq!(give(&desk, &ids(&gone)[..1]), [true]);
    assert_eq!(desk.release(&gone), Released::Gone, "a hold that has lost a permit is lost");
    assert_eq!(counts(&desk), (5, 0), "and its other permits are back");
}

#[test]
fn s11_more_than_there_are_in_all_is_refused_at_once() {
    Bench::everywhere(|bench| {
        let desk = permits(bench, 2);
        assert_eq!(desk.acquire(&hold(3)), Acquired::ExceedsCapacity { capacity: 2 });
        assert!(desk.gets(&hold(1)));
        assert_eq!(
            desk.acquire(&hold(3)),
            Acquired::ExceedsCapacity { capacity: 2 },
            "held permits belong to the capacity"
        );
        assert!(matches!(desk.acquire(&hold(2)), Acquired::Busy { .. }));
        assert!(desk.gets(&hold(1)), "and blocks nobody");
        assert_eq!(resize(&desk, 1), done(-1));
        assert_eq!(desk.acquire(&hold(2)), Acquired::ExceedsCapacity { capacity: 1 });
    });
}

#[test]
fn s12_a_renewal_extends_and_never_shortens_and_tells_a_loss() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 4);
    let (kept, robbed) = (hold(2), hold(2));
    desk.acquire(&kept);
    desk.acquire(&robbed);
    bench.advance(20_000);
    assert_eq!(desk.renew(&kept, LEASE), Renewed::Held { count: 1, left: LEASE });
    assert_eq!(desk.renew(&kept, ms(10)), Renewed::Held { count: 1, left: LEASE });
    assert_eq!(give(&desk, &ids(&robbed)[1..]), [true]);
    assert_eq!(desk.renew(&robbed, LEASE), Renewed::Gone, "one of its permits is gone");
    assert_eq!(rest_of(&desk, ids(&robbed)[0]), Some(Some(ms(10_000))), "the other is not extended");
    bench.advance(30_000);
    assert_eq!(desk.renew(&kept, LEASE), Renewed::Gone, "what has expired is not brought back");
    assert_eq!(counts(&desk), (4, 0));
    bench.on("DEL", &desk.keys.keys[1], &[]);
    bench.on("SET", &desk.keys.keys[1], &["text"]);
    assert_eq!(desk.renew(&kept, LEASE), Renewed::Gone);
}

#[test]
fn s13_leases_of_a_millisecond_and_without_end() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 4);
    let (brief, endless) = (hold(1), hold(1));
    assert_eq!(desk.acquired(&desk.ask(&brief, 1, ms(1), None)), granted(ms(1), START, 1));
    bench.advance(1);
    assert_eq!(rest_of(&desk, ids(&brief)[0]), None);
    let Acquired::Held { left, .. } = desk.acquired(&desk.ask(&endless, 1, Duration::MAX, None)) else {
        panic!("there are four")
    };
    assert_eq!(left, ms(922_337_203_685_477 - START - 1));
    assert_eq!(rest_of(&desk, ids(&endless)[0]), Some(None), "as a JVM writes it");
    assert_eq!(desk.renew(&endless, LEASE), Renewed::Held { count: 1, left });
    jvm_takes(&desk, id(1), NEVER);
    assert_eq!(counts(&desk), (2, 2));
    assert!(matches!(desk.acquire(&hold(3)), Acquired::Busy { left: None, .. }), "nothing that is held ever expires");
}

#[test]
fn a_semaphore_can_be_resized_under_load() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    let (one, two) = (hold(1), hold(2));
    assert!(desk.gets(&one) && desk.gets(&two));
    let mut ear = bench.listen(desk.channel());
    let call = permits::resize(&desk.name, 1, &once(), &publish());
    let shrink = || permits::resized(&bench.run(&call)).expect("the reply is understood");
    assert_eq!(shrink(), done(-2));
    assert_eq!(counts(&desk), (-2, 3));
    assert_eq!(desk.release(&two), Released::Ended);
    ear.hears(&[]);
    assert_eq!(counts(&desk), (0, 1));
    assert_eq!(resize(&desk, 5), done(4));
    ear.hears(&["4"]);
    assert_eq!(shrink(), Done::Done { number: 4, copy: true }, "a late copy undoes nothing");
    bench.advance(30_000);
    assert_eq!(resize(&desk, 5), done(5), "what has expired is not held");
    assert_eq!(resize(&desk, 2_147_483_648), Done::Overflow { number: 5 });
    assert_eq!(counts(&desk), (5, 0));
}

#[test]
fn counts_above_one_take_nothing_and_part_of_a_hold_is_none() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    let hold = hold(2);
    assert_eq!(desk.acquired(&desk.ask(&hold, 2, LEASE, None)), Acquired::Lost);
    desk.acquire(&hold);
    assert!(matches!(desk.acquired(&desk.ask(&hold, 2, LEASE, None)), Acquired::Held { .. }));
    assert_eq!(desk.released(&desk.give(&hold, 1, true)), Released::Lowered);
    assert_eq!(counts(&desk), (1, 2));
    give(&desk, &ids(&hold)[..1]);
    assert_eq!(desk.acquired(&desk.ask(&hold, 2, LEASE, None)), Acquired::Lost);
    bench.advance(10_000);
    assert_eq!(desk.acquire(&hold), granted(LEASE, START + 10_000, 2), "it begins anew");
    assert_eq!(counts(&desk), (1, 2));
}

#[test]
fn an_acquire_that_comes_too_late_takes_nothing() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 1);
    let (late, early) = (hold(1), hold(1));
    assert_eq!(desk.acquired(&desk.ask(&late, 1, LEASE, Some(START - 1))), Acquired::TooLate { time: Some(START) });
    assert_eq!(counts(&desk), (1, 0));
    assert_eq!(desk.acquired(&desk.ask(&early, 1, LEASE, Some(START))), granted(LEASE, START, 1));
    bench.advance(5);
    assert_eq!(desk.acquired(&desk.ask(&early, 1, LEASE, Some(START))), held(LEASE, START + 5), "a copy never is");
}

#[test]
fn permits_do_not_come_back_to_a_semaphore_that_was_deleted() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    let (released, expired) = (hold(1), hold(1));
    desk.acquire(&released);
    desk.acquire(&expired);
    bench.on("DEL", desk.name.key(), &[]);
    assert_eq!(desk.release(&released), Released::Ended);
    bench.advance(30_000);
    assert!(matches!(desk.acquire(&hold(1)), Acquired::Unset { .. }));
    assert!(!bench.exists(desk.name.key()) && !bench.exists(&desk.keys.keys[1]));
    assert_eq!(permits::inspected(&bench.run(&permits::inspect(&desk.name))), Ok(None));
}

#[test]
fn deadlines_live_as_long_as_the_counter() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    bench.on("PEXPIRE", desk.name.key(), &["5000"]);
    let (one, two) = (hold(1), hold(1));
    desk.acquire(&one);
    assert_eq!(bench.on("PTTL", &desk.keys.keys[1], &[]), Reply::Int(5_000));
    bench.advance(100);
    add(&desk, 1);
    desk.acquire(&two);
    desk.release(&one);
    resize(&desk, 9);
    assert_eq!(bench.on("PTTL", desk.name.key(), &[]), Reply::Int(4_900));
    assert_eq!(bench.on("PTTL", &desk.keys.keys[1], &[]), Reply::Int(4_900));
}

#[test]
fn thousand_expired_permits_return_in_one_call() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 2_500);
    assert!(desk.gets(&hold(1_250)) && desk.gets(&hold(1_250)));
    bench.advance(30_000);
    assert_eq!(counts(&desk), (2_500, 0));
    assert!(matches!(desk.acquire(&hold(1_100)), Acquired::Busy { left: Some(left), .. } if left == ms(1)));
    assert!(desk.gets(&hold(1_100)));
    assert_eq!(counts(&desk), (1_400, 1_100));
}

#[test]
fn full_memory_refuses_who_comes_and_lets_go_who_leaves() {
    Bench::apart(|bench| {
        let desk = permits(bench, 3);
        let (kept, released) = (hold(1), hold(1));
        assert!(desk.gets(&kept) && desk.gets(&released));
        bench.set_full(true);
        let refused = bench.try_run(&desk.ask(&hold(1), 1, LEASE, None)).expect_err("memory is full");
        assert!(refused.contains("OOM "), "{refused}");
        assert_eq!(counts(&desk), (1, 2), "nothing is left half done");
        assert_eq!(desk.release(&released), Released::Ended);
        assert!(matches!(desk.renew(&kept, 2 * LEASE), Renewed::Held { left, .. } if left > LEASE));
        assert_eq!(counts(&desk), (2, 1));
    });
}

#[test]
fn what_has_expired_comes_back_though_memory_is_full() {
    let bench = Bench::embedded();
    let desk = permits(&bench, 3);
    let holder = hold(1);
    desk.acquire(&holder);
    bench.set_full(true);
    bench.advance(30_000);
    assert_eq!(desk.release(&holder), Released::Gone);
    assert_eq!(desk.number(), "3");
}

#[test]
fn a_key_of_another_kind_is_named() {
    Bench::everywhere(|bench| {
        for (key, command, rest, kind) in [
            (0, "HSET", &["f", "1"][..], "hash"),
            (0, "SET", &["deadbeef"], "string that is no number"),
            (1, "SET", &["1"], "string"),
        ] {
            let desk = bench.desk(Kind::Permits);
            bench.on(command, &desk.keys.keys[key], rest);
            let kind = kind.to_owned();
            assert_eq!(desk.acquire(&hold(1)), Acquired::Kind(kind.clone()));
            assert_eq!(desk.release(&hold(1)), Released::Gone);
            let given = permits::give(&desk.name, [id(1)], &publish());
            assert_eq!(conflict(permits::given(&bench.run(&given))), kind);
            let set = permits::set(&desk.name, 1, &once(), &publish());
            assert_eq!(conflict(permits::set_done(&bench.run(&set))), kind);
            let resize = permits::resize(&desk.name, 1, &once(), &publish());
            assert_eq!(conflict(permits::resized(&bench.run(&resize))), kind);
            assert_eq!(conflict(permits::inspected(&bench.run(&permits::inspect(&desk.name)))), kind);
            if key == 1 {
                let lease = bench.run(&permits::lease(&desk.name, id(1)));
                assert_eq!(conflict(permits::leased(&lease, id(1))), kind);
            }
        }
    });
}
