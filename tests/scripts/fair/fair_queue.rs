//! Places in a queue of our own processes: who comes next, who loses its place, and what is left behind.

use super::world::{World, is_held, is_placed};
use crate::support::ms;
use leasehold_core::command::Acquired;
use leasehold_core::command::fair::Heartbeat;
use leasehold_core::command::holder::Waiter;
use leasehold_core::command::lock::ForceReleased;

/// A lock that is held, and the holds that wait for it, each of a process of its own.
fn queued(world: &World, waiters: usize) -> (String, Vec<super::world::Process>) {
    let holder = world.process().hold(1);
    assert!(is_held(&world.acquire(&holder)));
    let processes: Vec<_> = (0..waiters).map(|_| world.process()).collect();
    for process in &processes {
        assert!(is_placed(&world.acquire(&process.hold(1))));
    }
    (holder, processes)
}

fn first(processes: &[super::world::Process]) -> Vec<String> {
    processes.iter().map(|process| process.hold(1)).collect()
}

#[test]
fn turns_come_in_the_order_of_arrival() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 4);
    assert_eq!(world.queue(), first(&waiters));
    let mut last = holder;
    for waiter in &waiters {
        assert_eq!(world.release(&last, 0), 1);
        assert_eq!(world.heard(&waiter.id()), [waiter.hold(1)], "the head is told, by its process's channel");
        for other in waiters.iter().filter(|other| other.id() != waiter.id()) {
            assert_eq!(world.heard(&other.id()), [""; 0], "and nobody else");
        }
        last = waiter.hold(1);
        assert!(is_held(&world.acquire(&last)));
        world.assert_consistent();
    }
    assert_eq!(world.release(&last, 0), 1);
}

#[test]
fn a_place_is_told_with_lease_and_head() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    world.acquire(&p.hold(1));
    world.advance(100);
    let place = |entry: &str| match world.acquire(entry) {
        Acquired::Placed { left, time, moved, head, foreign } => (left, time.is_some(), moved, head, foreign),
        other => panic!("{other:?}"),
    };
    assert_eq!(place(&q.hold(1)), (Some(ms(29_900)), true, false, true, false));
    assert_eq!(place(&q.hold(2)), (Some(ms(29_900)), true, false, false, false));
    assert_eq!(place(&q.hold(1)), (Some(ms(29_900)), true, false, true, false), "a copy moves nothing");
    assert_eq!(world.queue(), [q.hold(1), q.hold(2)]);
    world.command(&["PERSIST", "stock"]);
    assert_eq!(place(&q.hold(1)).0, None, "a lease without an end is none");
}

#[test]
fn who_does_not_wait_takes_no_place_and_does_not_overtake() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 1);
    let z = world.process();
    assert!(matches!(world.try_acquire(&z.hold(1)), Acquired::Busy { left: Some(_), .. }));
    world.release(&holder, 0);
    world.heard(&waiters[0].id());
    assert!(matches!(world.try_acquire(&z.hold(1)), Acquired::Busy { left: None, .. }), "free, but not its turn");
    assert_eq!(world.heard(&waiters[0].id()), [waiters[0].hold(1)], "whose turn it is, is told again");
    assert_eq!(world.queue(), first(&waiters));
    assert!(!world.marks().contains_key(&format!("p:{}", z.id())), "who does not wait has no heartbeat");
    assert!(is_placed(&world.try_acquire(&waiters[0].hold(1))) || world.holder().is_some());
}

#[test]
fn last_try_of_a_placed_hold_says_that_its_place_is_there() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 1);
    assert!(is_placed(&world.try_acquire(&waiters[0].hold(1))), "whoever hears of it must give it up");
    assert_eq!(world.release(&waiters[0].hold(1), 0), -1);
    assert!(world.queue().is_empty());
}

