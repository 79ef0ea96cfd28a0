//! Connecting: what goes wrong is said, within the connect deadline; and how many connections there are.

use crate::support::{
    HUNG, NEVER, TIMEOUT, connect, connections, held, on_each, on_one_of_each, runtime, settings, soon, until,
};
use leasehold::blocking::wait;
use leasehold::{Client, ConnectError};
use leasehold_test_support::{After, Cluster, Proxy, Server, Way};
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(1500);

/// The error of a client that cannot be built.
pub(crate) fn failure(builder: leasehold::ClientBuilder, url: &str) -> ConnectError {
    let connected = runtime().block_on(soon("connecting", builder.connect_deadline(DEADLINE).connect(url)));
    connected.expect_err("no client")
}

#[test]
fn a_connect_that_is_dropped_ends_at_once_what_it_has_begun() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    runtime().block_on(async {
        for _ in 0..20 {
            let builder = settings().command_timeout(Duration::from_secs(10)).connect_deadline(Duration::from_secs(60));
            let connecting = tokio::time::timeout(Duration::from_millis(20), builder.connect(&url));
            connecting.await.expect_err("the kernel accepts, and nothing ever answers");
        }
    });
    listener.set_nonblocking(true).expect("a listener");
    let (mut open, mut seen) = (Vec::new(), 0);
    let mut bytes = [0; 1024];
    let closed = until("every connection is closed", || {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("a connection");
            open.push(stream);
            seen += 1;
        }
        open.retain_mut(|stream| {
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) => return false,
                    Ok(_) => {}
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
        });
        open.is_empty()
    });
    runtime().block_on(closed);
    assert!(seen > 0);
}

#[test]
fn credentials_that_are_wrong_or_missing_are_told_apart() {
    on_each(|binary| {
        let rule = "app on >open ~* &* +@all";
        let server = Server::builder().binary(binary).password("sesame").user(rule).start();
        let addr = server.addr();
        let denied = |url: &str, words: &str| {
            let error = failure(settings(), url);
            assert!(matches!(error, ConnectError::Denied { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(words) && text.contains(&addr.to_string()), "{text}");
        };
        denied(&format!("redis://{addr}"), "none was set");
        denied(&format!("redis://:simsim@{addr}"), "refused the user name or the password");
        denied(&format!("redis://app:simsim@{addr}"), "refused the user name or the password");
        denied(&format!("redis://nobody:open@{addr}"), "refused the user name or the password");
        for url in [server.url(), format!("redis://app:open@{addr}"), format!("valkey://default:sesame@{addr}/2")] {
            runtime().block_on(async {
                let client = connect(&url).await;
                held(&client, "stock").await.release().await.expect("a release");
            });
        }
    });
}

#[test]
fn hosts_that_do_not_answer_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    // The kernel accepts, and nothing ever answers.
    let error = failure(settings(), &format!("redis://{addr}"));
    assert!(
        matches!(&error, ConnectError::Unreachable { message: text, .. } if text.contains("no reply within") && text.contains("tried for")),
        "{error:?}"
    );
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
    drop(listener);
    let error = failure(settings(), "redis://127.0.0.1:1");
    assert!(matches!(&error, ConnectError::Unreachable { message: text, .. } if text.contains("refused")), "{error:?}");
    let error = failure(settings(), "redis://no-such-host.invalid:6379");
    assert!(
        matches!(&error, ConnectError::Unreachable { message: text, .. } if text.contains("no-such-host.invalid")),
        "{error:?}"
    );
    assert!(error.to_string().contains("resolved"), "{error}");
    let error = failure(settings(), "redis+unix:///no/such/socket");
    assert!(
        matches!(&error, ConnectError::Unreachable { message: text, .. } if text.contains("/no/such/socket")),
        "{error:?}"
    );
    let error = failure(settings(), "redis-cluster://127.0.0.1:1?node=127.0.0.1:2");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    let error = failure(settings(), "redis-sentinel://127.0.0.1:1?sentinelServiceName=stock");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

#[test]
fn connection_lost_while_connecting_is_made_anew_in_time() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        for (round_trip, needle) in [0, 100].into_iter().flat_map(|ms| ["PING", "memory"].map(|needle| (ms, needle))) {
            let proxy = Proxy::to(&server);
            proxy.delay(Way::Both, Duration::from_millis(round_trip / 2));
            let trap = proxy.cut_before(needle);
            runtime().block_on(async {
                let client = connect(&proxy.url()).await;
                assert!(trap.worked(), "nothing was lost at {needle}");
                held(&client, "stock").await.release().await.expect("a release");
            });
        }
    });
}

