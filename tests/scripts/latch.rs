//! The count-down latch, reply by reply.

use crate::support::{Bench, Desk, LEASE, conflict, hold, ms, once, publish};
use leasehold_core::command::latch;
use leasehold_core::command::operation::Done;
use leasehold_core::command::{Acquired, Kind, Released};

fn latch(bench: &Bench, count: u32) -> Desk<'_> {
    let desk = bench.desk(Kind::Latch);
    assert_eq!(set(&desk, count), done(count.into()));
    desk
}

#[track_caller]
fn set(desk: &Desk<'_>, count: u32) -> Done {
    let call = latch::set(&desk.name, count, &once(), &publish());
    latch::set_done(&desk.bench.run(&call)).expect("the reply is understood")
}

#[track_caller]
fn count_down(desk: &Desk<'_>, count: u32) -> Done {
    let call = latch::count_down(&desk.name, count, &once(), &publish());
    latch::counted_down(&desk.bench.run(&call)).expect("the reply is understood")
}

const fn done(number: i64) -> Done {
    Done::Done { number, copy: false }
}

const fn copy(number: i64) -> Done {
    Done::Done { number, copy: true }
}

#[test]
fn a_latch_opens_at_zero_for_all() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Latch);
        let mut ear = bench.listen(desk.channel());
        assert!(desk.gets(&hold(1)), "a latch without a count is open");
        assert_eq!(set(&desk, 3), done(3));
        assert_eq!(desk.acquire(&hold(1)), Acquired::Busy { left: None, time: None });
        assert_eq!(count_down(&desk, 1), done(2));
        assert_eq!(latch::inspected(&bench.run(&latch::inspect(&desk.name))), Ok(2));
        assert_eq!(count_down(&desk, 5), done(0), "not below zero");
        ear.hears(&["1", "0"]);
        let years = Acquired::Held { left: ms(315_360_000_000), time: None, token: None, in_all: None };
        assert_eq!([desk.acquire(&hold(1)), desk.acquire(&hold(1))], [years.clone(), years]);
        assert!(!bench.exists(desk.name.key()));
        assert_eq!(latch::inspected(&bench.run(&latch::inspect(&desk.name))), Ok(0));
        assert_eq!(desk.release(&hold(1)), Released::Ended, "there is nothing to release");
    });
}

#[test]
fn c1_a_count_that_is_sent_twice_counts_once() {
    Bench::everywhere(|bench| {
        let desk = latch(bench, 3);
        let call = latch::count_down(&desk.name, 2, &once(), &publish());
        let run = || latch::counted_down(&bench.run(&call)).expect("the reply is understood");
        assert_eq!([run(), run()], [done(1), copy(1)]);
        let mut ear = bench.listen(desk.channel());
        let last = latch::count_down(&desk.name, 1, &once(), &publish());
        let run_last = || latch::counted_down(&bench.run(&last)).expect("the reply is understood");
        assert_eq!([run_last(), run_last()], [done(0), copy(0)]);
        ear.hears(&["0"]);
        assert_eq!(set(&desk, 9), done(9));
        assert_eq!([run(), run_last()], [copy(9), copy(9)], "late copies do not count the next one down");
        assert_eq!(desk.number(), "9");
    });
}

#[test]
fn c2_everybody_who_waits_is_let_in() {
    Bench::everywhere(|bench| {
        let desk = latch(bench, 1);
        let waiters: Vec<_> = (0..10).map(|_| hold(1)).collect();
        let mut ears: Vec<_> = waiters.iter().map(|_| bench.listen(desk.channel())).collect();
        assert!(waiters.iter().all(|waiter| !desk.gets(waiter)));
        count_down(&desk, 1);
        ears.iter_mut().for_each(|ear| ear.hears(&["0"]));
        assert!(waiters.iter().all(|waiter| desk.gets(waiter)));
    });
}

#[test]
fn a_count_is_set_where_there_is_none_and_once() {
    Bench::everywhere(|bench| {
        let desk = bench.desk(Kind::Latch);
        let call = latch::set(&desk.name, 2, &once(), &publish());
        let run = || latch::set_done(&bench.run(&call)).expect("the reply is understood");
        assert_eq!([run(), run()], [done(2), copy(2)]);
        assert_eq!(set(&desk, 5), Done::Refused { number: 2 });
        assert_eq!(count_down(&desk, 2), done(0));
        assert_eq!(run(), copy(0), "a late copy does not close it again");
        assert!(!bench.exists(desk.name.key()));
        assert_eq!(count_down(&desk, 1), Done::Refused { number: 0 }, "there is nothing to count down");
        assert!(!bench.exists(desk.name.key()));
        // A JVM stores a count of 0 or less if it is told to.
        bench.on("SET", desk.name.key(), &["-3"]);
        assert!(desk.gets(&hold(1)));
        assert_eq!(count_down(&desk, 1), Done::Refused { number: 0 });
        assert_eq!(latch::inspected(&bench.run(&latch::inspect(&desk.name))), Ok(0));
        assert_eq!(set(&desk, 5), done(5));
    });
}

#[test]
fn a_latch_that_is_deleted_is_open() {
    Bench::everywhere(|bench| {
        let desk = latch(bench, 2);
        let mut ear = bench.listen(desk.channel());
        let call = latch::delete(&desk.name, &once(), &publish());
        let run = || latch::deleted(&bench.run(&call)).expect("the reply is understood");
        assert_eq!([run(), run()], [true; 2]);
        ear.hears(&["0"]);
        assert!(desk.gets(&hold(1)));
        let other = latch::delete(&desk.name, &once(), &publish());
        assert_eq!(latch::deleted(&bench.run(&other)), Ok(false));
        assert_eq!(set(&desk, 2), done(2));
        assert!(run());
        assert_eq!(desk.number(), "2", "a late copy does not open the next one");
    });
}

#[test]
fn the_servers_time_is_told_to_who_asks() {
    let bench = Bench::embedded();
    let desk = latch(&bench, 1);
    let ask = desk.ask(&hold(1), 1, LEASE, Some(0));
    assert_eq!(desk.acquired(&ask), Acquired::Busy { left: None, time: Some(1_800_000_000_000) });
    count_down(&desk, 1);
    assert!(matches!(desk.acquired(&ask), Acquired::Held { time: Some(1_800_000_000_000), .. }));
}

#[test]
fn a_key_of_another_kind_is_named() {
    Bench::everywhere(|bench| {
        for (command, rest, kind) in
            [("HSET", &["f", "1"][..], "hash"), ("SET", &["deadbeef"], "string that is no number")]
        {
            let desk = bench.desk(Kind::Latch);
            bench.on(command, desk.name.key(), rest);
            let kind = kind.to_owned();
            assert_eq!(desk.acquire(&hold(1)), Acquired::Kind(kind.clone()));
            let set = latch::set(&desk.name, 1, &once(), &publish());
            assert_eq!(conflict(latch::set_done(&bench.run(&set))), kind);
            let down = latch::count_down(&desk.name, 1, &once(), &publish());
            assert_eq!(conflict(latch::counted_down(&bench.run(&down))), kind);
            assert_eq!(conflict(latch::inspected(&bench.run(&latch::inspect(&desk.name)))), kind);
            let delete = latch::delete(&desk.name, &once(), &publish());
            assert_eq!(conflict(latch::deleted(&bench.run(&delete))), "key of another kind");
            assert!(bench.exists(desk.name.key()));
        }
    });
}
