//! The findings of the worlds, each step by step.

use super::super::*;
use super::driver;
use super::plan::{Disturbance, Plan};
use super::servers::Servers;
use super::trace::{Event, Trace};
use leasehold_test_support::until;

/// How often a server has taken a subscription.
fn subscriptions(trace: &Trace) -> usize {
    trace.lines().iter().filter(|line| matches!(line.event, Event::Listens { .. })).count()
}

#[test]
fn subscription_follows_a_slot_that_moves_meanwhile() {
    const LOCK: usize = 3;
    let plan = Plan { steps: Vec::new(), cluster: true, sharded: true, kill_forbidden: false, batching: None, seed: 0 };
    let trace = Trace::new();
    let servers = Servers::start(&plan, &trace);
    // No timeout ends the subscription before the slot moves, also on a busy machine.
    let world = driver::world(&plan, &servers, driver::SLACK);
    let channel = driver::channel(LOCK);
    // From here on there is a connection for it, so that what is polled once is sent.
    world.block_on(world.link.subscribe(channel.clone())).expect("a subscription");
    world.block_on(world.link.unsubscribe(channel.clone())).expect("the end of it");
    let before = subscriptions(&trace);
    let mut subscribing = pin!(world.link.subscribe(channel.clone()));
    // The confirmation comes after the first poll, and there is no other one until the end.
    let late = Instant::now() + 2 * driver::SLACK;
    servers.state.lock().peers.values_mut().for_each(|peer| peer.replies_from = late);
    begin(subscribing.as_mut());
    servers.set_calm(true);
    until("the node has the subscription", || subscriptions(&trace) > before);
    // It begins to move, its keys are there, and it has moved: the node forgets the subscription, and a call learns of it.
    (0..3).for_each(|_| servers.disturb(Disturbance::MoveSlot(LOCK)));
    let lock = String::from_utf8_lossy(&driver::lock(LOCK)).into_owned();
    world.call_until_answered(Plane::Foreground, &inspect(&lock));
    world.block_on(subscribing).expect("a subscription");
    servers.state.lock().publish(&String::from_utf8_lossy(&channel));
    let told = world.wait_for_one_of(&[LinkEvent::Notice { channel }, LinkEvent::NoticesReset]);
    assert!(matches!(told, LinkEvent::Notice { .. }), "{told:?}");
}
