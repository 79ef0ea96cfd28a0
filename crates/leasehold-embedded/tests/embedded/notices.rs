//! Subscriptions, notices and events.

use crate::support::{check, command, now, poll, server};
use bytes::Bytes;
use leasehold_core::link::{Link, LinkError, LinkEvent};
use leasehold_embedded::EmbeddedLink;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

fn subscribe(link: &EmbeddedLink, channel: &'static str) {
    now(link.subscribe(Bytes::from_static(channel.as_bytes()))).expect("the link is up");
}

fn events(link: &EmbeddedLink) -> Vec<LinkEvent> {
    let mut events = Vec::new();
    while let Poll::Ready(Some(event)) = poll(pin!(link.event())) {
        events.push(event);
    }
    events
}

fn notice(channel: &'static str) -> LinkEvent {
    LinkEvent::Notice { channel: Bytes::from_static(channel.as_bytes()) }
}

#[test]
fn every_subscriber_gets_a_notice_once() {
    let (server, _) = server();
    let (one, two) = (server.link(), server.link());
    subscribe(&one, "a");
    subscribe(&one, "a");
    subscribe(&two, "a");
    subscribe(&two, "b");
    assert_eq!((server.subscriptions(), server.subscribers(b"a"), server.subscribers(b"none")), (3, 2, 0));
    check(&server, "PUBLISH a 0 => 2\nPUBLISH b 0 => 1\nPUBLISH none 0 => 0\nSPUBLISH a 0 => 0");
    assert_eq!(events(&one), [notice("a")]);
    assert_eq!(events(&two), [notice("a"), notice("b")]);
    now(two.unsubscribe("a".into())).expect("the link is up");
    check(&server, "PUBLISH a 0 => 1");
    drop(one);
    check(&server, "PUBLISH a 0 => 0");
    assert_eq!((server.subscriptions(), server.links()), (1, 1));
}

#[test]
fn sharded_notices_are_a_world_of_their_own() {
    let (server, _) = server();
    server.set_sharded_notices(true);
    let link = server.link();
    assert!(link.server().sharded_notices);
    subscribe(&link, "a");
    check(&server, "PUBLISH a 0 => 0\nSPUBLISH a 0 => 1");
    assert_eq!(events(&link), [notice("a")]);
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn event_wakes_waiters_of_any_thread_and_outlives_a_drop() {
    let (server, _) = server();
    let link = server.link();
    subscribe(&link, "a");
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    {
        let mut event = pin!(link.event());
        assert!(event.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let publisher = server.clone();
        std::thread::spawn(move || command(&publisher, "PUBLISH a 0")).join().expect("publishing does not panic");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
    assert_eq!(events(&link), [notice("a")]);
}

#[test]
fn notices_can_be_lost() {
    let (server, _) = server();
    let link = server.link();
    subscribe(&link, "a");
    link.lose_notices(2);
    check(&server, "PUBLISH a 0 => 1\nPUBLISH a 0 => 1\nPUBLISH a 0 => 1");
    assert_eq!(events(&link), [notice("a")]);
    link.reset_notices();
    assert_eq!(events(&link), [LinkEvent::NoticesReset]);
    assert_eq!(server.subscriptions(), 0);
}

#[test]
fn a_subscription_may_exist_without_being_confirmed() {
    let (server, _) = server();
    let link = server.link();
    link.lose_confirmations(1);
    assert!(matches!(now(link.subscribe("a".into())), Err(LinkError::Unknown(_))));
    assert_eq!(server.subscriptions(), 1);
    subscribe(&link, "a");
    assert_eq!(server.subscriptions(), 1);
}

#[test]
fn a_link_that_was_down_comes_back_bare() {
    let (server, _) = server();
    let (link, other) = (server.link(), server.link());
    subscribe(&link, "a");
    link.set_down(true);
    assert_eq!(server.subscriptions(), 0);
    assert!(matches!(now(link.subscribe("a".into())), Err(LinkError::NotSent(_))));
    assert!(matches!(now(link.unsubscribe("a".into())), Err(LinkError::NotSent(_))));
    let told = events(&link);
    assert!(matches!(told.as_slice(), [LinkEvent::OutOfReach { slots: None, .. }]), "{told:?}");
    link.set_down(false);
    link.set_down(false);
    let resets = [
        LinkEvent::Connected { server: "embedded".to_owned(), again: true },
        LinkEvent::NoticesReset,
        LinkEvent::CallsReset,
    ];
    assert_eq!(events(&link), resets);
    assert_eq!(events(&other), []);
}

#[test]
fn a_restart_loses_the_data_and_every_connection() {
    let (server, _) = server();
    let (link, other) = (server.link(), server.link());
    subscribe(&link, "a");
    check(&server, "SET k v => \"OK\"");
    server.restart_empty();
    assert!(server.keys().is_empty());
    assert_eq!(server.subscriptions(), 0);
    assert_eq!((events(&link).len(), events(&other).len()), (2, 2));
}

#[test]
fn a_closed_link_ends_its_events() {
    let (server, _) = server();
    let link = server.link();
    subscribe(&link, "a");
    let clone = link.clone();
    let mut waiting = pin!(clone.event());
    assert!(poll(waiting.as_mut()).is_pending());
    now(link.close());
    assert_eq!(poll(waiting.as_mut()), Poll::Ready(None));
    assert_eq!((server.subscriptions(), server.links()), (0, 0));
    assert!(matches!(now(link.subscribe("a".into())), Err(LinkError::NotSent(_))));
}

#[test]
fn a_link_says_what_it_is_connected_to() {
    let (server, _) = server();
    server.set_eviction_policy("volatile-lru");
    let link = server.link();
    assert_eq!(link.server().flavor, "embedded");
    assert_eq!(link.server().eviction_policy.as_deref(), Some("volatile-lru"));
    assert!(!link.server().cluster);
}
