//! The semaphore, reply by reply.

use crate::support::{Bench, Desk, LEASE, conflict, hold, ms, once, publish};
use leasehold_core::command::operation::Done;
use leasehold_core::command::semaphore;
use leasehold_core::command::{Acquired, HoldKey, Kind, Released};
use leasehold_core::reply::Reply;

fn semaphore(bench: &Bench, permits: u32) -> Desk<'_> {
    let desk = bench.desk(Kind::Semaphore);
    assert_eq!(set(&desk, permits), Done::Done { number: permits.into(), copy: false });
    desk
}

#[track_caller]
fn set(desk: &Desk<'_>, permits: u32) -> Done {
    let call = semaphore::set(&desk.name, permits, None, &once(), &publish());
    semaphore::set_done(&desk.bench.run(&call)).expect("the reply is understood")
}

#[track_caller]
fn add(desk: &Desk<'_>, permits: i32) -> Done {
    let call = semaphore::add(&desk.name, permits, &once(), &publish());
    semaphore::added(&desk.bench.run(&call)).expect("the reply is understood")
}

fn record(desk: &Desk<'_>, hold: &HoldKey) -> Vec<u8> {
    desk.ask(hold, 1, LEASE, None).keys()[1].to_vec()
}

const fn done(number: i64) -> Done {
    Done::Done { number, copy: false }
}

#[test]
fn permits_are_taken_and_come_back() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 3);
        let mut ear = bench.listen(desk.channel());
        let (one, two) = (hold(2), hold(2));
        let years = Acquired::Held { left: ms(315_360_000_000), time: None, token: None, in_all: None };
        assert_eq!(desk.acquire(&one), years);
        assert_eq!(desk.number(), "1");
        assert_eq!(desk.acquire(&two), Acquired::Busy { left: None, time: None });
        assert!(!bench.exists(&record(&desk, &two)), "who is refused leaves nothing");
        ear.hears(&[]);
        assert_eq!(desk.release(&one), Released::Ended);
        ear.hears(&["3"]);
        assert_eq!(desk.acquire(&two), years);
        assert_eq!(desk.number(), "1");
    });
}

#[test]
fn s3_an_acquire_that_is_sent_twice_takes_its_permits_once() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 3);
        let hold = hold(2);
        assert!(desk.gets(&hold));
        assert!(desk.gets(&hold), "a copy is told that it has them");
        assert_eq!(desk.number(), "1");
        assert_eq!(desk.withdraw(&hold), Released::Ended, "a grant that nobody saw is given back");
        assert_eq!(desk.number(), "3");
    });
}

#[test]
fn a_release_that_is_sent_twice_gives_back_once() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 3);
        let hold = hold(2);
        assert!(desk.gets(&hold));
        assert_eq!(desk.release(&hold), Released::Ended);
        let mut ear = bench.listen(desk.channel());
        assert_eq!(desk.release(&hold), Released::Gone);
        assert_eq!(desk.withdraw(&hold), Released::Gone);
        assert_eq!(desk.number(), "3");
        ear.hears(&[]);
    });
}

#[test]
fn a_late_copy_of_an_acquire_is_refused_after_the_release() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 3);
        let (granted, never) = (hold(2), hold(1));
        assert!(desk.gets(&granted));
        desk.release(&granted);
        assert_eq!(desk.acquire(&granted), Acquired::Withdrawn);
        assert_eq!(desk.withdraw(&never), Released::Gone, "there was nothing to give back");
        assert_eq!(desk.acquire(&never), Acquired::Withdrawn);
        assert_eq!(desk.number(), "3");
    });
}

#[test]
fn hold_outliving_its_record_gives_back_what_was_certain() {
    let bench = Bench::embedded();
    let desk = semaphore(&bench, 3);
    let (certain, unknown) = (hold(1), hold(1));
    assert!(desk.gets(&certain) && desk.gets(&unknown));
    assert_eq!(bench.on("PTTL", &record(&desk, &certain), &[]), Reply::Int(600_000));
    bench.advance(600_001);
    assert_eq!(desk.release(&certain), Released::Ended);
    assert_eq!(desk.withdraw(&unknown), Released::Gone, "without a record nothing shows a grant");
    assert_eq!(desk.number(), "2");
    assert_eq!(desk.acquire(&certain), Acquired::Withdrawn);
    assert_eq!(bench.on("PTTL", &record(&desk, &certain), &[]), Reply::Int(600_000));
}

#[test]
fn counts_above_one_take_and_give_nothing() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 3);
        let hold = hold(1);
        assert_eq!(desk.acquired(&desk.ask(&hold, 2, LEASE, None)), Acquired::Lost);
        assert!(desk.gets(&hold));
        assert!(matches!(desk.acquired(&desk.ask(&hold, 2, LEASE, None)), Acquired::Held { .. }));
        assert_eq!(desk.released(&desk.give(&hold, 1, true)), Released::Lowered);
        assert_eq!(desk.number(), "2");
    });
}

