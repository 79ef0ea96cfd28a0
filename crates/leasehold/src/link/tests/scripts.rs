//! Servers without a script, and the retry of calls.

use super::*;
use leasehold_core::link::Settled;
use leasehold_test_support::{Proxy, Server, Way, until};

pub(super) fn is_known(server: &Server) -> bool {
    server.command(&["SCRIPT", "EXISTS", ACQUIRE.sha1()]).elements().first().and_then(|one| one.as_int()) == Some(1)
}

/// Runs a test on each server, with an empty script cache.
fn on_each_that_forgot(test: impl Fn(&World, &Server, &dyn Fn() -> bool)) {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        // A reconnect loads the scripts.
        let world = World::with(&proxy.url(), patient());
        // The refusal must not arrive before the test drops the call, however late this thread is.
        proxy.delay(Way::ToClient, Duration::from_millis(100));
        server.command(&["SCRIPT", "FLUSH"]);
        let before = server.commandstats("evalsha");
        test(&world, &server, &|| server.commandstats("evalsha") > before);
        server.command(&["DEL", "a"]);
    });
}

#[test]
fn call_settled_before_its_text_was_sent_leaves_the_script() {
    on_each_that_forgot(|world, server, is_refused| {
        let mut call = pin!(world.link.call(acquire("a")));
        begin(call.as_mut());
        until("the server has refused it", is_refused);
        let settled = world.block_on(world.settled("a"));
        assert_eq!(settled, Ok(Settled::Proven));
        let answer = world.block_on(call);
        assert!(matches!(answer, Err(LinkError::Refused(_))), "{answer:?}");
        until("the server knows the script", || is_known(server));
        assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(0), "it was not run");
    });
}

#[test]
fn returning_server_gets_the_scripts_before_calls() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        assert_eq!(server.commandstats("script|exists"), 0, "the first connection has nothing to ask");
        world.call(acquire("a")).expect("a reply");
        server.restart();
        until("the server knows the script", || is_known(&server));
        assert!(server.commandstats("script|load") <= 1, "and nothing that was not used");
        assert_eq!(server.commandstats("eval"), 0);
        world.call_until_answered(&acquire("a"));
        assert_eq!(server.commandstats("eval"), 0);
    });
}

#[test]
fn a_user_who_may_not_load_scripts_reconnects_all_the_same() {
    on_each(|binary| {
        let rule = "app on >secret ~* &* +@all -script";
        let server = Server::builder().binary(binary).user(rule).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&format!("redis://app:secret@{}", proxy.addr()));
        world.call(acquire("a")).expect("a reply");
        proxy.delay(Way::ToServer, Duration::from_millis(1));
        proxy.cut();
        world.wait_for(&LinkEvent::CallsReset);
        server.command(&["SCRIPT", "FLUSH"]);
        world.call_until_answered(&acquire("a"));
    });
}
