//! JVMs in the same queue.

use super::jvm::Jvm;
use super::world::{Process, World, is_held, is_placed};
use crate::support::ms;
use leasehold_core::command::Acquired;
use leasehold_core::command::fair::Heartbeat;
use leasehold_core::link::ServerError;
use leasehold_embedded::{RefusalEffect, RefuseAt};

/// A lock held by one of ours for 30 s.
fn held() -> (World, String) {
    let world = World::embedded();
    let holder = world.process().hold(1);
    assert!(is_held(&world.acquire(&holder)));
    (world, holder)
}

/// Lets time pass, with the beats of these processes.
fn live(world: &World, millis: u64, processes: &[Process]) {
    for _ in 0..millis / 500 {
        world.advance(500);
        processes.iter().for_each(|process| drop(world.beat(*process, None)));
    }
}

#[test]
fn the_model_of_a_jvm_does_what_was_measured() {
    // The worked example of the facts: leases of 30 s, waits of 5 s.
    let world = World::embedded();
    let [a, b, c, d] = [1, 2, 3, 4].map(|number| Jvm::new(number, 5_000));
    assert_eq!(a.acquire(&world, 30_000), None);
    assert_eq!([&b, &c, &d].map(|jvm| jvm.acquire(&world, 30_000)), [Some(30_000), Some(35_000), Some(40_000)]);
    assert_eq!(world.score(&d.entry), 45_000);
    assert_eq!(b.acquire(&world, 30_000), Some(30_000));
    c.give_up(&world, 5_000);
    assert_eq!(world.score(&d.entry), 40_000);
    assert!(a.unlock(&world, 30_000));
    assert_eq!(world.heard(&b.entry), ["0"]);
    assert_eq!(b.acquire(&world, 30_000), None);
    assert_eq!(world.score(&d.entry), 35_000);
}

#[test]
fn turns_come_in_the_order_of_arrival_whoever_it_is() {
    let (world, holder) = held();
    let (jvm, ours) = (Jvm::new(1, 5_000), world.process());
    jvm.acquire(&world, 30_000);
    let placed = world.acquire(&ours.hold(1));
    assert!(matches!(placed, Acquired::Placed { foreign: true, head: false, .. }), "{placed:?}");
    let second = Jvm::new(2, 5_000);
    second.acquire(&world, 30_000);
    world.release(&holder, 0);
    assert_eq!(world.heard(&jvm.entry), ["0"], "a JVM is told in its own way");
    assert!(is_placed(&world.acquire(&ours.hold(1))), "not its turn");
    assert_eq!(jvm.acquire(&world, 30_000), None);
    assert!(jvm.unlock(&world, 30_000));
    assert_eq!(world.heard(&ours.hold(1)), ["0"], "a JVM tells the head in its own way too");
    assert_eq!(second.acquire(&world, 30_000), Some(0));
    assert!(is_held(&world.acquire(&ours.hold(1))));
    world.release(&ours.hold(1), 0);
    assert_eq!(world.heard(&second.entry), ["0"]);
    assert_eq!(second.acquire(&world, 30_000), None);
}

#[test]
fn a_grant_or_farewell_of_ours_changes_nobody_elses_score() {
    let (world, holder) = held();
    let ours = [(); 3].map(|()| world.process());
    let jvm = Jvm::new(1, 5_000);
    world.acquire(&ours[0].hold(1));
    world.acquire(&ours[1].hold(1));
    jvm.acquire(&world, 30_000);
    world.acquire(&ours[2].hold(1));
    let score = world.score(&jvm.entry);
    world.release(&ours[1].hold(1), 0);
    world.release(&holder, 0);
    assert!(is_held(&world.acquire(&ours[0].hold(1))));
    assert_eq!(world.score(&jvm.entry), score);
}

#[test]
fn a_jvm_behind_ours_does_not_inherit_a_long_deadline() {
    let (world, _) = held();
    let ours = world.process();
    world.acquire(&ours.hold(1));
    let jvm = Jvm::new(1, 5_000);
    assert_eq!(jvm.acquire(&world, 30_000), Some(3_000), "it sleeps until the tail would be evicted");
    assert_eq!(world.score(&jvm.entry), 8_000);
}

#[test]
fn ours_behind_a_jvm_survives_its_grant() {
    let (world, holder) = held();
    let jvm = Jvm::new(1, 300_000);
    let (ours, last) = (world.process(), Jvm::new(2, 5_000));
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    live(&world, 1_000, &[ours]);
    world.release(&holder, 0);
    assert_eq!(jvm.acquire(&world, 30_000), None, "it takes its wait off everybody's score");
    assert!(world.score(&ours.hold(1)) > 2_000, "{}", world.score(&ours.hold(1)));
    last.acquire(&world, 30_000);
    assert_eq!(world.queue(), [ours.hold(1), last.entry.clone()], "a JVM's command evicts nobody of ours");
}

