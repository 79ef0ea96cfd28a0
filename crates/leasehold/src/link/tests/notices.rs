//! Subscriptions and notices on one server.

use super::*;
use leasehold_core::wire::Subscription;
use leasehold_test_support::{Proxy, Server};

fn subscribe(world: &World, channel: &str) -> Result<(), LinkError> {
    world.ends(world.link.subscribe(key(channel)))
}

fn receivers(server: &Server, channel: &str) -> Option<i64> {
    server.command(&["PUBLISH", channel, "0"]).as_int()
}

#[test]
fn fr1_a_subscription_is_confirmed_by_the_server() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        for number in 0..500 {
            let channel = format!("c:{number}");
            subscribe(&world, &channel).expect("a subscription");
            assert_eq!(receivers(&server, &channel), Some(1), "{channel}");
            let event = world.next_event();
            assert_eq!(event, Some(LinkEvent::Notice { channel: key(&channel) }));
        }
        world.block_on(world.link.unsubscribe(key("c:7"))).expect("the end of it");
        assert_eq!(receivers(&server, "c:7"), Some(0));
        subscribe(&world, "c:8").expect("a second one does no harm");
        assert_eq!(receivers(&server, "c:8"), Some(1));
    });
}

#[test]
fn fr1_a_paused_server_confirms_nothing() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        server.stop();
        let answer = subscribe(&world, "c");
        server.resume();
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
    });
}

#[test]
fn fr1_a_burst_of_subscriptions_is_confirmed_one_by_one() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        world.block_on(async {
            let all = (0..200).map(|number| world.link.subscribe(key(&format!("c:{number}"))));
            for one in futures_util::future::join_all(all).await {
                one.expect("a subscription");
            }
        });
        for number in 0..200 {
            assert_eq!(receivers(&server, &format!("c:{number}")), Some(1));
        }
    });
}

#[test]
fn fr5_a_flood_of_messages_delays_and_ends_nothing() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        subscribe(&world, "c").expect("a subscription");
        subscribe(&world, "last").expect("a subscription");
        let flood = "for i = 1, 40000 do redis.call('PUBLISH', 'c', '0') end";
        server.command(&["EVAL", flood, "0"]);
        server.command(&["PUBLISH", "last", "0"]);
        assert!(is_granted(&world.call(acquire("a")).expect("a reply")));
        world.wait_for(&LinkEvent::Notice { channel: key("last") });
    });
}

#[test]
fn fr6_lost_notice_connection_is_one_reset_without_channels() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        for number in 0..20 {
            subscribe(&world, &format!("c:{number}")).expect("a subscription");
        }
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        world.wait_for(&LinkEvent::NoticesReset);
        assert_eq!(receivers(&server, "c:3"), Some(0));
        for number in 0..20 {
            subscribe(&world, &format!("c:{number}")).expect("a subscription");
        }
        for number in 0..20 {
            assert_eq!(receivers(&server, &format!("c:{number}")), Some(1));
        }
    });
}

/// A busy background first looks at a connection when it has ended.
#[test]
fn connection_that_ends_before_it_is_watched_resets_its_subscriptions() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        let pool = &world.link.0.pool;
        let manager = pool.manager(ServerTarget::parse(&server.url()).expect("a target").servers.remove(0));
        world.block_on(async {
            manager.open().await.expect("a connection");
            let connection = manager.current().expect("a connection");
            let subscribed = connection.subscription(Subscription::Subscribe, &key("c"), HUNG).await;
            subscribed.expect("a reply").expect("a subscription");
            connection.end();
        });
        pool.adopt(0, &manager);
        world.wait_for(&LinkEvent::NoticesReset);
    });
}

#[test]
fn fr6_a_refused_subscription_is_told_and_shifts_no_reply() {
    on_each(|binary| {
        let rule = "app on >secret ~* &good* +@all";
        let server = Server::builder().binary(binary).user(rule).start();
        let world = World::new(&format!("redis://app:secret@{}", server.addr()));
        let answer = subscribe(&world, "bad");
        assert!(matches!(&answer, Err(LinkError::Refused(error)) if error.code() == "NOPERM"), "{answer:?}");
        for number in 0..50 {
            let channel = format!("good:{number}");
            subscribe(&world, &channel).expect("a subscription");
            assert_eq!(receivers(&server, &channel), Some(1));
        }
    });
}

#[test]
fn fr9_a_silent_notice_connection_is_noticed() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        subscribe(&world, "c").expect("a subscription");
        proxy.freeze(leasehold_test_support::Way::Both);
        // The connection is found to be dead even without calls.
        let accepted = proxy.accepted();
        leasehold_test_support::until("a new connection is tried", || proxy.accepted() > accepted);
        proxy.thaw(leasehold_test_support::Way::Both);
        world.wait_for(&LinkEvent::NoticesReset);
        subscribe(&world, "d").expect("a subscription");
        assert_eq!(receivers(&server, "d"), Some(1));
    });
}

#[test]
fn fr13_a_dropped_subscription_may_be_asked_for_again() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        for number in 0..50 {
            let channel = format!("c:{number}");
            let mut begun = Box::pin(world.link.subscribe(key(&channel)));
            let waker = Waker::noop();
            let _ = begun.as_mut().poll(&mut Context::from_waker(waker));
            drop(begun);
            subscribe(&world, &channel).expect("a subscription");
            assert_eq!(receivers(&server, &channel), Some(1));
        }
    });
}

#[test]
fn sharded_notices_work_on_one_server_where_they_are_asked_for() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let settings = LinkSettings { publish: crate::PublishCommand::Sharded, ..settings() };
        let world = World::with(&server.url(), settings);
        subscribe(&world, "c").expect("a subscription");
        assert_eq!(server.command(&["SPUBLISH", "c", "0"]).as_int(), Some(1));
        assert_eq!(world.next_event(), Some(LinkEvent::Notice { channel: key("c") }));
        world.block_on(world.link.unsubscribe(key("c"))).expect("the end of it");
        assert_eq!(server.command(&["SPUBLISH", "c", "0"]).as_int(), Some(0));
    });
}
