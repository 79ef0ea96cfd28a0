//! Faults that users of other fair locks have met, each named after its entry in the list of field bugs.

use super::jvm::Jvm;
use super::world::{Process, World, is_held, is_placed};
use leasehold_core::command::fair::Heartbeat;
use leasehold_core::command::lock::ForceReleased;

fn live(world: &World, millis: u64, processes: &[Process]) {
    for _ in 0..millis / 500 {
        world.advance(500);
        processes.iter().for_each(|process| drop(world.beat(*process, Some(&process.hold(1)))));
    }
}

#[test]
fn f1_dead_heads_cost_one_window_whatever_their_number() {
    for dead in [1, 7, 300] {
        let world = World::embedded();
        let (holder, last) = (world.process(), world.process());
        world.acquire(&holder.hold(1));
        for _ in 0..dead {
            world.acquire(&world.process().hold(1));
        }
        world.acquire(&last.hold(1));
        world.release(&holder.hold(1), 0);
        live(&world, 2_000, &[last]);
        assert!(is_placed(&world.acquire(&last.hold(1))), "within the window they may come back");
        live(&world, 500, &[last]);
        assert!(is_held(&world.acquire(&last.hold(1))), "{dead} dead in front");
    }
}

#[test]
fn f2_a_crashed_holder_costs_its_lease() {
    for by_hand in [false, true] {
        let world = World::embedded();
        let (holder, ours) = (world.process(), world.process());
        world.ask(&holder.hold(1), |ask| ask.lease = crate::support::ms(2_000));
        world.acquire(&ours.hold(1));
        if by_hand {
            world.command(&["DEL", "stock"]);
            assert!(matches!(world.beat(ours, Some(&ours.hold(1))), Heartbeat::Yours { .. }), "a beat finds out");
        } else {
            // The timer of the head's own process.
            world.advance(2_001);
        }
        assert!(is_held(&world.acquire(&ours.hold(1))));
    }
}

#[test]
fn f4_scores_do_not_drift() {
    let world = World::embedded();
    let contenders = [(); 5].map(|()| world.process());
    let mut random = fastrand::Rng::with_seed(4);
    for round in 0..1_000 {
        for contender in contenders {
            world.acquire(&contender.hold(round));
        }
        world.advance(random.u64(1..300));
        for contender in random.choose_multiple(contenders.iter(), 5) {
            world.release(&contender.hold(round), 0);
        }
        let now = world.now() as f64;
        assert!(world.scores().values().all(|score| score - now <= 3_000.0), "round {round}: {:?}", world.scores());
    }
    assert!(world.queue().is_empty() && world.scores().is_empty());
}

#[test]
fn f5_a_waiter_that_left_is_not_waited_for() {
    let world = World::embedded();
    let (holder, b, c) = (world.process(), world.process(), world.process());
    world.acquire(&holder.hold(1));
    world.acquire(&b.hold(1));
    world.release(&b.hold(1), 0);
    assert!(world.queue().is_empty(), "it gave up");
    world.acquire(&b.hold(2));
    world.acquire(&c.hold(1));
    // The command by which it leaves is lost, and its process lives on and knows nothing of it.
    world.release(&holder.hold(1), 0);
    let Heartbeat::Yours { entry, .. } = world.beat(b, None) else { panic!("it is told what it does not know") };
    world.release(std::str::from_utf8(&entry).expect("text"), 0);
    assert!(is_held(&world.acquire(&c.hold(1))));
}

#[test]
fn f6_no_script_fails_where_list_and_scores_disagree() {
    for lost in ["queue", "deadlines", "marks"] {
        for jvm in [false, true] {
            let world = World::embedded();
            let (holder, ours) = (world.process(), world.process());
            world.acquire(&holder.hold(1));
            world.acquire(&ours.hold(1));
            let jvm = jvm.then(|| Jvm::new(1, 5_000));
            if let Some(jvm) = &jvm {
                jvm.acquire(&world, 30_000);
            }
            world.command(&["DEL", &world.key(lost)]);
            let steps: [&dyn Fn(); 5] = [
                &|| drop(world.inspect()),
                &|| drop(world.beat(ours, Some(&ours.hold(1)))),
                &|| drop(world.acquire(&ours.hold(2))),
                &|| assert_eq!(world.force_release(&holder.hold(1)), ForceReleased::Ended),
                &|| assert!(world.release(&ours.hold(2), 0) < 1),
            ];
            for step in steps {
                step();
            }
            world.assert_consistent();
        }
    }
}

#[test]
fn f7_clocks_of_clients_do_not_matter() {
    // None of our commands takes a time; a limit is in the server's own. A JVM's clock may be ahead by the skew.
    let world = World::embedded();
    let (holder, ours) = (world.process(), world.process());
    world.acquire(&holder.hold(1));
    world.acquire(&ours.hold(1));
    let fast = Jvm { ahead: 999, ..Jvm::new(1, 5_000) };
    for _ in 0..20 {
        world.advance(500);
        fast.acquire(&world, 30_000);
        world.beat(ours, None);
        assert_eq!(world.queue()[0], ours.hold(1));
    }
    world.advance(2_000);
    fast.acquire(&world, 30_000);
    assert_eq!(world.queue()[0], ours.hold(1), "even after the longest silence that is allowed");
}

#[test]
fn f8_release_of_an_expired_lock_fails_and_wakes_the_head() {
    let world = World::embedded();
    let (holder, ours) = (world.process(), world.process());
    world.ask(&holder.hold(1), |ask| ask.lease = crate::support::ms(1_000));
    world.acquire(&ours.hold(1));
    world.advance(1_001);
    assert_eq!(world.release(&holder.hold(1), 0), 0);
    assert_eq!(world.heard(&ours.id()), [ours.hold(1)]);
    assert_eq!(world.release(&holder.hold(1), 1), 0, "a partial release as well");
    assert_eq!(world.heard(&ours.id()), [ours.hold(1)]);
}

#[test]
fn f10_nobody_barges_in_but_the_dead_do_not_count() {
    let world = World::embedded();
    let (holder, ours, z) = (world.process(), world.process(), world.process());
    world.acquire(&holder.hold(1));
    world.acquire(&ours.hold(1));
    world.release(&holder.hold(1), 0);
    assert!(!is_held(&world.try_acquire(&z.hold(1))));
    world.advance(2_001);
    assert!(is_held(&world.try_acquire(&z.hold(2))), "everybody in the queue is dead");
}

#[test]
fn f11_everything_expires() {
    let world = World::embedded();
    let (holder, ours) = (world.process(), world.process());
    world.acquire(&holder.hold(1));
    world.acquire(&ours.hold(1));
    world.acquire(&ours.hold(2));
    world.release(&ours.hold(2), 0);
    world.advance(620_000);
    assert_eq!(world.command(&["KEYS", "*"]), leasehold_core::reply::Reply::Array(Vec::new()));

    // Beside a JVM: its keys are Redisson's own, and ours goes.
    world.acquire(&holder.hold(2));
    Jvm::new(1, 5_000).acquire(&world, 30_000);
    world.acquire(&ours.hold(3));
    world.advance(620_000);
    assert!(world.marks().is_empty());
}