#[test]
fn place_is_given_up_at_head_tail_and_middle() {
    for at in 0..5 {
        let world = World::embedded();
        let (holder, waiters) = queued(&world, 5);
        let gone = waiters[at].hold(1);
        assert_eq!(world.release(&gone, 0), -1, "it never held the lock");
        assert_eq!(world.acquire(&gone) == Acquired::Withdrawn, (1..4).contains(&at), "at {at}");
        if !(1..4).contains(&at) {
            world.release(&gone, 0);
        }
        assert_eq!(world.release(&gone, 0), -1, "a copy");
        world.assert_consistent();
        let mut last = holder;
        for waiter in waiters.iter().map(|waiter| waiter.hold(1)).filter(|waiter| *waiter != gone) {
            assert_eq!(world.release(&last, 0), 1);
            assert!(is_held(&world.acquire(&waiter)), "{at}: {waiter}");
            last = waiter;
        }
        assert_eq!(world.release(&last, 0), 1);
        assert!(world.queue().is_empty() && world.scores().is_empty());
        assert!(!world.marks().keys().any(|mark| mark.starts_with("a:")), "no arrival is left: {:?}", world.marks());
    }
}

#[test]
fn tombstones_are_never_the_tail() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 4);
    world.release(&waiters[1].hold(1), 0);
    world.release(&waiters[2].hold(1), 0);
    assert_eq!(world.queue().len(), 4, "they stay where they are");
    world.release(&waiters[3].hold(1), 0);
    assert_eq!(world.queue(), [waiters[0].hold(1)], "until they would be last");
    world.assert_consistent();
}

#[test]
fn many_tombstones_are_cleared_away() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 140);
    for waiter in &waiters[1..139] {
        world.release(&waiter.hold(1), 0);
    }
    let tombstones = world.scores().values().filter(|score| **score < 1e12).count();
    assert!(tombstones <= 70, "{tombstones} tombstones are left");
    world.assert_consistent();
    assert_eq!(world.queue().first(), Some(&waiters[0].hold(1)));
    assert_eq!(world.queue().last(), Some(&waiters[139].hold(1)));
}

#[test]
fn a_grant_that_nobody_wants_is_given_back() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    world.release(&holder, 0);
    assert!(is_held(&world.acquire(&waiters[0].hold(1))));
    world.heard(&waiters[1].id());
    assert_eq!(world.release(&waiters[0].hold(1), 0), 1);
    assert_eq!(world.heard(&waiters[1].id()), [waiters[1].hold(1)]);
}

#[test]
fn a_beat_keeps_the_places_of_all_holds_of_its_process() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 1);
    let process = waiters[0];
    world.acquire(&process.hold(2));
    world.acquire(&process.hold(3));
    for _ in 0..20 {
        world.advance(500);
        let Heartbeat::Calm(standing) = world.beat(process, Some(&process.hold(1))) else { panic!("nothing happened") };
        assert!(standing.head && !standing.foreign);
    }
    assert_eq!(world.queue(), [process.hold(1), process.hold(2), process.hold(3)]);
    world.release(&holder, 0);
    assert!(is_held(&world.acquire(&process.hold(1))));
}

#[test]
fn a_process_that_was_silent_has_lost_its_places_and_is_told() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 2);
    let (silent, living) = (waiters[0], waiters[1]);
    world.acquire(&silent.hold(2));
    for _ in 0..5 {
        world.advance(500);
        world.beat(living, Some(&living.hold(1)));
    }
    assert_eq!(world.queue()[0], living.hold(1), "the head was silent for longer than the window");
    assert!(matches!(world.beat(silent, Some(&silent.hold(1))), Heartbeat::Gone(standing) if !standing.head));
    // All of its waiters acquire again, in their order.
    for number in [1, 2] {
        let again = world.ask(&silent.hold(number), |ask| ask.placed = true);
        assert!(matches!(again, Acquired::Placed { moved, head: false, .. } if moved == (number == 1)), "{again:?}");
    }
    world.assert_consistent();
}

#[test]
fn a_process_that_comes_back_within_the_window_keeps_its_place() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 2);
    world.advance(1_900);
    world.beat(waiters[1], Some(&waiters[1].hold(1)));
    assert!(matches!(world.beat(waiters[0], Some(&waiters[0].hold(1))), Heartbeat::Calm(standing) if standing.head));
    assert_eq!(world.queue(), first(&waiters));
}

