//! Durable calls.

use super::*;
use leasehold_core::call::Replicas;
use leasehold_test_support::{Proxy, Server, until};

/// A primary with an up-to-date replica.
fn pair(binary: &Binary) -> (Server, Server) {
    let builder = || Server::builder().binary(binary).arg("repl-diskless-sync-delay", "0");
    let primary = builder().start();
    let replica = builder().arg("replicaof", &format!("127.0.0.1 {}", primary.port())).start();
    until("the replica is connected", || replica.info("master_link_status").as_deref() == Some("up"));
    until("the replica is in step", || {
        primary.command(&["SET", "probe", "1"]);
        primary.command(&["WAIT", "1", "100"]).as_int() == Some(1)
    });
    (primary, replica)
}

fn durable(call: Call, millis: u64) -> Call {
    call.with_replicas(Some(Replicas { at_least: 1, within: Duration::from_millis(millis) }))
}

/// The script's code, and the number of replicas that acknowledged it.
fn answer(reply: &Reply) -> (i64, i64) {
    let parts = reply.array().expect("an array of two");
    let code = parts[0].array().expect("the script's reply")[0].int().expect("a code");
    (code, parts[1].int().expect("a number of replicas"))
}

fn settle(world: &World) -> Result<Settled, LinkError> {
    world.block_on(world.settled_of("a", true))
}

/// Number of connections that the server has blocked.
fn blocked(server: &Server) -> Option<String> {
    server.info("blocked_clients")
}

