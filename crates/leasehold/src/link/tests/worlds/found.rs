//! Bugs found by the worlds, step by step.

use super::super::*;
use super::driver;
use super::plan::{Disturbance, Plan};
use super::servers::Servers;
use super::trace::{Event, Trace};

/// Number of accepted subscriptions.
fn subscriptions(trace: &Trace) -> usize {
    trace.lines().iter().filter(|line| matches!(line.event, Event::Listens { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn subscription_follows_a_slot_that_moves_meanwhile() {
    const LOCK: usize = 3;
    let plan =
        Plan { steps: Vec::new(), cluster: true, sharded: true, kill_forbidden: false, batch_from: None, seed: 0 };
    let trace = Trace::new();
    let servers = Servers::start(&plan, &trace);
    let link = driver::connect(&plan, &servers, None).await;
    let messages = Messages::of(&link);
    let channel = driver::channel(LOCK);
    // From here on the connection exists, so a single poll sends.
    link.subscribe(channel.clone()).await.expect("a subscription");
    link.unsubscribe(channel.clone()).await.expect("the end of it");
    let before = subscriptions(&trace);
    let mut subscribing = pin!(link.subscribe(channel.clone()));
    begin(subscribing.as_mut());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(subscriptions(&trace) > before, "the node has the subscription");
    // The slot starts to move, its keys move, and the move ends. The node drops the subscription, and a call learns of
    // it.
    (0..3).for_each(|_| servers.disturb(Disturbance::MoveSlot(LOCK)));
    let lock = String::from_utf8_lossy(&driver::lock(LOCK)).into_owned();
    while link.call(inspect(&lock)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    subscribing.await.expect("a subscription");
    servers.state.lock().publish(&String::from_utf8_lossy(&channel));
    let told = loop {
        match messages.next(&link).await {
            Some(told @ (LinkEvent::Notice { .. } | LinkEvent::NoticesReset)) => break told,
            Some(_) => {}
            None => panic!("the link is open"),
        }
    };
    assert!(matches!(told, LinkEvent::Notice { .. }), "{told:?}");
}