#[test]
fn a_free_lock_is_offered_for_the_time_of_a_claim() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    world.release(&holder, 0);
    for _ in 0..4 {
        world.advance(500);
        world.beat(waiters[1], Some(&waiters[1].hold(1)));
        // The first lives and knows that it is its turn, and does not take the lock.
        assert!(matches!(world.beat(waiters[0], None), Heartbeat::Yours { entry, .. } if entry == waiters[0].hold(1)));
    }
    world.heard(&waiters[1].id());
    world.advance(1);
    let Heartbeat::Yours { entry, standing } = world.beat(waiters[1], Some(&waiters[1].hold(1))) else {
        panic!("it is the next one's turn")
    };
    assert_eq!((entry, standing.head, standing.left), (waiters[1].hold(1).into(), true, None));
    let again = world.ask(&waiters[0].hold(1), |ask| ask.placed = true);
    assert!(matches!(again, Acquired::Placed { moved: true, head: false, .. }), "{again:?}");
    assert!(is_held(&world.acquire(&waiters[1].hold(1))));
}

#[test]
fn claim_begins_when_a_beat_tells_the_front_of_its_turn() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 2);
    // No waiter is told that the lock is free.
    world.command(&["DEL", "stock"]);
    assert!(matches!(world.beat(waiters[0], None), Heartbeat::Yours { .. }));
    for _ in 0..4 {
        world.advance(500);
        assert!(
            matches!(world.beat(waiters[0], None), Heartbeat::Yours { .. }),
            "it lives, and does not take the lock"
        );
        world.beat(waiters[1], Some(&waiters[1].hold(1)));
    }
    world.advance(1);
    let beat = world.beat(waiters[1], Some(&waiters[1].hold(1)));
    assert!(matches!(&beat, Heartbeat::Yours { entry, .. } if *entry == waiters[1].hold(1)), "{beat:?}");
}

#[test]
fn an_offer_begins_anew_when_the_lock_was_held_in_between() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    world.release(&holder, 0);
    // A client that does not know of the queue takes the lock.
    world.command(&["HSET", "stock", "plain:1", "1"]);
    world.command(&["PEXPIRE", "stock", "3000"]);
    for _ in 0..6 {
        world.advance(500);
        waiters.iter().for_each(|waiter| drop(world.beat(*waiter, Some(&waiter.hold(1)))));
    }
    world.advance(1);
    assert!(is_held(&world.acquire(&waiters[0].hold(1))), "the offer of 3 s ago does not count");
}

#[test]
fn a_process_that_does_not_know_the_hold_leaves_for_it() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    world.release(&holder, 0);
    let Heartbeat::Yours { entry, .. } = world.beat(waiters[0], None) else { panic!("it is the first one's turn") };
    world.heard(&waiters[1].id());
    assert_eq!(world.release(std::str::from_utf8(&entry).expect("text"), 0), 0);
    assert_eq!(world.heard(&waiters[1].id()), [waiters[1].hold(1)], "at once");
}

#[test]
fn only_head_and_tail_are_kept_fresh_in_a_queue_of_our_own() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 3);
    world.advance(1_000);
    waiters.iter().for_each(|waiter| drop(world.beat(*waiter, Some(&waiter.hold(1)))));
    let scores: Vec<_> = waiters.iter().map(|waiter| world.score(&waiter.hold(1))).collect();
    assert_eq!(scores, [3_000, 2_000, 3_000]);
}

#[test]
fn a_silent_tail_is_not_left_in_the_past() {
    let world = World::embedded();
    let (_, waiters) = queued(&world, 2);
    for _ in 0..10 {
        world.advance(500);
        world.beat(waiters[0], Some(&waiters[0].hold(1)));
    }
    assert_eq!(world.score(&waiters[1].hold(1)), 0);
}