/// It lets clients in, and falls silent as soon as they ask what it is.
#[test]
fn server_that_never_tells_itself_ends_at_the_deadline() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut trap = proxy.swallow_reply_to("memory", After::Hang);
            while !over.load(Ordering::Acquire) {
                if trap.wait_for(Duration::from_millis(1)) {
                    trap = proxy.swallow_reply_to("memory", After::Hang);
                }
            }
        });
        let builder = settings().connect_deadline(DEADLINE);
        let connected = runtime().block_on(async { tokio::time::timeout(HUNG, builder.connect(&proxy.url())).await });
        over.store(true, Ordering::Release);
        let error = connected.expect("an answer in time").expect_err("no client");
        assert!(matches!(&error, ConnectError::Unreachable { .. }), "{error:?}");
    });
}

/// It may be one that is about to get well; it is none that cannot be used.
#[test]
fn a_server_that_ends_every_connection_is_out_of_reach() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut trap = proxy.cut_before("PING");
            while !over.load(Ordering::Acquire) {
                if trap.wait_for(Duration::from_millis(1)) {
                    trap = proxy.cut_before("PING");
                }
            }
        });
        let error = failure(settings(), &proxy.url());
        over.store(true, Ordering::Release);
        assert!(
            matches!(&error, ConnectError::Unreachable { message: text, .. } if text.contains("cannot be reached: the connection was lost")),
            "{error:?}"
        );
    });
}

/// It is not waited for, whatever the deadline: a server that comes later is for `connect_lazy`.
#[test]
fn a_refused_port_is_told_at_once_with_what_to_do() {
    let url = "redis://127.0.0.1:1?connect_deadline=600s";
    let thread = std::thread::spawn(|| wait(Client::connect(url)).expect_err("no client"));
    leasehold_test_support::until("the thread is told", || thread.is_finished());
    let error = thread.join().expect("a thread");
    let connected = runtime().block_on(soon("connecting", Client::connect(url)));
    assert_eq!(connected.expect_err("no client"), error);
    let text = error.to_string();
    assert!(["127.0.0.1:1 ", "nothing listens", "connect_lazy"].iter().all(|words| text.contains(words)), "{text}");
}

#[test]
fn a_server_that_is_still_loading_says_so() {
    on_one_of_each(|binary| {
        let builder = Server::builder().binary(binary).arg("loading-process-events-interval-bytes", "1024");
        let server = builder.arg("key-load-delay", "0").start();
        server.command(&["DEBUG", "POPULATE", "5000"]);
        server.command(&["SAVE"]);
        // Each key takes half a millisecond after the next start.
        let conf = server.dir().join("server.conf");
        let text = std::fs::read_to_string(&conf).expect("its configuration");
        std::fs::write(&conf, text.replace("key-load-delay 0", "key-load-delay 500")).expect("a configuration");
        server.restart();
        assert_eq!(server.info("loading").as_deref(), Some("1"));
        let error = failure(settings(), &server.url());
        assert!(matches!(error, ConnectError::Loading { .. }), "{error:?}");
        assert!(error.to_string().contains("loading"), "{error}");
        // One who has the patience gets in when it is done.
        runtime().block_on(async {
            let client = settings().connect_deadline(Duration::from_secs(60)).connect(&server.url()).await;
            held(&client.expect("a client"), "stock").await.release().await.expect("a release");
        });
        assert_eq!(server.info("loading").as_deref(), Some("0"));
    });
}

#[test]
fn malformed_urls_are_refused_before_anything_is_sent() {
    let urls = [
        "",
        "stock",
        "localhost:6379",
        "http://localhost:6379",
        "redis://",
        "redis://:pass@",
        "redis://localhost:port",
        "redis://localhost:65536",
        "redis://localhost:0",
        "redis://localhost/stock",
        "redis://localhost/1/2",
        "redis://[::1",
        "redis-cluster://localhost?node=other",
        "redis-sentinel://localhost:1",
        "rediss+unix:///tmp/socket",
        "redis+unix://",
        "redis-none://localhost",
    ];
    for url in urls {
        let error = failure(settings(), url);
        assert!(matches!(error, ConnectError::Invalid { .. }), "{url}: {error:?}");
        assert!(error.to_string().starts_with("the client cannot be built: "), "{error}");
    }
    let error = failure(settings().lease(Duration::ZERO), "redis://localhost");
    assert!(matches!(&error, ConnectError::Invalid { message: text, .. } if text.contains("lease")), "{error:?}");
}

#[test]
fn database_of_a_cluster_is_selected_or_refused() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let url = cluster.url();
        let (address, query) = url.split_once('?').map_or((url.as_str(), String::new()), |(a, q)| (a, format!("?{q}")));
        runtime().block_on(async {
            held(&connect(&format!("{address}/0{query}")).await, "stock").await.release().await.expect("a release");
        });
        let error = failure(settings(), &format!("{address}/2{query}"));
        assert!(matches!(&error, ConnectError::Invalid { message, .. } if message.contains("database")), "{error:?}");
    });
}

