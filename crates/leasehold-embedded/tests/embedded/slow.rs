//! Replies that take time.

use crate::support::{call, command, poll, server, show_result};
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent};
use leasehold_core::script::{ACQUIRE, RELEASE};
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedLink, EmbeddedServer, Fault, FaultTarget, ManualClock, ServerClock};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server that is 10 ms away, there and back.
fn slow() -> (EmbeddedServer, EmbeddedLink, ManualClock) {
    let (server, clock) = server();
    server.set_round_trip(ms(10));
    let link = server.link();
    (server, link, clock)
}

fn acquire() -> Call {
    call(&ACQUIRE, "k", "me:1 1 1000 -1")
}

fn count(server: &EmbeddedServer) -> String {
    command(server, "HGET k me:1")
}

fn event(link: &EmbeddedLink) -> Option<LinkEvent> {
    match poll(pin!(link.event())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

#[test]
fn call_takes_half_a_round_trip_and_its_reply_the_rest() {
    let (server, link, clock) = slow();
    let mut sent = pin!(link.call(acquire()));
    assert!(poll(sent.as_mut()).is_pending());
    clock.advance(Duration::from_micros(4_999));
    assert_eq!(count(&server), "nil");
    clock.advance(Duration::from_micros(1));
    assert_eq!(count(&server), "\"1\"");
    clock.advance(Duration::from_micros(4_999));
    assert!(poll(sent.as_mut()).is_pending());
    clock.advance(Duration::from_micros(1));
    let Poll::Ready(reply) = poll(sent) else { panic!("a reply after 10 ms") };
    assert_eq!(show_result(&reply), "[1, 1000, 0]");
}

#[test]
fn one_step_of_the_clock_goes_all_the_way() {
    let (server, link, clock) = slow();
    let mut sent = pin!(link.call(acquire()));
    assert!(poll(sent.as_mut()).is_pending());
    clock.advance(ms(10));
    assert!(poll(sent).is_ready());
    assert_eq!(command(&server, "PTTL k"), "995", "the script ran on the way");
}

#[test]
fn sent_call_arrives_although_future_and_link_are_gone() {
    let (server, link, clock) = slow();
    let log = server.record();
    {
        let mut sent = pin!(link.call(acquire()));
        assert!(poll(sent.as_mut()).is_pending());
    }
    drop(link);
    clock.advance(ms(10));
    assert_eq!(count(&server), "\"1\"");
    assert_eq!(log.calls()[0].outcome().map(show_result).as_deref(), Some("[1, 1000, 0]"));
}

#[test]
fn calls_stay_in_order_where_the_way_becomes_shorter() {
    let (server, link, clock) = slow();
    let mut first = pin!(link.call(acquire()));
    assert!(poll(first.as_mut()).is_pending());
    server.set_round_trip(Duration::ZERO);
    let mut second = pin!(link.call(acquire()));
    assert!(poll(second.as_mut()).is_pending(), "it does not overtake the first");
    clock.advance(ms(5));
    let (Poll::Ready(first), Poll::Ready(second)) = (poll(first), poll(second)) else { panic!("both have arrived") };
    assert_eq!(
        (show_result(&first), show_result(&second)),
        ("[1, 1000, 0]".into(), "[2, 1000, 0]".into()),
        "the second one finds what the first one did"
    );
    let mut third = pin!(link.call(acquire()));
    assert!(poll(third.as_mut()).is_ready(), "from now on it takes no time");
}

#[test]
fn a_connection_that_is_lost_takes_with_it_what_is_on_its_way() {
    for (advanced, stored) in [(4, "nil"), (6, "\"1\"")] {
        for lose in [|link: &EmbeddedLink| link.reset(), |link: &EmbeddedLink| link.set_down(true)] {
            let (server, link, clock) = slow();
            let mut sent = pin!(link.call(acquire()));
            let mut subscribed = pin!(link.subscribe("c".into()));
            assert!(poll(sent.as_mut()).is_pending() && poll(subscribed.as_mut()).is_pending());
            clock.advance(ms(advanced));
            lose(&link);
            assert!(matches!(poll(sent), Poll::Ready(Err(LinkError::Unknown(_)))), "at once");
            clock.advance(ms(20));
            assert_eq!(count(&server), stored, "after {advanced} ms");
        }
    }
}

#[test]
fn notice_takes_half_a_round_trip_and_subscribing_all() {
    let (server, link, clock) = slow();
    let mut subscribed = pin!(link.subscribe("c".into()));
    assert!(poll(subscribed.as_mut()).is_pending());
    clock.advance(ms(5));
    assert_eq!(server.subscribers(b"c"), 1);
    assert!(poll(subscribed.as_mut()).is_pending());
    assert_eq!(command(&server, "PUBLISH c free"), "1");
    clock.advance(ms(4));
    assert_eq!(event(&link), None);
    clock.advance(ms(1));
    assert!(matches!(poll(subscribed), Poll::Ready(Ok(()))));
    assert_eq!(event(&link), Some(LinkEvent::Notice { channel: "c".into() }));
    command(&server, "PUBLISH c free");
    link.reset_notices();
    clock.advance(ms(10));
    assert_eq!((event(&link), event(&link)), (Some(LinkEvent::NoticesReset), None), "the notice is lost");
}

#[test]
fn a_settlement_asks_about_what_was_sent_before_it() {
    let (server, link, clock) = slow();
    let mut before = pin!(link.call(acquire()));
    let mut settle = pin!(link.settle("k".into(), false));
    assert!(poll(before.as_mut()).is_pending() && poll(settle.as_mut()).is_pending());
    let mut after = pin!(link.call(call(&RELEASE, "k", "me:1 0 PUBLISH 0 - c")));
    clock.advance(ms(1));
    assert!(poll(after.as_mut()).is_pending());
    clock.advance(ms(9));
    assert!(matches!(poll(settle), Poll::Ready(Ok(_))));
    assert!(poll(before).is_ready());
    assert_eq!(event(&link), None, "nothing was stuck, so nothing is killed");
    clock.advance(ms(1));
    assert!(poll(after).is_ready());

    link.inject(Fault::Swallow, FaultTarget::next());
    let mut stuck = pin!(link.call(acquire()));
    assert!(poll(stuck.as_mut()).is_pending());
    let mut settle = pin!(link.settle("k".into(), false));
    assert!(poll(settle.as_mut()).is_pending());
    clock.advance(ms(10));
    assert!(matches!(poll(settle), Poll::Ready(Ok(_))));
    assert!(matches!(poll(stuck), Poll::Ready(Err(LinkError::Unknown(_)))));
    assert_eq!(count(&server), "\"1\"");
}

#[test]
fn faults_happen_where_the_call_arrives() {
    for (fault, stored) in [(Fault::LoseRequest, "nil"), (Fault::LoseReply, "\"1\""), (Fault::Duplicate, "\"1\"")] {
        let (server, link, clock) = slow();
        let is_lost = fault != Fault::Duplicate;
        link.inject(fault, FaultTarget::next());
        let mut sent = pin!(link.call(acquire()));
        assert!(poll(sent.as_mut()).is_pending());
        assert_eq!((count(&server).as_str(), event(&link)), ("nil", None));
        clock.advance(ms(10));
        let Poll::Ready(result) = poll(sent) else { panic!("an answer") };
        assert_eq!(matches!(result, Err(LinkError::Unknown(_))), is_lost);
        assert_eq!((count(&server).as_str(), event(&link)), (stored, is_lost.then_some(LinkEvent::CallsReset)));
    }
}

/// Sends itself to a test.
struct Rings(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl Wake for Rings {
    fn wake(self: std::sync::Arc<Self>) {
        let _ = self.0.lock().expect("a bell").send(());
    }
}

#[test]
fn waiter_on_the_machines_clock_wakes_without_an_executor() {
    let server = EmbeddedServer::new();
    server.set_round_trip(ms(10));
    let link = server.link();
    let (bell, rung) = channel();
    let waker = Waker::from(std::sync::Arc::new(Rings(std::sync::Mutex::new(bell))));
    for _ in 0..3 {
        let begun = std::time::Instant::now();
        let mut sent = pin!(link.call(acquire()));
        assert!(sent.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        rung.recv_timeout(Duration::from_secs(20)).expect("the reply wakes its caller");
        assert!(poll(sent).is_ready());
        assert!(begun.elapsed() >= ms(10));
    }
}

#[test]
#[should_panic(expected = "a clock with timers")]
fn a_clock_without_timers_carries_nothing() {
    EmbeddedServer::with_clock(ServerClock::from_fn(Instant::default)).set_round_trip(ms(1));
}