#[test]
fn withdrawn_acquire_is_remembered_until_copies_are_late() {
    let bench = Bench::embedded();
    let desk = semaphore(&bench, 1);
    let (holder, waiter) = (hold(1), hold(1));
    assert!(desk.gets(&holder));
    let now = 1_800_000_000_000;
    let attempt = |not_after| desk.acquired(&desk.ask(&waiter, 1, LEASE, Some(not_after)));
    assert!(matches!(attempt(now + 100), Acquired::Busy { .. }));
    assert_eq!(attempt(now + 300), Acquired::Withdrawn);
    assert_eq!(attempt(now + 200), Acquired::Withdrawn, "an earlier one does not shorten that");
    assert_eq!(desk.release(&holder), Released::Ended);
    bench.advance(300);
    assert_eq!(attempt(now + 300), Acquired::Withdrawn, "a copy of the second attempt in its last millisecond");
    bench.advance(2);
    assert_eq!(attempt(now + 300), Acquired::TooLate { time: Some(now + 302) });
    assert_eq!(desk.number(), "1", "nothing was taken for nobody");
}

#[test]
fn an_acquire_that_comes_too_late_takes_nothing() {
    let bench = Bench::embedded();
    let desk = semaphore(&bench, 1);
    let now = 1_800_000_000_000;
    let (late, early) = (hold(1), hold(1));
    assert_eq!(desk.acquired(&desk.ask(&late, 1, LEASE, Some(now - 1))), Acquired::TooLate { time: Some(now) });
    assert_eq!(desk.number(), "1");
    assert!(matches!(
        desk.acquired(&desk.ask(&early, 1, LEASE, Some(now))),
        Acquired::Held { time: Some(1_800_000_000_000), .. }
    ));
    bench.advance(5);
    assert!(matches!(desk.acquired(&desk.ask(&early, 1, LEASE, Some(now))), Acquired::Held { .. }), "a copy never is");
}

#[test]
fn s4_a_number_of_zero_because_all_are_taken_is_not_set_anew() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 1);
        assert!(desk.gets(&hold(1)));
        assert_eq!(set(&desk, 5), Done::Refused { number: 0 });
        assert_eq!(desk.number(), "0");
    });
}

#[test]
fn a_set_that_is_sent_twice_is_done_once() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Semaphore);
        let mut ear = bench.listen(desk.channel());
        let call = semaphore::set(&desk.name, 4, None, &once(), &publish());
        let run = || semaphore::set_done(&bench.run(&call)).expect("the reply is understood");
        assert_eq!(run(), done(4));
        assert_eq!(run(), Done::Done { number: 4, copy: true });
        ear.hears(&["4"]);
        bench.on("DEL", desk.name.key(), &[]);
        assert_eq!(run(), Done::Done { number: 0, copy: true }, "a late copy does not set what was deleted");
        assert!(!bench.exists(desk.name.key()));
    });
}

#[test]
fn s5_a_release_of_two_lets_one_waiter_for_two_in() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 2);
        let (holder, first, second) = (hold(2), hold(2), hold(2));
        assert!(desk.gets(&holder));
        assert!(!desk.gets(&first) && !desk.gets(&second));
        desk.release(&holder);
        assert_eq!([desk.gets(&second), desk.gets(&first)], [true, false]);
        assert_eq!(desk.number(), "0");
    });
}

#[test]
fn s6_added_permits_let_waiters_in_even_from_none() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 0);
        let waiter = hold(2);
        let mut ear = bench.listen(desk.channel());
        assert!(!desk.gets(&waiter));
        assert_eq!(add(&desk, 2), done(2));
        ear.hears(&["2"]);
        assert!(desk.gets(&waiter));
        let absent = bench.desk(Kind::Semaphore);
        assert_eq!(absent.acquire(&hold(1)), Acquired::Unset { time: None }, "absent is none");
    });
}

#[test]
fn an_addition_counts_once_and_keeps_the_time_to_live() {
    let bench = Bench::embedded();
    let desk = bench.desk(Kind::Semaphore);
    bench.run(&semaphore::set(&desk.name, 2, Some(ms(9_000)), &once(), &publish()));
    let mut ear = bench.listen(desk.channel());
    let call = semaphore::add(&desk.name, -3, &once(), &publish());
    let run = || semaphore::added(&bench.run(&call)).expect("the reply is understood");
    assert_eq!(run(), done(-1));
    assert_eq!(run(), Done::Done { number: -1, copy: true });
    assert_eq!(add(&desk, 1), done(0));
    ear.hears(&[]);
    assert_eq!(add(&desk, 4), done(4));
    ear.hears(&["4"]);
    let drain = semaphore::drain(&desk.name, &once());
    let drained = || semaphore::drained(&bench.run(&drain)).expect("the reply is understood");
    assert_eq!(drained(), done(4));
    add(&desk, 1);
    assert_eq!(drained(), Done::Done { number: 4, copy: true }, "a copy takes nothing");
    assert_eq!(desk.number(), "1");
    assert_eq!(bench.on("PTTL", desk.name.key(), &[]), Reply::Int(9_000));
    let present = Some((1, Some(ms(9_000))));
    assert_eq!(semaphore::inspected(&bench.run(&semaphore::inspect(&desk.name))), Ok(present));
    bench.advance(9_001);
    assert_eq!(semaphore::inspected(&bench.run(&semaphore::inspect(&desk.name))), Ok(None));
}