#[test]
fn queue_lasts_for_half_of_its_time_after_every_sign_of_life() {
    for silent_tail in [false, true] {
        let world = World::embedded();
        let (_, processes) = queued(&world, 2);
        world.command(&["PERSIST", "stock"]);
        let living = if silent_tail { 1 } else { 2 };
        let mut extended = 0;
        let mut last = world.ttl("queue");
        for _ in 0..800 {
            world.advance(1_000);
            processes[..living].iter().for_each(|process| drop(world.beat(*process, Some(&process.hold(1)))));
            let ttl = world.ttl("queue");
            assert!(ttl > 300_000 && ttl <= 603_000, "{ttl}");
            assert_eq!(world.ttl("deadlines"), ttl, "list and scores end together");
            assert!(world.ttl("marks") > 290_000 && world.ttl("marks") <= 600_000, "{}", world.ttl("marks"));
            extended += u32::from(ttl > last);
            last = ttl;
        }
        assert!((2..=4).contains(&extended), "it is not extended by every command: {extended}");
    }
}

#[test]
fn queue_that_comes_anew_has_an_end_whatever_the_marks_say() {
    let world = World::embedded();
    let (holder, processes) = queued(&world, 1);
    let waiter = processes[0].hold(1);
    for takes_long_way in [false, true] {
        world.release(&waiter, 0);
        assert_eq!(world.ttl("queue"), -2, "nobody waits");
        if takes_long_way {
            // A mark of JVMs that are gone.
            world.command(&["HSET", &world.key("marks"), "f", "1"]);
        }
        assert!(is_placed(&world.acquire(&waiter)));
        assert!(world.ttl("queue") > 300_000 && world.ttl("queue") == world.ttl("deadlines"));
    }
    // The only entry is silent, so that the acquire empties the queue before it takes a place.
    let late = world.process();
    world.advance(2_500);
    assert!(is_placed(&world.acquire(&late.hold(1))));
    assert_eq!(world.queue(), [late.hold(1)]);
    assert!(world.ttl("queue") > 300_000 && world.ttl("queue") == world.ttl("deadlines"));
    assert_eq!(world.release(&holder, 0), 1);
}

#[test]
fn queue_ends_no_later_after_the_clock_was_put_back() {
    for silent_tail in [false, true] {
        let world = World::embedded();
        let (_, processes) = queued(&world, 2);
        let late = (world.now() + 5_000_000).to_string();
        for key in ["queue", "deadlines", "marks"] {
            world.command(&["PEXPIREAT", &world.key(key), &late]);
        }
        world.command(&["HSET", &world.key("marks"), "e", &late]);
        if silent_tail {
            world.command(&["HSET", &world.key("marks"), &format!("p:{}", processes[1].id()), "1"]);
        }
        world.beat(processes[0], Some(&processes[0].hold(1)));
        for key in ["queue", "deadlines", "marks"] {
            assert!(world.ttl(key) <= 603_000, "{key}: {}", world.ttl(key));
        }
    }
}

#[test]
fn release_tells_the_first_that_waits_whatever_stands_before_it() {
    let score = |world: &World, entry: &str, score: &str| {
        drop(world.command(&["ZADD", &world.key("deadlines"), score, entry]));
    };
    for case in 0..4 {
        let world = World::embedded();
        let (holder, processes) = queued(&world, 3);
        let [first, second, _] = [0, 1, 2].map(|at| processes[at].hold(1));
        match case {
            0 => score(&world, &first, "1"),
            1 => drop(world.command(&["HSET", &world.key("marks"), &format!("p:{}", processes[0].id()), "1"])),
            2 => {
                let long_ago = (world.now() - 2_500).to_string();
                drop(world.command(&["HSET", &world.key("marks"), "o", &first, "ot", &long_ago]));
            }
            _ => {}
        }
        assert_eq!(world.release(&holder, 0), 1);
        let told = if matches!(case, 0..=2) { &second } else { &first };
        let told_process = told.rsplit_once(':').expect("an entry").0;
        assert_eq!(world.heard(told_process), std::slice::from_ref(told), "case {case}");
        assert_eq!(world.marks()["o"], *told, "case {case}");
        assert!(is_held(&world.acquire(told)), "case {case}");
    }
}