#[test]
fn ours_behind_a_jvm_survives_its_farewell_with_another_wait() {
    let (world, _) = held();
    let (jvm, ours, other) = (Jvm::new(1, 1_000), world.process(), Jvm::new(2, 1_000));
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    live(&world, 500, &[ours]);
    jvm.give_up(&world, 300_000);
    other.acquire(&world, 30_000);
    assert_eq!(world.queue()[0], ours.hold(1));
}

#[test]
fn ours_behind_a_jvm_that_came_back_survives_its_grant() {
    let (mut world, holder) = held();
    world.settings.fair.max_wait = ms(5_000);
    let (back, other) = (Jvm::new(1, 5_000), Jvm::new(2, 5_000));
    let [first, last] = [(); 2].map(|()| world.process());
    world.acquire(&first.hold(1));
    back.acquire(&world, 30_000);
    world.beat(first, None);
    assert!(world.marks().contains_key(&format!("w:{}", back.entry)));
    back.give_up(&world, 5_000);
    // What was noted of it is of the place that it had before, and the next walk is not due yet.
    other.acquire(&world, 30_000);
    back.acquire(&world, 30_000);
    assert!(is_placed(&world.acquire(&last.hold(1))));
    world.release(&holder, 0);
    assert!(is_held(&world.acquire(&first.hold(1))));
    world.release(&first.hold(1), 0);
    for jvm in [&other, &back] {
        assert_eq!(jvm.acquire(&world, 30_000), None);
        assert!(jvm.unlock(&world, 30_000));
    }
    assert_eq!(world.queue(), [last.hold(1)]);
}

#[test]
fn scores_of_ours_stay_bounded_and_come_down_again() {
    let (world, _) = held();
    let (jvm, ours) = (Jvm::new(1, 300_000), world.process());
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    for _ in 0..20 {
        live(&world, 1_000, &[ours]);
        // The first JVM has no other in front, so that the holder's lease is taken for a part of its wait.
        assert!((333_000..334_100).contains(&world.score(&ours.hold(1))), "{}", world.score(&ours.hold(1)));
    }
    jvm.give_up(&world, 300_000);
    live(&world, 1_000, &[ours]);
    assert_eq!(world.score(&ours.hold(1)), 3_000);
}

#[test]
fn jvm_deadline_is_lowered_once_and_never_raised() {
    let (world, _) = held();
    let (first, second, ours) = (Jvm::new(1, 5_000), Jvm::new(2, 7_000), world.process());
    first.acquire(&world, 30_000);
    second.acquire(&world, 30_000);
    // As if the tail had been far ahead.
    world.command(&["ZINCRBY", &world.key("deadlines"), "100000", &second.entry]);
    world.acquire(&ours.hold(1));
    assert_eq!(world.score(&first.entry), 35_000, "inside what it may have");
    let due = 30_000 + 300_000 + 107_000 + 3_000;
    assert!(world.score(&second.entry) <= due);
    let before = world.scores()[&second.entry];
    live(&world, 2_000, &[ours]);
    assert_eq!(world.scores()[&second.entry], before, "once");
}

#[test]
fn the_wait_of_a_jvm_is_seen_from_the_entry_in_front() {
    let (world, _) = held();
    let (first, second, ours) = (Jvm::new(1, 5_000), Jvm::new(2, 7_000), world.process());
    first.acquire(&world, 30_000);
    second.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    let wait = |jvm: &Jvm| world.marks()[&format!("w:{}", jvm.entry)].split(' ').next().map(str::to_owned);
    assert_eq!(wait(&first).as_deref(), Some("300000"), "the first has nobody in front: the cap");
    assert_eq!(wait(&second).as_deref(), Some("7000"));
    // It leaves and comes back with another wait.
    second.give_up(&world, 7_000);
    let again = Jvm { wait: 20_000, ..second.clone() };
    again.acquire(&world, 30_000);
    live(&world, 500, &[ours]);
    assert_eq!(wait(&again).as_deref(), Some("20000"));
    again.give_up(&world, 20_000);
    live(&world, 500, &[ours]);
    assert!(!world.marks().contains_key(&format!("w:{}", again.entry)), "who is gone is forgotten");
}

