//! Calls on one server.

use super::*;
use leasehold_core::script::{SIMPLE_ACQUIRE, SIMPLE_RELEASE};
use leasehold_test_support::{After, Proxy, Sentinel, Server, until};

#[test]
fn calls_are_answered() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        assert!(is_granted(&world.call(acquire("a")).expect("a reply")));
        assert_eq!(world.call(release("a")), Ok(Reply::Int(1)));
        let info = world.link.server();
        assert_eq!(info.version, binary.version.to_string());
        assert_eq!(info.flavor, binary.flavor.to_string().to_lowercase());
        assert_eq!(info.eviction_policy.as_deref(), Some("noeviction"));
        assert!(!info.cluster && !info.sharded_notices);
    });
}

#[test]
fn one_connection_to_a_server() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let before = server.client_list().len();
        let world = World::new(&server.url());
        world.block_on(world.link.subscribe(key("c"))).expect("a subscription");
        world.call(acquire("a")).expect("a reply");
        assert_eq!(server.client_list().len() - before, 1);
        drop(world);
        until("the connections are gone", || server.client_list().len() == before);
    });
}

#[test]
fn a_link_needs_no_runtime_of_its_caller() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let target = ServerTarget::parse(&server.url()).expect("a target");
        let (link, _thread) = BackgroundThread::start(target, settings(), None).expect("a link");
        // Neither this executor nor this thread has a tokio runtime.
        let reply = std::thread::scope(|scope| {
            scope.spawn(|| block_on_bare(link.call(acquire("a")))).join().expect("no panic")
        });
        assert!(is_granted(&reply.expect("a reply")));
        block_on_bare(link.close());
    });
}

#[test]
fn fr2_the_timeout_of_a_call_is_honoured() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        world.call(acquire("a")).expect("a reply");
        server.stop();
        let answer = world.call(acquire("a"));
        server.resume();
        assert!(matches!(answer, Err(LinkError::Unknown(_))), "{answer:?}");
    });
}

#[test]
fn fr3_a_lost_reply_is_not_resent() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        for after in [After::Close, After::Hang] {
            world.call_until_answered(&inspect("a"));
            let executed = server.commandstats("evalsha");
            let trap = proxy.swallow_reply_to("EVALSHA", after);
            let answer = world.call(inspect("a"));
            trap.wait();
            assert!(matches!(answer, Err(LinkError::Unknown(_))), "{after:?}: {answer:?}");
            let settled = world.block_on(world.settled("a"));
            assert_eq!(settled, Ok(Settled::Proven));
            world.call_until_answered(&inspect("a"));
            assert_eq!(server.commandstats("evalsha") - executed, 2, "{after:?}");
        }
    });
}

#[test]
fn fr9_a_connection_that_went_silent_is_noticed_and_made_anew() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        world.call(inspect("a")).expect("a reply");
        proxy.freeze(leasehold_test_support::Way::Both);
        until("the connection is given up", || matches!(world.call(inspect("a")), Err(LinkError::NotSent(_))));
        proxy.thaw(leasehold_test_support::Way::Both);
        world.wait_for(&LinkEvent::CallsReset);
        assert_eq!(world.call_until_answered(&inspect("a")), nobody());
    });
}

#[test]
fn fr10_nothing_hangs_in_an_outage_and_all_comes_back() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        world.call(inspect("a")).expect("a reply");
        server.kill();
        let end = Instant::now() + TIMEOUT;
        while Instant::now() < end {
            world.call(inspect("a")).expect_err("nobody is there");
        }
        server.restart();
        world.wait_for(&LinkEvent::CallsReset);
        assert_eq!(world.call_until_answered(&inspect("a")), nobody());
    });
}

#[test]
fn fr12_an_unknown_script_goes_as_text_and_is_never_loaded() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&proxy.url(), patient());
        server.command(&["SCRIPT", "FLUSH"]);
        proxy.clear_requests();
        assert_eq!(world.call(inspect("a")), Ok(nobody()));
        assert_eq!(world.call(inspect("a")), Ok(nobody()));
        let evals: Vec<_> = proxy.requests_with("EVAL").iter().map(|request| request.command()).collect();
        assert_eq!(evals, ["EVALSHA", "EVAL", "EVALSHA"]);
        assert_eq!(server.commandstats("script|load"), 0);
    });
}