#[test]
fn heartbeats_of_silent_processes_go_when_nobody_waits() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 3);
    for waiter in &waiters {
        world.release(&waiter.hold(1), 0);
    }
    let beats = || world.marks().keys().filter(|mark| mark.starts_with("p:")).count();
    assert_eq!(beats(), 4);
    world.advance(2_500);
    let last = world.process();
    world.acquire(&last.hold(1));
    world.release(&last.hold(1), 0);
    world.release(&holder, 0);
    world.acquire(&last.hold(2));
    assert_eq!(
        world.marks().keys().filter(|mark| mark.starts_with("p:")).collect::<Vec<_>>(),
        [&format!("p:{}", last.id())]
    );
}

#[test]
fn an_inspection_tells_who_waits_since_when_and_who_lives() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    world.advance(1_500);
    world.beat(waiters[1], None);
    let z = world.process();
    world.acquire(&z.hold(1));
    world.acquire(&z.hold(2));
    world.release(&z.hold(1), 0);
    world.advance(1_000);
    let before = (world.queue(), world.scores(), world.marks());
    let (Some(seen), lined) = world.inspect() else { panic!("it is held") };
    assert_eq!((seen.holder, seen.count, seen.left), (holder, 1, Some(ms(27_500))));
    let expected = [(waiters[0].hold(1), 2_500, false), (waiters[1].hold(1), 2_500, true), (z.hold(2), 1_000, true)];
    let expected = expected.map(|(waiter, age, alive)| Waiter { waiter, age: Some(ms(age)), alive });
    assert_eq!(lined, expected);
    assert_eq!((world.queue(), world.scores(), world.marks()), before, "it changes nothing");
}

#[test]
fn holder_is_foreign_unless_our_command_granted_it() {
    let world = World::embedded();
    let (p, q) = (world.process(), world.process());
    assert!(is_held(&world.try_acquire(&p.hold(1))));
    let foreign = |entry: &str| match world.acquire(entry) {
        Acquired::Placed { foreign, .. } => foreign,
        other => panic!("{other:?}"),
    };
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.advance(60_000);
    assert!(!foreign(&q.hold(1)), "it has no heartbeat, and is ours");
    world.command(&["DEL", "stock"]);
    world.command(&["HSET", "stock", "0a0b:21", "1"]);
    assert!(foreign(&q.hold(1)));
    assert!(matches!(world.beat(q, None), Heartbeat::Calm(standing) if standing.foreign));
}

#[test]
fn force_release_of_another_holder_changes_nothing_and_tells_nobody() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 1);
    let before = (world.holder(), world.queue(), world.scores(), world.marks());
    let seen_earlier = world.process().hold(7);
    assert_eq!(world.force_release(&seen_earlier), ForceReleased::Other);
    assert_eq!((world.holder(), world.queue(), world.scores(), world.marks()), before);
    assert_eq!(world.heard(&waiters[0].id()), [""; 0]);
    assert_eq!(world.force_release(&holder), ForceReleased::Ended);
    assert_eq!(world.heard(&waiters[0].id()), [waiters[0].hold(1)]);
}

#[test]
fn force_release_of_a_lock_that_ran_out_offers_it_to_the_head() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    drop(world.command(&["DEL", "stock"]));
    assert_eq!(world.force_release(&holder), ForceReleased::Absent);
    assert_eq!(world.heard(&waiters[0].id()), [waiters[0].hold(1)], "no release has told it");
    assert_eq!(world.heard(&waiters[1].id()), [""; 0]);
    assert!(is_placed(&world.acquire(&waiters[1].hold(1))), "it is not its turn");
    assert!(is_held(&world.acquire(&waiters[0].hold(1))));
}

#[test]
fn beat_with_a_front_that_was_granted_meanwhile_is_calm() {
    let world = World::embedded();
    let (holder, waiters) = queued(&world, 2);
    assert_eq!(world.release(&holder, 0), 1);
    let front = waiters[0].hold(1);
    assert!(is_held(&world.acquire(&front)));
    // Its process has not read the grant yet, and asks as if the hold were still in the queue.
    assert!(matches!(world.beat(waiters[0], Some(&front)), Heartbeat::Calm(_)));
    assert_eq!(world.queue(), [waiters[1].hold(1)]);
    assert_eq!(world.holder(), Some((front, 1)));
}