#[test]
fn a_debt_is_not_drained_away() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 1);
        add(&desk, -3);
        let drained = semaphore::drained(&bench.run(&semaphore::drain(&desk.name, &once())));
        assert_eq!((drained, desk.number().as_str()), (Ok(done(0)), "-2"));
    });
}

#[test]
fn a_debt_is_paid_before_anybody_is_told() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 2);
        let (one, two) = (hold(1), hold(1));
        assert!(desk.gets(&one) && desk.gets(&two));
        add(&desk, -1);
        let mut ear = bench.listen(desk.channel());
        assert_eq!(desk.release(&one), Released::Ended);
        assert_eq!(desk.number(), "0");
        // A JVM throws at what is not positive.
        ear.hears(&[]);
        assert_eq!(desk.release(&two), Released::Ended);
        ear.hears(&["1"]);
    });
}

#[test]
fn permits_do_not_come_back_to_a_semaphore_that_was_deleted() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 2);
        let hold = hold(1);
        assert!(desk.gets(&hold));
        bench.on("DEL", desk.name.key(), &[]);
        assert_eq!(desk.release(&hold), Released::Gone);
        assert_eq!(set(&desk, 7), done(7), "it can be set anew");
    });
}

#[test]
fn numbers_stay_where_a_jvm_can_count() {
    Bench::everywhere(|bench| {
        let desk = semaphore(bench, 2_147_483_647);
        let top = 2_147_483_647;
        assert_eq!(add(&desk, 1), Done::Overflow { number: top });
        let hold = hold(1);
        assert!(desk.gets(&hold));
        assert_eq!(add(&desk, 1), done(top));
        assert_eq!(desk.release(&hold), Released::Gone, "there is no room");
        assert_eq!(desk.number(), "2147483647");
        assert_eq!(add(&desk, i32::MIN), done(-1));
        assert_eq!(add(&desk, i32::MIN), Done::Overflow { number: -1 });
        assert_eq!(desk.number(), "-1");
        let other = bench.desk(Kind::Semaphore);
        assert_eq!(set(&other, 2_147_483_648), Done::Overflow { number: 0 });
        assert!(!bench.exists(other.name.key()));
    });
}

#[test]
fn a_key_of_another_kind_is_named() {
    Bench::everywhere(|bench| {
        for (command, rest, kind) in
            [("HSET", &["f", "1"][..], "hash"), ("SET", &["deadbeef"], "string that is no number")]
        {
            let desk = bench.desk(Kind::Semaphore);
            bench.on(command, desk.name.key(), rest);
            let kind = kind.to_owned();
            assert_eq!(desk.acquire(&hold(1)), Acquired::Kind(kind.clone()));
            assert_eq!(desk.release(&hold(1)), Released::Gone);
            let set = semaphore::set(&desk.name, 1, None, &once(), &publish());
            assert_eq!(conflict(semaphore::set_done(&bench.run(&set))), kind);
            let add = semaphore::add(&desk.name, 1, &once(), &publish());
            assert_eq!(conflict(semaphore::added(&bench.run(&add))), kind);
            let drain = semaphore::drain(&desk.name, &once());
            assert_eq!(conflict(semaphore::drained(&bench.run(&drain))), kind);
            assert_eq!(conflict(semaphore::inspected(&bench.run(&semaphore::inspect(&desk.name)))), kind);
        }
    });
}

#[test]
fn full_memory_refuses_who_comes_and_lets_go_who_leaves() {
    Bench::apart(|bench| {
        let desk = semaphore(bench, 2);
        let (known, never) = (hold(1), hold(1));
        assert!(desk.gets(&known));
        bench.set_full(true);
        let refused = bench.try_run(&desk.ask(&never, 1, LEASE, None)).expect_err("memory is full");
        assert!(refused.contains("OOM "), "{refused}");
        assert_eq!(desk.release(&known), Released::Ended);
        assert_eq!(desk.withdraw(&never), Released::Gone);
        bench.set_full(false);
        assert_eq!(desk.acquire(&never), Acquired::Withdrawn);
        assert_eq!(desk.number(), "2");
    });
}