#[test]
fn fr16_a_demoted_primary_is_left() {
    on_each(|binary| {
        let world_of_servers = Sentinel::start_with(binary);
        let world = World::new(&world_of_servers.url());
        assert_eq!(world.call(inspect("a")), Ok(nobody()));
        world_of_servers.failover();
        world.call_until_answered(&acquire("b"));
        // Requests in transit to the old primary do not count.
        until("it is settled", || {
            let settled = world.block_on(world.settled("a"));
            settled == Ok(Settled::Proven)
        });
        let new = world_of_servers.primary();
        assert_eq!(new.command(&["EXISTS", "b"]).as_int(), Some(1));
    });
}

#[test]
fn fr16_a_replica_that_cannot_be_left_causes_no_storm() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let accepted = proxy.accepted();
        let (began, mut refused) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(2) || refused <= 10 {
            assert!(began.elapsed() < HUNG, "{refused} calls were refused");
            match world.call(acquire("a")) {
                Err(LinkError::Refused(error)) => {
                    assert!(error.is_transient(), "{error}");
                    refused += 1;
                }
                Err(LinkError::NotSent(_) | LinkError::Unknown(_)) => {}
                Ok(reply) => panic!("a replica granted: {reply:?}"),
            }
        }
        let (made, took) = (proxy.accepted() - accepted, began.elapsed());
        // Three connections a second.
        assert!(made >= 1 && u128::from(made) <= took.as_millis() * 3 / 1_000, "{made} connections in {took:?}");
    });
}

#[test]
fn fr19_closing_ends_everything_once_and_for_all() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        world.block_on(world.link.close());
        world.block_on(world.link.close());
        assert_eq!(world.block_on(world.link.event()), None);
        let answer = world.call(inspect("a"));
        assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
        world.block_on(world.link.subscribe(key("c"))).expect_err("closed");
        let settled = world.block_on(world.link.settle(key("a"), false));
        settled.expect_err("nobody can be asked");
    });
}

#[test]
fn fr20_what_was_called_during_an_outage_is_not_executed_later() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        world.call(inspect("a")).expect("a reply");
        proxy.refuse(true);
        proxy.cut();
        until("the loss was noticed", || matches!(world.call(inspect("a")), Err(LinkError::NotSent(_))));
        let before = server.commandstats("evalsha");
        for _ in 0..1_000 {
            let answer = world.call(inspect("a"));
            assert!(matches!(answer, Err(LinkError::NotSent(_))), "{answer:?}");
        }
        proxy.refuse(false);
        world.call_until_answered(&inspect("a"));
        assert_eq!(server.commandstats("evalsha") - before, 1);
    });
}

#[test]
fn connections_that_are_cut_at_once_are_not_made_in_a_storm() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        let accepted = proxy.accepted();
        let began = Instant::now();
        let end = began + Duration::from_secs(2);
        while Instant::now() < end {
            let before = proxy.accepted();
            proxy.cut();
            while proxy.accepted() == before && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            // After the handshake the connection is short-lived.
            std::thread::sleep(Duration::from_millis(5));
        }
        let (made, took) = (proxy.accepted() - accepted, began.elapsed());
        // At least 40 ms between two connections after the first.
        let most = took.as_millis() / 40 + 5;
        assert!(made >= 1 && u128::from(made) <= most, "{made} connections in {took:?}");
        world.call_until_answered(&inspect("a"));
    });
}

/// Blocks the only worker of a runtime until the sender is used or dropped.
fn block(runtime: &Runtime) -> mpsc::Sender<()> {
    let (go_on, blocked) = mpsc::channel::<()>();
    let (started, starting) = mpsc::channel();
    runtime.spawn(async move {
        started.send(()).expect("the test waits");
        let _ = blocked.recv();
    });
    starting.recv().expect("the worker is blocked");
    go_on
}

#[test]
fn calls_are_answered_while_home_is_blocked() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        world.call(inspect("a")).expect("a reply");
        for _ in 0..3 {
            let go_on = block(world.home.as_ref().expect("a home"));
            for _ in 0..20 {
                assert_eq!(world.call(inspect("a")), Ok(nobody()));
            }
            drop(go_on);
            assert_eq!(world.call(inspect("a")), Ok(nobody()));
        }
    });
}

