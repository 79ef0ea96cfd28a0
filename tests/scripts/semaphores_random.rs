//! Semaphores under random commands, against a model: available and held permits are together the capacity after every step,
//! whatever is sent twice, comes late, expires, is resized, or is done by a JVM beside us.

use crate::histories::each_seed;
use crate::support::{Bench, Desk, hold, ms, once, publish};
use fastrand::Rng;
use leasehold_core::call::Call;
use leasehold_core::command::operation::Done;
use leasehold_core::command::permits::{self, PermitId};
use leasehold_core::command::semaphore;
use leasehold_core::command::{Acquired, HoldKey, Kind, Released, Renewed};
use leasehold_core::reply::Reply;
use std::collections::BTreeMap;

const SLICE: u64 = 60;
const STEPS: usize = 300;

/// Runs a call; sometimes twice, and gives the reply to either.
fn perhaps_twice(bench: &Bench, rng: &mut Rng, call: &Call) -> Reply {
    let first = bench.run(call);
    if rng.u8(..3) > 0 { first } else { bench.run(call) }
}

fn number(desk: &Desk<'_>) -> i64 {
    desk.number().parse().unwrap_or_default()
}

#[test]
fn permits_of_a_semaphore_are_neither_lost_nor_made() {
    let mut late_refused = 0;
    let history = |seed: u64| {
        let bench = Bench::embedded();
        let rng = &mut Rng::with_seed(seed);
        let desk = bench.desk(Kind::Semaphore);
        let mut capacity = i64::from(rng.u32(..8));
        bench.run(&semaphore::set(&desk.name, rng.u32(..1), None, &once(), &publish()));
        bench.run(&semaphore::add(&desk.name, i32::try_from(capacity).expect("it is small"), &once(), &publish()));
        // Those who hold, those who were refused and wait, and those who are gone.
        let (mut holders, mut waiters, mut gone): (Vec<HoldKey>, Vec<HoldKey>, Vec<HoldKey>) = Default::default();
        let mut jvm = 0_i64;
        for step in 0..STEPS {
            match rng.u8(..10) {
                0..3 => {
                    let wish = if waiters.is_empty() || rng.bool() {
                        hold(rng.u32(1..4))
                    } else {
                        waiters.swap_remove(rng.usize(..waiters.len()))
                    };
                    let fits = number(&desk) >= i64::from(wish.permits);
                    let reply = perhaps_twice(&bench, rng, &desk.ask(&wish, 1, ms(1_000), None));
                    match desk.kind.protocol().acquired(&reply).expect("the reply is understood") {
                        Acquired::Held { .. } if fits => holders.push(wish),
                        Acquired::Busy { .. } if !fits => waiters.push(wish),
                        other => panic!("step {step}: {other:?}"),
                    }
                }
                3..5 if !holders.is_empty() => {
                    let hold = holders.swap_remove(rng.usize(..holders.len()));
                    let granted = rng.bool();
                    let reply = perhaps_twice(&bench, rng, &desk.give(&hold, 0, granted));
                    assert!(desk.kind.protocol().released(&reply).is_ok());
                    gone.push(hold);
                }
                5 if !waiters.is_empty() => {
                    let hold = waiters.swap_remove(rng.usize(..waiters.len()));
                    assert_eq!(desk.withdraw(&hold), Released::Gone);
                    gone.push(hold);
                }
                6 if !gone.is_empty() => {
                    // Late copies of what was sent for a hold that has ended.
                    let hold = &gone[rng.usize(..gone.len())];
                    assert_eq!(desk.acquire(hold), Acquired::Withdrawn, "step {step}");
                    desk.released(&desk.give(hold, 0, rng.bool()));
                    late_refused += 1;
                }
                7 => {
                    let change = rng.i32(-2..4);
                    if change != 0 {
                        let call = semaphore::add(&desk.name, change, &once(), &publish());
                        perhaps_twice(&bench, rng, &call);
                        capacity += i64::from(change);
                    }
                }
                8 => {
                    // A JVM has no records.
                    if jvm > 0 && rng.bool() {
                        bench.on("INCRBY", desk.name.key(), &["1"]);
                        jvm -= 1;
                    } else if number(&desk) > 0 {
                        bench.on("DECRBY", desk.name.key(), &["1"]);
                        jvm += 1;
                    }
                }
                9 => {
                    let reply = perhaps_twice(&bench, rng, &semaphore::drain(&desk.name, &once()));
                    let Ok(Done::Done { number, .. }) = semaphore::drained(&reply) else { panic!("{reply:?}") };
                    // A copy of a drain that found nothing leaves no trace, and finds nothing.
                    capacity -= number;
                }
                _ => {}
            }
            bench.advance(rng.u64(..50));
            let held: i64 = holders.iter().map(|hold| i64::from(hold.permits)).sum();
            assert_eq!(number(&desk) + held + jvm, capacity, "step {step}");
        }
    };
    let histories = each_seed(SLICE, history);
    assert!(histories < SLICE || late_refused > 100, "late copies were tried {late_refused} times");
}

