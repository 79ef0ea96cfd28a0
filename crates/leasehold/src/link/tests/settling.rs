//! Settling. All connections pass through a proxy that can hold one of them.

use super::*;
use leasehold_core::call::Replicas;
use leasehold_test_support::{Proxy, Request, Resp, Server, Watch, Way, until};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// Polls once. No reply arrives meanwhile, even on a busy machine.
fn begin_unanswered<T>(proxy: &Proxy, call: Pin<&mut impl Future<Output = T>>) {
    proxy.freeze(Way::ToClient);
    begin(call);
    proxy.thaw(Way::ToClient);
}

fn settle(world: &World) -> Result<Settled, LinkError> {
    world.ends(world.settled("a"))
}

/// Starts to acquire `a`, and drops the call once the proxy holds its request.
fn lose_acquire(world: &World, proxy: &Proxy) {
    let trap = proxy.hold_request(HOLD);
    let mut call = pin!(world.link.call(acquire("a")));
    begin(call.as_mut());
    trap.wait();
}

#[test]
fn settling_an_idle_link_is_one_round_trip_without_a_cut() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        let settled = world.block_on(world.link.settle(key("a"), false));
        assert_eq!(settled, Ok(Settled::Proven));
        assert_eq!(server.commandstats("client|kill"), 0);
    });
}

#[test]
fn a_delayed_call_is_applied_before_it_counts_as_settled() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), patient());
        world.call(acquire("warm")).expect("a reply");
        proxy.delay(Way::ToServer, Duration::from_millis(20));
        for _ in 0..20 {
            {
                let mut call = pin!(world.link.call(acquire("a")));
                begin_unanswered(&proxy, call.as_mut());
            }
            assert_eq!(settle(&world), Ok(Settled::Proven));
            assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(1), "it came later than it was settled");
            server.command(&["DEL", "a"]);
        }
    });
}

/// A thread may be suspended between the decision to send a call and the call.
#[test]
fn call_that_was_decided_on_before_a_settling_is_not_sent_after_it() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        for replicas in [None, Some(Replicas { at_least: 1, within: Duration::from_millis(10) })] {
            let call = acquire("a").with_replicas(replicas);
            let durable = replicas.is_some();
            let decided = world.link.settlings(durable);
            assert_eq!(world.ends(world.settled_of("a", durable)), Ok(Settled::Proven));
            let late = world.block_on(world.link.call_decided(decided, call));
            assert!(matches!(late, Err(LinkError::NotSent(_))), "{replicas:?}: {late:?}");
            assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(0));
        }
    });
}

#[test]
fn a_call_that_is_held_up_is_dead_once_it_is_settled() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        world.call_until_answered(&acquire("warm"));
        lose_acquire(&world, &proxy);
        assert_eq!(settle(&world), Ok(Settled::Proven));
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
        assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(0));
    });
}

#[test]
fn a_call_that_is_held_up_ends_when_it_is_settled() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        let trap = proxy.hold_request("EVALSHA");
        let mut call = pin!(world.link.call(acquire("a")));
        begin(call.as_mut());
        trap.wait();
        assert_eq!(settle(&world), Ok(Settled::Proven));
        let answer = world.block_on(call);
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
        world.wait_for(&LinkEvent::CallsReset);
        assert_eq!(world.call_until_answered(&inspect("a")), nobody());
    });
}

#[test]
fn call_awaited_while_settled_ends_outcome_unknown() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        let trap = proxy.hold_request("EVALSHA");
        let mut call = pin!(world.link.call(acquire("a")));
        begin(call.as_mut());
        trap.wait();
        let settle = world.settled("a");
        let (settled, answer) = world.block_on(async { futures_util::join!(settle, call) });
        assert_eq!(settled, Ok(Settled::Proven));
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
    });
}

#[test]
fn a_zombie_of_an_older_connection_is_dead_once_it_is_settled() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        world.call_until_answered(&acquire("warm"));
        lose_acquire(&world, &proxy);
        // The client sees its connection closed; the server does not.
        proxy.cut();
        world.wait_for(&LinkEvent::CallsReset);
        world.call_until_answered(&inspect("a"));
        let settled = world.block_on(world.settled("a"));
        assert_eq!(settled, Ok(Settled::Proven));
        assert_eq!(proxy.deliver_held(), [None], "the server read it");
        assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(0));
    });
}