#[test]
fn a_command_larger_than_the_buffers_leaves_while_home_is_blocked() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        world.call(inspect("a")).expect("a reply");
        let _blocked = block(world.home.as_ref().expect("a home"));
        let large = Bytes::from(vec![b'x'; 16 << 20]);
        let call = Call::new(&INSPECT, vec![key("a")], vec![large]);
        assert_eq!(world.call(call), Ok(nobody()));
    });
}

#[test]
fn fr18_calls_go_on_when_home_is_dropped() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let mut world = World::with(&proxy.url(), patient());
        world.call(inspect("a")).expect("a reply");
        proxy.freeze(leasehold_test_support::Way::ToClient);
        let link = world.link.clone();
        let mut call = std::pin::pin!(link.call(acquire("a")));
        begin(call.as_mut());
        world.home.take().expect("a home").shutdown_background();
        proxy.thaw(leasehold_test_support::Way::ToClient);
        assert!(is_granted(&world.ends(call).expect("a reply")));
        assert_eq!(world.call(release("a")), Ok(Reply::Int(1)));
    });
}

#[test]
fn calls_are_answered_although_home_never_runs() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let world = World::on(&server.url(), patient(), home);
        for _ in 0..20 {
            assert_eq!(world.call(inspect("a")), Ok(nobody()));
        }
    });
}

/// An executor without tokio.
fn block_on_bare<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut work = std::pin::pin!(work);
    loop {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

/// An acquire of a simple lock.
fn take_simple(lock: &str, hold: &'static str) -> Call {
    let args = [hold, "1", "60000", "-1"].map(Bytes::from_static_str).to_vec();
    Call::new(&SIMPLE_ACQUIRE, vec![key(lock)], args)
}

fn release_simple(lock: &str, hold: &'static str) -> Call {
    Call::new(&SIMPLE_RELEASE, vec![key(lock)], [hold, "0"].map(Bytes::from_static_str).to_vec())
}

#[test]
fn simple_lock_runs_a_script_where_the_plain_command_fails() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        let code = |outcome: Outcome| match outcome.expect("a reply") {
            Reply::Array(parts) => parts.into_iter().next(),
            reply => Some(reply),
        };
        let run = |call| code(world.start_all([call]).remove(0));
        assert_eq!(run(take_simple("a", "one")), Some(Reply::Int(1)));
        assert_eq!((server.commandstats("set"), server.commandstats("evalsha")), (1, 0));
        assert_eq!(run(take_simple("a", "other")), Some(Reply::Int(0)), "busy");
        assert_eq!(run(take_simple("a", "one")), Some(Reply::Int(2)), "a copy");
        assert_eq!(run(release_simple("a", "other")), Some(Reply::Int(-1)), "another holder");
        assert_eq!(run(release_simple("a", "one")), Some(Reply::Int(1)));
        assert_eq!(run(release_simple("a", "one")), Some(Reply::Int(0)), "absent");
        server.command(&["HSET", "b", "f", "v"]);
        assert_eq!(run(take_simple("b", "one")), Some(Reply::Int(-4)), "another kind");
        assert_eq!(run(release_simple("b", "one")), Some(Reply::Int(-4)), "another kind");
    });
}

#[test]
fn refused_plain_command_is_not_sent_again() {
    on_each(|binary| {
        let rule = "app on >secret ~* &* +@all -set";
        let server = Server::builder().binary(binary).user(rule).start();
        let proxy = Proxy::to(&server);
        let world = World::with(&format!("redis://app:secret@{}", proxy.addr()), patient());
        server.command(&["SET", "a", "other"]);
        for _ in 0..2 {
            let outcome = world.start_all([take_simple("a", "one")]).remove(0).expect("a reply");
            assert!(matches!(outcome, Reply::Array(parts) if parts.first() == Some(&Reply::Int(0))));
            assert_eq!(world.start_all([release_simple("a", "one")]), [Ok(Reply::Int(-1))]);
        }
        assert_eq!(proxy.requests_with("\r\nSET\r\n").len(), 1);
    });
}

#[test]
fn script_does_not_follow_a_plain_command_that_failed() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::new(&server.url());
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]).as_str(), Some("OK"));
        let outcome = world.start_all([take_simple("a", "one")]).remove(0);
        assert!(matches!(&outcome, Err(LinkError::Refused(error)) if error.is_out_of_memory()), "{outcome:?}");
        assert_eq!(server.commandstats("evalsha"), 0);
    });
}