#[test]
fn what_is_noted_of_jvms_goes_with_the_last_of_them() {
    let (world, holder) = held();
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    let ours = world.process();
    world.acquire(&ours.hold(1));
    let noted =
        |world: &World| world.marks().keys().filter(|mark| !mark.starts_with("p:") && mark.contains(':')).count();
    assert!(noted(&world) > 0);
    // It leaves by its own commands, and there is no other pass over the queue.
    jvm.give_up(&world, 5_000);
    world.release(&ours.hold(1), 0);
    world.release(&holder, 0);
    for _ in 0..2 {
        world.advance(2_500);
        let hold = world.process().hold(1);
        assert!(is_held(&world.acquire(&hold)));
        world.release(&hold, 0);
    }
    assert_eq!(noted(&world), 0, "{:?}", world.marks());
}

#[test]
fn a_jvm_that_is_overdue_while_the_lock_is_held_stays() {
    let (world, _) = held();
    let (jvm, ours) = (Jvm::new(1, 1_000), world.process());
    jvm.acquire(&world, 30_000);
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.acquire(&ours.hold(1));
    live(&world, 60_000, &[ours]);
    assert!(world.score(&jvm.entry) < -20_000);
    assert_eq!(world.queue()[0], jvm.entry);
}

#[test]
fn overdue_listening_jvm_gets_a_second_chance_and_no_third() {
    let (world, holder) = held();
    let (jvm, ours) = (Jvm::new(1, 1_000), world.process());
    jvm.acquire(&world, 30_000);
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.acquire(&ours.hold(1));
    live(&world, 60_000, &[ours]);
    world.release(&holder, 0);
    assert_eq!(world.heard(&jvm.entry), ["0"], "told once, and not twice");
    assert_eq!(world.score(&jvm.entry), 2_000);
    live(&world, 2_500, &[ours]);
    assert_eq!(world.queue()[0], jvm.entry, "its clock may be behind");
    live(&world, 500, &[ours]);
    assert_eq!(world.queue(), [ours.hold(1)]);
    assert!(is_held(&world.acquire(&ours.hold(1))));

    let (world, holder) = held();
    let ours = world.process();
    jvm.acquire(&world, 30_000);
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.acquire(&ours.hold(1));
    live(&world, 60_000, &[ours]);
    world.release(&holder, 0);
    live(&world, 1_500, &[ours]);
    assert_eq!(jvm.acquire(&world, 30_000), None, "and one that comes gets in");
    assert!(!world.marks().contains_key(&format!("c:{}", jvm.entry)) || world.marks().contains_key("f"));
}

#[test]
fn an_overdue_jvm_that_does_not_listen_goes() {
    let (mut world, holder) = held();
    world.settings.publish = "PUBLISH".into();
    let (jvm, ours) = (Jvm::new(1, 1_000), world.process());
    jvm.acquire(&world, 30_000);
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.acquire(&ours.hold(1));
    live(&world, 60_000, &[ours]);
    world.release(&holder, 0);
    assert_eq!(world.queue(), [ours.hold(1)]);
}

#[test]
fn no_tombstone_is_left_where_a_jvm_could_inherit_it() {
    let (world, _) = held();
    let ours = [(); 4].map(|()| world.process());
    ours.iter().for_each(|process| drop(world.acquire(&process.hold(1))));
    world.release(&ours[1].hold(1), 0);
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    // This walks, so that the next command does not.
    world.beat(ours[0], None);
    world.release(&ours[2].hold(1), 0);
    assert!(!world.scores().values().any(|score| *score < 1e12), "{:?}", world.scores());
    assert_eq!(world.queue(), [ours[0].hold(1), ours[3].hold(1), jvm.entry.clone()]);
    assert!(!world.marks().contains_key(&format!("a:{}", ours[1].hold(1))));
}

#[test]
fn a_jvm_hidden_in_the_middle_is_not_forgotten() {
    let (world, _) = held();
    let ours = [(); 3].map(|()| world.process());
    world.acquire(&ours[0].hold(1));
    let jvm = Jvm::new(1, 5_000);
    jvm.acquire(&world, 30_000);
    world.acquire(&ours[1].hold(1));
    world.acquire(&ours[2].hold(1));
    assert_eq!(world.marks()["f"], "1");
    assert!(world.score(&ours[2].hold(1)) > 303_000, "the tail is guarded from its arrival on");
    assert_eq!(world.ttl("queue"), -1, "the keys are Redisson's own while a JVM waits");
    jvm.give_up(&world, 5_000);
    live(&world, 500, &ours);
    assert!(!world.marks().contains_key("f"));
    assert!(world.ttl("queue") > 0 && world.ttl("queue") == world.ttl("deadlines"));
}