#[test]
fn fr14_script_and_wait_are_one_pipeline_on_one_connection() {
    on_each(|binary| {
        let (primary, _replica) = pair(binary);
        let proxy = Proxy::to(&primary);
        let world = World::with(&proxy.url(), patient());
        let reply = world.call(durable(acquire("a"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (1, 1));
        proxy.clear_requests();
        let reply = world.call(durable(acquire("b"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (1, 1));
        let sent = proxy.requests();
        let connection = sent.iter().find(|request| request.contains(HOLD)).expect("the script").connection;
        let commands: Vec<_> = sent.iter().filter(|request| request.connection == connection).collect();
        let commands: Vec<_> = commands.iter().map(|request| request.command()).filter(|name| name != "PING").collect();
        assert_eq!(commands, ["EVALSHA", "EVAL", "WAIT"]);
    });
}

/// Newer servers answer a `WAIT` on a connection without writes at once, with replicas that have nothing.
#[test]
fn fr14_copy_on_a_new_connection_asks_about_the_first_write() {
    on_each(|binary| {
        let (primary, replica) = pair(binary);
        let world = World::new(&primary.url());
        let reply = world.call(durable(acquire("warm"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (1, 1));
        replica.stop();
        primary.command(&["HSET", "a", HOLD, "1"]);
        primary.command(&["PEXPIRE", "a", "3600000"]);
        primary.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        world.wait_for(&LinkEvent::CallsReset);
        let reply = world.call_until_answered(&durable(acquire("a"), 300));
        assert_eq!(answer(&reply), (2, 0), "the copy wrote nothing, and the replica has nothing");
        replica.resume();
        until("the replica has read it", || answer(&world.call_until_answered(&durable(acquire("a"), 300))) == (2, 1));
    });
}

#[test]
fn a_script_that_the_server_has_forgotten_is_sent_again() {
    on_each(|binary| {
        let (primary, _replica) = pair(binary);
        let world = World::with(&primary.url(), patient());
        world.call(durable(acquire("warm"), 300)).expect("a reply");
        primary.command(&["SCRIPT", "FLUSH"]);
        let reply = world.call(durable(acquire("a"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (1, 1));
    });
}

#[test]
fn nobody_else_waits_for_the_replicas() {
    on_each(|binary| {
        let (primary, replica) = pair(binary);
        let world = World::new(&primary.url());
        world.call(durable(acquire("warm"), 300)).expect("a reply");
        replica.stop();
        let mut call = pin!(world.link.call(durable(acquire("a"), 3_000)));
        begin(call.as_mut());
        until("the server waits", || blocked(&primary).as_deref() == Some("1"));
        world.call(inspect("a")).expect("a reply");
        assert_eq!(blocked(&primary).as_deref(), Some("1"), "it waits still");
        // The reply is not late before the replicas' time is over, so the connection stays.
        assert_eq!(settle(&world), Ok(Settled::Proven));
        assert_eq!(primary.commandstats("client|kill"), 0);
        assert_eq!(answer(&world.block_on(call).expect("a reply")), (1, 0));
        replica.resume();
    });
}

#[test]
fn a_durable_call_that_is_held_up_is_dead_once_it_is_settled() {
    on_each(|binary| {
        let (primary, _replica) = pair(binary);
        let proxy = Proxy::to(&primary);
        let world = World::new(&proxy.url());
        world.call(durable(acquire("warm"), 100)).expect("a reply");
        let trap = proxy.hold_request(HOLD);
        {
            let mut call = pin!(world.link.call(durable(acquire("a"), 100)));
            begin(call.as_mut());
            trap.wait();
        }
        assert_eq!(settle(&world), Ok(Settled::Proven));
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
        assert_eq!(primary.command(&["EXISTS", "a"]).as_int(), Some(0));
    });
}

#[test]
fn a_durable_call_in_the_line_is_not_sent_once_it_is_settled() {
    on_each(|binary| {
        let (primary, replica) = pair(binary);
        // A call that waits for longer than half of this is never sent.
        let world = World::with(&primary.url(), LinkSettings { command_timeout: TIMEOUT * 40, ..settings() });
        let names = ["a", "b", "c", "d"];
        let warm = futures_util::future::join_all(
            names.map(|name| world.link.call(durable(acquire(&format!("warm:{name}")), 100))),
        );
        assert!(world.block_on(warm).iter().all(Result::is_ok));
        replica.stop();
        let mut first: Vec<_> =
            names.iter().map(|name| Box::pin(world.link.call(durable(acquire(name), 2_000)))).collect();
        first.iter_mut().for_each(|call| begin(call.as_mut()));
        until("all connections are blocked", || blocked(&primary).as_deref() == Some("4"));
        let mut last = pin!(world.link.call(durable(acquire("last"), 2_000)));
        begin(last.as_mut());
        assert_eq!(settle(&world), Ok(Settled::Proven));
        let answer = world.block_on(last);
        assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
        assert_eq!(primary.command(&["EXISTS", "last"]).as_int(), Some(0));
        replica.resume();
    });
}

/// `WAIT` on a connection with earlier writes covers those, and not a call that leaves nothing to mark.
#[test]
fn replicas_are_not_believed_where_nothing_could_be_marked() {
    on_each(|binary| {
        let (primary, _replica) = pair(binary);
        let world = World::with(&primary.url(), patient());
        let reply = world.call(durable(acquire("warm"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (1, 1));
        let reply = world.call(durable(inspect("a"), 300)).expect("a reply");
        assert_eq!(answer(&reply), (0, 0), "there is no such key");
    });
}

#[test]
fn renewal_does_not_wait_behind_durable_acquires() {
    on_each(|binary| {
        let (primary, replica) = pair(binary);
        let world = World::new(&primary.url());
        let renew = || Call::new(&RENEW, vec![key("warm")], ["hold:1", "60000"].map(key).to_vec());
        world.call(durable(acquire("warm"), 100)).expect("a reply");
        world.call(durable(renew(), 100)).expect("a reply");
        replica.stop();
        let names = ["a", "b", "c", "d"];
        let mut blocking = names.map(|name| Box::pin(world.link.call(durable(acquire(name), 5_000))));
        blocking.iter_mut().for_each(|call| begin(call.as_mut()));
        until("all connections for acquires are blocked", || blocked(&primary).as_deref() == Some("4"));
        let renewed = world.call(durable(renew(), 100));
        let still = blocked(&primary);
        replica.resume();
        assert!(renewed.is_ok(), "{renewed:?}");
        assert_eq!(still.as_deref(), Some("4"), "before any of them");
    });
}