#[test]
fn a_cluster_and_one_server_are_not_mixed_up() {
    let server = Server::start();
    let error = failure(settings(), &server.url().replace("redis://", "redis-cluster://"));
    assert!(
        matches!(&error, ConnectError::Unsuitable { message: text, .. } if text.contains("not a Redis Cluster")),
        "{error:?}"
    );
    let cluster = Cluster::start();
    let error = failure(settings(), &format!("redis://{}", cluster.nodes().first().expect("a node").addr()));
    assert!(
        matches!(&error, ConnectError::Unsuitable { message: text, .. } if text.contains("redis-cluster://")),
        "{error:?}"
    );
}

#[test]
fn a_unix_socket_will_do() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).unix_socket().start();
        assert!(server.url().starts_with("redis+unix:///"), "{}", server.url());
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            let guard = held(&client, "stock").await;
            let lock = connect(&server.url()).await.lock("stock");
            let waiter = tokio::spawn(async move { lock.acquire().await });
            until("somebody waits", || server.command(&["PUBSUB", "CHANNELS"]).elements().len() == 1).await;
            guard.release().await.expect("a release");
            drop(waiter.await.expect("a task").expect("the lock"));
        });
    });
}

#[test]
fn a_client_has_one_connection() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let client = connect(&server.url()).await;
            assert_eq!(connections(&server), 1);
            let mut guards = Vec::new();
            for number in 0..50 {
                guards.push(held(&client, &format!("stock:{number}")).await);
            }
            let waiters: Vec<_> = guards
                .iter()
                .map(|guard| {
                    let lock = guard.lock().clone();
                    tokio::spawn(async move { lock.acquire().await })
                })
                .collect();
            until("everybody waits", || server.command(&["PUBSUB", "CHANNELS"]).elements().len() == 50).await;
            assert_eq!(connections(&server), 1);
            for guard in guards {
                guard.release().await.expect("a release");
            }
            for waiter in waiters {
                drop(waiter.await.expect("a task").expect("the lock"));
            }
            client.shutdown(TIMEOUT * 4).await.expect("a shutdown");
            until("all connections are closed", || connections(&server) == 0).await;
        });
        // A client that fails to be built leaves none.
        let strict = Client::builder().require_noeviction(true);
        server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let runtime = runtime();
        runtime.block_on(strict.connect(&server.url())).expect_err("no client");
        leasehold_test_support::until("all connections are closed", || connections(&server) == 0);
        let client = wait(Client::connect(&server.url())).expect("a client");
        assert_eq!(connections(&server), 1);
        drop(client);
        leasehold_test_support::until("all connections are closed", || connections(&server) == 0);
    });
}

#[test]
fn client_has_at_most_two_connections_to_a_cluster_node() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let at_rest: Vec<_> = cluster.nodes().iter().map(connections).collect();
        let added = || -> Vec<_> {
            let all = cluster.nodes().iter().map(connections);
            all.zip(&at_rest).map(|(now, before)| now - before).collect()
        };
        runtime().block_on(async {
            let client = connect(&cluster.url()).await;
            until("one to each", || added() == [1, 1, 1]).await;
            let mut guards = Vec::new();
            for number in 0..30 {
                guards.push(held(&client, &format!("stock:{number}")).await);
            }
            for guard in &guards {
                let lock = guard.lock().clone();
                drop(tokio::spawn(async move { lock.acquire().await }));
            }
            until("everybody waits", || client.stats().subscriptions == 30 && client.stats().requests == 30).await;
            until("two to each", || added() == [2, 2, 2]).await;
            drop(guards);
            client.shutdown(TIMEOUT * 10).await.expect("a shutdown");
            until("all connections are closed", || added() == [0, 0, 0]).await;
        });
    });
}

#[test]
fn shutdown_without_holds_does_not_wait_for_a_down_server() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        runtime().block_on(async {
            let holder = connect(&server.url()).await;
            let (fresh, waiter) = (connect(&proxy.url()).await, connect(&proxy.url()).await);
            let _held = held(&holder, "stock").await;
            let lock = waiter.lock("stock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            until("the waiter is subscribed", || waiter.stats().subscriptions == 1).await;
            // The server goes down before it answers the end of the subscription.
            let _stuck = proxy.hold_request("UNSUBSCRIBE");
            waiting.abort();
            waiting.await.expect_err("an acquire that is dropped");
            until("nothing is in doubt", || waiter.stats().cleaning_up == 0).await;
            server.kill();
            assert_eq!(waiter.stats().subscriptions, 1);
            for (which, client) in [("fresh", fresh), ("waiter", waiter)] {
                let result = soon(&format!("the shutdown of the {which} client"), client.shutdown(NEVER)).await;
                result.expect("nothing to release");
            }
        });
    });
}