#[test]
fn walks_are_made_no_more_often_than_their_gap() {
    let (world, _) = held();
    let (jvm, ours) = (Jvm::new(1, 5_000), world.process());
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    let walked = || world.marks()["k"].parse::<i64>().expect("a time");
    let first = walked();
    world.advance(100);
    world.acquire(&ours.hold(2));
    world.beat(ours, None);
    assert_eq!(walked(), first, "100 ms later");
    let late = Jvm::new(2, 5_000);
    late.acquire(&world, 30_000);
    world.acquire(&ours.hold(3));
    assert_eq!(walked(), first + 100, "a JVM that was not seen before is looked at by the next arrival");
    world.advance(250);
    world.beat(ours, None);
    assert_eq!(walked(), first + 350);
}

#[test]
fn a_jvm_learns_of_an_expiry_from_a_beat_of_ours() {
    let (world, _) = held();
    let (jvm, ours) = (Jvm::new(1, 300_000), world.process());
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    live(&world, 29_500, &[ours]);
    assert_eq!(world.heard(&jvm.entry), [""; 0]);
    live(&world, 1_000, &[ours]);
    assert_eq!(world.heard(&jvm.entry).first().map(String::as_str), Some("0"));
    assert_eq!(jvm.acquire(&world, 30_000), None);
}

#[test]
fn a_jvm_that_does_not_wait_does_not_overtake_ours() {
    let (world, holder) = held();
    let ours = world.process();
    world.acquire(&ours.hold(1));
    let jvm = Jvm::new(1, 5_000);
    world.release(&holder, 0);
    assert!(!jvm.try_acquire(&world, 30_000));
    assert!(is_held(&world.acquire(&ours.hold(1))));
    jvm.force_unlock(&world);
    assert_eq!(world.holder(), None);
    assert!(jvm.try_acquire(&world, 30_000));
}

#[test]
fn dead_waiters_are_walked_over_to_a_jvm_behind_them() {
    let (world, holder) = held();
    let (dead, ours) = (world.process(), world.process());
    world.acquire(&dead.hold(1));
    let jvm = Jvm::new(1, 60_000);
    jvm.acquire(&world, 30_000);
    world.acquire(&ours.hold(1));
    live(&world, 3_000, &[ours]);
    assert_eq!(world.queue(), [jvm.entry.clone(), ours.hold(1)]);
    world.release(&holder, 0);
    assert_eq!(jvm.acquire(&world, 30_000), None);
}

#[test]
fn an_inspection_knows_jvms() {
    let (world, _) = held();
    let jvm = Jvm::new(1, 1_000);
    jvm.acquire(&world, 30_000);
    let (_, waiters) = world.inspect();
    assert_eq!((&waiters[0].waiter, waiters[0].age, waiters[0].alive), (&jvm.entry, None, true));
    world.command(&["PEXPIRE", "stock", "90000"]);
    world.advance(60_000);
    let (_, waiters) = world.inspect();
    assert!(!waiters[0].alive, "its deadline has passed");
}

#[test]
fn a_front_that_a_jvm_evicted_is_gone() {
    let (world, _) = held();
    let ours = world.process();
    world.acquire(&ours.hold(1));
    world.advance(10_000);
    // There was no beat for ten seconds, and a JVM came by.
    Jvm::new(1, 5_000).acquire(&world, 30_000);
    let Heartbeat::Gone(standing) = world.beat(ours, Some(&ours.hold(1))) else { panic!("its place is gone") };
    assert!(standing.foreign && !standing.head);
}

/// A place that is refused in the middle of its script can leave a score without an entry. A JVM that comes then stands in the middle once
/// the queue is mended, and its grant takes its wait off the scores of those behind it.
#[test]
fn a_refused_place_hides_no_jvm_that_came_behind_it() {
    for at in 1.. {
        let world = World::embedded();
        let (holder, processes) = (world.process(), [(); 3].map(|()| world.process()));
        let [first, refused, last] = processes.map(|process| process.hold(1));
        assert!(is_held(&world.acquire(&holder.hold(1))) && is_placed(&world.acquire(&first)));
        let denied = ServerError::new("ERR ACL failure in script: User app has no permissions to run a command");
        let (_, met) =
            world.server().execute_refused(&world.acquire_call(&refused, |_| {}), RefuseAt::Call(at), denied);
        let jvm = Jvm::new(1, 5_000);
        jvm.acquire(&world, 30_000);
        assert!(is_placed(&world.acquire(&last)), "it has its place");
        live(&world, 1_000, &processes);
        world.release(&holder.hold(1), 0);
        while let Some(head) = world.queue().first().filter(|head| **head != jvm.entry) {
            let head = head.clone();
            assert!(is_held(&world.acquire(&head)));
            world.release(&head, 0);
        }
        assert_eq!(jvm.acquire(&world, 30_000), None);
        assert!(jvm.unlock(&world, 30_000));
        assert!(world.queue().contains(&last), "refused at {at}: {met:?}: the JVM took out who stood behind it");
        if met == RefusalEffect::Nothing {
            break;
        }
    }
}