#[test]
fn where_kill_or_its_proof_is_forbidden_a_zombie_stays_unproven() {
    on_each(|binary| {
        for right in ["client|kill", "client|info"] {
            let rule = format!("app on >secret ~* &* +@all -{right}");
            let server = Server::builder().binary(binary).user(&rule).start();
            let proxy = Proxy::to(&server);
            let world = World::new(&format!("redis://app:secret@{}", proxy.addr()));
            world.call(acquire("warm")).expect("a reply");
            assert_eq!(settle(&world), Ok(Settled::Proven));
            lose_acquire(&world, &proxy);
            assert_eq!(settle(&world), Ok(Settled::Unproven), "{right}");
            let late = proxy.deliver_held();
            assert!(matches!(late.as_slice(), [Some(_)]), "so it was right to say so: {late:?}");
        }
    });
}

/// A proxy with its own connection ids, from `first` on.
struct Numbers {
    first: i64,
    /// The address that it reports as the server's; `None` passes on the server's.
    address: Option<&'static str>,
    known: Mutex<HashMap<u64, i64>>,
}

impl Numbers {
    fn before(server: &Server, first: i64, address: Option<&'static str>) -> Proxy {
        Proxy::watched(server.addr(), Arc::new(Self { first, address, known: Mutex::default() }))
    }
}

impl Watch for Numbers {
    fn answered(&self, _server: &str, request: &Request, reply: &Resp) -> Option<Resp> {
        let mut known = self.known.lock().expect("no test has failed with it");
        let next = self.first + i64::try_from(known.len()).expect("few connections");
        let id = *known.entry(request.connection).or_insert(next);
        match (request.command().as_str(), request.argv.get(1).map(Vec::as_slice)) {
            ("CLIENT", Some(b"ID")) => Some(Resp::Int(id)),
            ("CLIENT", Some(b"INFO")) => {
                self.address.map(|address| Resp::Bulk(format!("id={id} laddr={address}").into_bytes()))
            }
            ("CLIENT", Some(b"KILL")) => {
                let is_known = known.values().any(|known| request.contains(known.to_string().as_bytes()));
                (!reply.is_error()).then(|| Resp::Int(i64::from(is_known)))
            }
            _ => None,
        }
    }

    fn refused(&self, _target: SocketAddr) {}
}

#[test]
fn number_of_another_proxy_proves_nothing() {
    let pairs: [[(i64, Option<&'static str>); 2]; 4] = [
        [(10_000, None), (20_000, None)],
        [(10_000, Some("10.0.0.1:6379")), (20_000, Some("10.0.0.2:6379"))],
        [(20_000, Some("10.0.0.1:6379")), (10_000, Some("10.0.0.1:6379"))],
        [(10_000, Some("10.0.0.1:6379")), (10_000, Some("10.0.0.2:6379"))],
    ];
    on_each(|binary| {
        for proxies in pairs {
            let server = Server::builder().binary(binary).start();
            let [first, second] = proxies.map(|(from, address)| Numbers::before(&server, from, address));
            let front = Proxy::start(first.addr());
            let world = World::new(&front.url());
            world.call_until_answered(&acquire("warm"));
            let trap = front.hold_request(HOLD);
            {
                let mut call = pin!(world.link.call(acquire("a")));
                begin(call.as_mut());
                trap.wait();
            }
            // The client's connections are closed, and it connects to the other proxy. The first proxy still holds sent
            // commands.
            front.retarget(second.addr());
            front.cut();
            world.wait_for(&LinkEvent::CallsReset);
            let settled = world.block_on(world.settled("a"));
            assert_eq!(settled, Ok(Settled::Unproven), "{proxies:?}");
            assert!(front.deliver_held()[0].is_some(), "the server has applied it since");
        }
    });
}

#[test]
fn a_call_that_met_noscript_sends_nothing_once_it_is_settled() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), patient());
        // The reply must not arrive before the test drops the call.
        proxy.delay(Way::ToClient, Duration::from_millis(30));
        server.command(&["SCRIPT", "FLUSH"]);
        proxy.clear_requests();
        let mut call = pin!(world.link.call(acquire("a")));
        begin_unanswered(&proxy, call.as_mut());
        assert_eq!(settle(&world), Ok(Settled::Proven));
        let answer = world.block_on(call);
        let refused = matches!(&answer, Err(LinkError::Refused(refusal)) if refusal.code() == "NOSCRIPT");
        assert!(refused, "{answer:?}");
        let evals: Vec<_> = proxy.requests_with("EVAL").iter().map(|request| request.command()).collect();
        assert_eq!(evals, ["EVALSHA"]);
        until("the text has come, which is run by nothing", || scripts::is_known(&server));
        assert_eq!(server.command(&["EXISTS", "a"]).as_int(), Some(0));
    });
}