/// The model's knowledge of a leased semaphore.
#[derive(Default)]
struct Model {
    now: u64,
    capacity: i64,
    /// Each permit that was granted and not given back, with its deadline.
    permits: BTreeMap<PermitId, u64>,
}

impl Model {
    fn alive(&self) -> i64 {
        self.permits.values().filter(|deadline| **deadline > self.now).count().try_into().expect("they are few")
    }

    fn has(&self, hold: &HoldKey) -> u32 {
        let alive = |id: &PermitId| self.permits.get(id).is_some_and(|deadline| *deadline > self.now);
        PermitId::of_hold(&hold.field(), hold.permits).filter(alive).map(|_| 1).sum()
    }

    fn remove(&mut self, hold: &HoldKey) {
        PermitId::of_hold(&hold.field(), hold.permits).for_each(|id| _ = self.permits.remove(&id));
    }

    /// A longer lease counts.
    fn extend(&mut self, hold: &HoldKey, lease: u64) {
        for id in PermitId::of_hold(&hold.field(), hold.permits) {
            let deadline = self.permits.entry(id).or_default();
            *deadline = (*deadline).max(self.now + lease);
        }
    }
}

#[test]
fn permits_with_leases_are_neither_lost_nor_made() {
    let (mut expired, mut over, mut excess) = (0, 0, 0);
    let history = |seed: u64| {
        let bench = Bench::embedded();
        let rng = &mut Rng::with_seed(seed);
        let desk = bench.desk(Kind::Permits);
        let first = rng.u32(1..8);
        bench.run(&permits::set(&desk.name, first, &once(), &publish()));
        let mut model = Model { capacity: first.into(), now: 1_800_000_000_000, ..Model::default() };
        let mut holds: Vec<HoldKey> = Vec::new();
        let mut jvm: Vec<PermitId> = Vec::new();
        for step in 0..STEPS {
            let at = format!("step {step}");
            let any = |rng: &mut Rng, holds: &[HoldKey]| holds.get(rng.usize(..holds.len().max(1))).cloned();
            match rng.u8(..10) {
                0..4 => {
                    // Sometimes a copy, or a late copy, of an acquire that was sent before.
                    let old = any(rng, &holds).filter(|_| rng.u8(..4) == 0);
                    let wish = old.unwrap_or_else(|| hold(rng.u32(1..4)));
                    let lease = rng.u64(1..600);
                    let has = model.has(&wish);
                    if has < wish.permits {
                        model.remove(&wish);
                    }
                    let available = model.capacity - model.alive();
                    let reply = perhaps_twice(&bench, rng, &desk.ask(&wish, 1, ms(lease), None));
                    match desk.kind.protocol().acquired(&reply).expect("the reply is understood") {
                        Acquired::Held { left, .. } => {
                            assert!(has == wish.permits || available >= wish.permits.into(), "over-admission: {at}");
                            model.extend(&wish, lease);
                            let lowest =
                                PermitId::of_hold(&wish.field(), wish.permits).map(|id| model.permits[&id]).min();
                            assert_eq!(Some(left), lowest.map(|lowest| ms(lowest - model.now)), "{at}");
                        }
                        Acquired::Busy { .. } => assert!(available < wish.permits.into(), "{at}"),
                        Acquired::ExceedsCapacity { capacity } => {
                            assert_eq!(capacity, model.capacity, "{at}");
                            excess += 1;
                        }
                        other => panic!("{at}: {other:?}"),
                    }
                    holds.push(wish);
                }
                4..6 => {
                    let Some(hold) = any(rng, &holds) else { continue };
                    let has = model.has(&hold);
                    let call = desk.give(&hold, 0, rng.bool());
                    let expected = if has == hold.permits { Released::Ended } else { Released::Gone };
                    assert_eq!(desk.released(&call), expected, "{at}");
                    model.remove(&hold);
                    if rng.bool() {
                        assert_eq!(desk.released(&call), Released::Gone, "a copy: {at}");
                    }
                }
                6 => {
                    let Some(hold) = any(rng, &holds) else { continue };
                    let lease = rng.u64(1..600);
                    if model.has(&hold) == hold.permits {
                        model.extend(&hold, lease);
                        assert!(matches!(desk.renew(&hold, ms(lease)), Renewed::Held { count: 1, .. }), "{at}");
                    } else {
                        assert_eq!(desk.renew(&hold, ms(lease)), Renewed::Gone, "{at}");
                    }
                }
                7 => {
                    let change = rng.i32(-2..3);
                    if rng.bool() || model.capacity + i64::from(change) < 0 {
                        let capacity = rng.u32(..8);
                        let call = permits::resize(&desk.name, capacity, &once(), &publish());
                        perhaps_twice(&bench, rng, &call);
                        model.capacity = capacity.into();
                    } else if change != 0 {
                        perhaps_twice(&bench, rng, &permits::add(&desk.name, change, &once(), &publish()));
                        model.capacity += i64::from(change);
                    }
                }
                8 => {
                    // A JVM by the layout alone: it takes one for a while, or gives one of its own back.
                    if let Some(id) = jvm.pop().filter(|_| rng.bool()) {
                        let removed = bench.command(&[b"ZREM", &desk.keys.keys[1], id.as_bytes()]);
                        if removed == Reply::Int(1) {
                            bench.on("INCRBY", desk.name.key(), &["1"]);
                        }
                        model.permits.remove(&id);
                    } else if number(&desk) > 0 {
                        let id = PermitId::from_bytes(&rng.u128(..).to_be_bytes()).expect("these are sixteen");
                        let deadline = model.now + rng.u64(1..900);
                        bench.on("DECRBY", desk.name.key(), &["1"]);
                        let score = deadline.to_string();
                        bench.command(&[b"ZADD", &desk.keys.keys[1], score.as_bytes(), id.as_bytes()]);
                        model.permits.insert(id, deadline);
                        jvm.push(id);
                    }
                }
                _ => {
                    let Some(hold) = any(rng, &holds) else { continue };
                    let ids: Vec<_> = PermitId::of_hold(&hold.field(), hold.permits).take(1).collect();
                    bench.run(&permits::give(&desk.name, ids.iter().copied(), &publish()));
                    model.permits.remove(&ids[0]);
                }
            }
            let millis = rng.u64(..80);
            bench.advance(millis);
            model.now += millis;
            let Reply::Int(listed) = bench.on("ZCARD", &desk.keys.keys[1], &[]) else { panic!("it is a sorted set") };
            assert_eq!(number(&desk) + listed, model.capacity, "available and held are the capacity: {at}");
            let Ok(Some(permits::Counts { available, held, .. })) =
                permits::inspected(&bench.run(&permits::inspect(&desk.name)))
            else {
                panic!("the semaphore is there: {at}")
            };
            assert_eq!(i64::try_from(held), Ok(model.alive()), "{at}");
            assert_eq!(available, model.capacity - model.alive(), "{at}");
            expired += usize::from(listed > model.alive());
            over += usize::from(available < 0);
        }
    };
    let histories = each_seed(SLICE, history);
    let tried = expired > 100 && over > 100 && excess > 10;
    assert!(histories < SLICE || tried, "tried: {expired} expired, {over} over, {excess} in excess");
}