#[test]
fn a_server_that_does_not_answer_leaves_nothing_known() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        server.stop();
        let settled = world.ends(world.link.settle(key("a"), false));
        server.resume();
        assert!(matches!(settled, Err(LinkError::Unknown(_) | LinkError::NotSent(_))), "{settled:?}");
        until("it can be settled", || settle(&world) == Ok(Settled::Proven));
    });
}

#[test]
fn a_server_that_was_restarted_has_nothing_left_to_apply() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        server.restart();
        world.call_until_answered(&inspect("a"));
        until("it is proven", || {
            let settled = world.block_on(world.settled("a"));
            settled == Ok(Settled::Proven)
        });
        assert_eq!(server.commandstats("client|kill"), 0, "ids of another process mean nothing here");
    });
}

#[test]
fn a_connection_to_another_process_is_not_taken_for_dead() {
    on_each(|binary| {
        let [server, other] = [(); 2].map(|()| Server::builder().binary(binary).start());
        let proxy = Proxy::to(&server);
        // The settling waits this long. A machine that is late by less moves all connections to the other process.
        let world = World::with(&proxy.url(), LinkSettings { command_timeout: TIMEOUT * 4, ..settings() });
        let durable =
            |lock| acquire(lock).with_replicas(Some(Replicas { at_least: 1, within: Duration::from_millis(10) }));
        world.call(inspect("a")).expect("a reply");
        world.call(durable("warm")).expect("a reply");
        // From here on the address leads to another process. One connection is open before the other has lost anything.
        proxy.retarget(other.addr());
        let trap = proxy.cut_before("EVALSHA");
        let lost = world.call(inspect("a"));
        assert!(lost.is_err(), "{lost:?}");
        trap.wait();
        world.wait_for(&LinkEvent::CallsReset);
        let trap = proxy.hold_request(HOLD);
        {
            let mut call = pin!(world.link.call(durable("a")));
            begin(call.as_mut());
            trap.wait();
        }
        assert_eq!(world.ends(world.settled_of("a", true)), Ok(Settled::Unproven));
        assert_eq!(other.commandstats("client|kill"), 0, "ids of another process mean nothing here");
        assert!(proxy.deliver_held()[0].is_some(), "the old process has applied it since");
    });
}

#[test]
fn polling_a_call_to_its_end_needs_nobody_else() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        let mut call = pin!(world.link.call(inspect("a")));
        until("the reply is there", || {
            matches!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(_)))
        });
    });
}

#[test]
fn a_zombie_dies_in_time_though_nobody_settles() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        world.call(acquire("warm")).expect("a reply");
        lose_acquire(&world, &proxy);
        proxy.cut();
        world.wait_for(&LinkEvent::CallsReset);
        until("its connection is killed", || server.commandstats("client|kill") >= 1);
        assert_eq!(proxy.deliver_held(), [None]);
    });
}

#[test]
fn many_reconnects_leave_one_connection_and_nothing_unproven() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let before = server.client_list().len();
        let world = World::new(&server.url());
        for _ in 0..8 {
            server.command(&["CLIENT", "KILL", "SKIPME", "yes"]);
            world.wait_for(&LinkEvent::CallsReset);
        }
        assert_eq!(settle(&world), Ok(Settled::Proven));
        until("there is one connection", || server.client_list().len() == before + 1);
    });
}

#[test]
fn a_connection_that_had_to_be_forgotten_is_never_proven_dead() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        let pool = &world.link.0.pool;
        let target = ServerTarget::parse(&server.url()).expect("a target").servers.remove(0);
        let settled_after = |connections: usize| {
            let manager = pool.manager(target.clone());
            world.block_on(async {
                manager.open().await.expect("a connection");
                for _ in 1..connections {
                    manager.open().await.expect("a connection");
                }
                pool.adopt(0, &manager);
                world.settled("a").await
            })
        };
        // One live connection, and the maximum number of remembered ended ones.
        assert_eq!(settled_after(65), Ok(Settled::Proven));
        assert_eq!(settled_after(66), Ok(Settled::Unproven));
    });
}
