//! Connecting, and its errors.

use super::super::{AddressMap, Credentials, Provider};
use super::*;
use leasehold_core::link::ServerError;
use leasehold_core::session::CallId;
use leasehold_test_support::{Cluster, Proxy, Rounds, Sentinel, Server, binaries, take_request, until};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub(super) fn failure(target: ServerTarget) -> ConnectError {
    let settings = LinkSettings { connect_deadline: Duration::from_millis(700), ..settings() };
    error_of(target, settings)
}

/// The error of a failed connect, at any time before the deadline.
fn error_of(target: ServerTarget, settings: LinkSettings) -> ConnectError {
    let connecting = async { tokio::time::timeout(HUNG, open(target, settings, None)).await };
    runtime().block_on(connecting).expect("connecting hangs").expect_err("no link")
}

pub(super) fn failure_at(url: &str) -> ConnectError {
    failure(ServerTarget::parse(url).expect("a target"))
}

pub(super) fn works(target: ServerTarget) -> World {
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let world = World::try_new(target, settings(), home).expect("a link");
    assert_eq!(world.call(inspect("a")), Ok(nobody()));
    world
}

#[test]
fn connections_cut_once_made_are_made_again_at_once() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let world = World::new(&proxy.url());
        for _ in 0..12 {
            // A slow machine spoils a single cut. A late connection after several cuts is also late after each of the
            // next.
            let mut rounds = Rounds::default();
            loop {
                proxy.cut();
                let began = Instant::now();
                world.call_until_answered(&inspect("a"));
                let took = began.elapsed();
                if rounds.end_with(took < Duration::from_millis(250), took) {
                    break;
                }
            }
        }
    });
}

#[test]
fn credentials_are_told_apart() {
    on_each(|binary| {
        let server =
            Server::builder().binary(binary).password("top").user("poor on >secret ~* &* -@all +hello").start();
        let addr = server.addr();
        let error = failure_at(&format!("redis://{addr}"));
        assert!(matches!(error, ConnectError::PasswordRequired { .. }), "{error:?}");
        for url in [format!("redis://:wrong@{addr}"), format!("redis://nobody:wrong@{addr}")] {
            let error = failure_at(&url);
            assert!(matches!(error, ConnectError::WrongPassword { .. }), "{error:?}");
            assert!(!error.to_string().contains(":wrong"), "{error}");
        }
        let world = works(ServerTarget::parse(&format!("redis://:top@{addr}/3")).expect("a target"));
        assert!(!format!("{:?}", world.link).contains("top@"));
        let lock = world.call(acquire("in-3"));
        assert!(is_granted(&lock.expect("a reply")));
        server.command(&["SELECT", "3"]);
        assert_eq!(server.command(&["EXISTS", "in-3"]).as_int(), Some(1));
    });
}

#[test]
fn default_user_is_listed_with_the_library() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).user("app on >secret ~* &* +@all").start();
        let world = works(ServerTarget::parse(&server.url()).expect("a target"));
        let named = |client: &std::collections::BTreeMap<String, String>| {
            client.get("lib-name").is_some_and(|name| name == "leasehold")
        };
        // Redis 7.0 does not support it.
        let knows = server.client_list().iter().any(|client| client.contains_key("lib-name"));
        assert_eq!(server.client_list().iter().filter(|client| named(client)).count(), usize::from(knows));
        drop(world);
        works(ServerTarget::parse(&format!("redis://app:secret@{}", server.addr())).expect("a target"));
        assert_eq!(server.command(&["ACL", "LOG"]).elements().len(), 0);
    });
}

#[test]
fn password_that_changes_is_asked_for_at_the_reconnect() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).password("old").start();
        let proxy = Proxy::to(&server);
        let password = Arc::new(Mutex::new("old"));
        let known = Arc::clone(&password);
        let provider = Provider::new(move || {
            let known = *known.lock();
            async move {
                if known.is_empty() {
                    Err("the vault is sealed".into())
                } else {
                    Ok(Credentials::of_default_user(known))
                }
            }
        });
        let target = ServerTarget::parse(&proxy.url()).expect("a target").with(Some(provider), None);
        let world = works(target.clone());
        server.command(&["CONFIG", "SET", "requirepass", "new"]);
        *password.lock() = "new";
        proxy.cut();
        assert_eq!(world.call_until_answered(&inspect("a")), nobody());
        *password.lock() = "";
        let error = failure(target);
        assert!(matches!(error, ConnectError::Credentials { .. }), "{error:?}");
        assert!(error.to_string().contains("the vault is sealed"), "{error}");
    });
}

#[test]
fn announced_addresses_are_mapped() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let proxies: Vec<_> = cluster.nodes().iter().map(|node| (node.addr().to_string(), Proxy::to(node))).collect();
        let proxies = Arc::new(proxies);
        let known = Arc::clone(&proxies);
        let map = AddressMap::new(move |announced: &str| {
            let (_, proxy) = known.iter().find(|(addr, _)| addr == announced)?;
            Some(proxy.addr().to_string())
        });
        let (_, first) = proxies.first().expect("a node");
        let target = ServerTarget::parse(&format!("redis-cluster://{}", first.addr())).expect("a target");
        let world = works(target.with(None, Some(map)));
        for name in ["a", "b", "c", "d"] {
            assert_eq!(world.call(inspect(name)), Ok(nobody()));
        }
        for (addr, proxy) in proxies.iter() {
            assert!(proxy.accepted() > 0, "{addr}");
        }
        drop(world);
        let world = Sentinel::start_with(binary);
        let proxy = Proxy::to(world.primary());
        let mapped = proxy.addr().to_string();
        let map = AddressMap::new(move |_: &str| Some(mapped.clone()));
        drop(works(ServerTarget::parse(&world.url()).expect("a target").with(None, Some(map))));
        assert!(proxy.accepted() > 0);
    });
}

#[test]
fn a_user_with_few_permissions_can_still_call() {
    on_each(|binary| {
        let few = "app on >secret ~* &* -@all +hello +evalsha +eval +hlen";
        for rule in [format!("{few} +subscribe +ping"), few.to_owned()] {
            let server = Server::builder().binary(binary).user(&rule).start();
            let world = works(ServerTarget::parse(&format!("redis://app:secret@{}", server.addr())).expect("a target"));
            assert_eq!(world.link.server().eviction_policy, None);
            assert_eq!(world.link.server().version, "");
        }
    });
}

/// The kernel's timers of the connections to a server: `02` is keep-alive.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_are_kept_alive() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = World::with(&server.url(), patient());
        let to_server = format!(":{:04X}", server.port());
        let timers = || {
            let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the connections of this machine");
            let of = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let is_ours = words.get(2)?.ends_with(&to_server) && words.get(3) == Some(&"01");
                is_ours.then(|| words.get(5).map(|timer| timer.starts_with("02:")))?
            };
            table.lines().filter_map(of).collect::<Vec<bool>>()
        };
        until("the connection is watched over", || timers().iter().any(|is_kept| *is_kept));
        drop(world);
    });
}

#[test]
fn what_does_not_answer_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    // Only the kernel accepts, and sends nothing more.
    let error = failure_at(&format!("redis://{addr}"));
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    drop(listener);
    let error = failure_at("redis://no-such-host.invalid:6379");
    assert!(matches!(error, ConnectError::Dns { .. }), "{error:?}");
}

/// A server that answers everything with the same line.
fn fake(line: &'static str) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut requests = Vec::new();
            let mut buffer = [0; 512];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                requests.extend_from_slice(&buffer[..read]);
                // After a failed connect the client probes for TLS.
                if requests.first() == Some(&0x16) {
                    break;
                }
                while take_request(&mut requests).is_some() {
                    // The client may have gone.
                    let _ = stream.write_all(line.as_bytes());
                }
            }
        }
    });
    addr
}

#[test]
fn answers_that_make_no_sense_are_told_apart() {
    let error = failure_at(&format!("redis://{}", fake("-LOADING Redis is loading the dataset in memory\r\n")));
    assert!(matches!(error, ConnectError::Loading { .. }), "{error:?}");
    let error = failure_at(&format!("redis://{}", fake("HTTP/1.1 400 Bad Request\r\n\r\n")));
    assert!(matches!(error, ConnectError::Protocol { .. }), "{error:?}");
    let error = failure_at(&format!("redis://{}", fake("-ERR unknown command 'HELLO'\r\n")));
    assert!(matches!(error, ConnectError::Protocol { .. }), "{error:?}");
}

#[test]
fn server_that_is_no_sentinel_is_told_apart_at_once() {
    // Redis 6 quotes the command differently, so this tests all servers.
    for binary in binaries() {
        let server = Server::builder().binary(&binary).start();
        let url = server.url().replace("redis://", "redis-sentinel://");
        let error = failure_at(&format!("{url}?sentinelServiceName=main"));
        assert!(matches!(&error, ConnectError::Address(why) if why.contains("is not a Sentinel")), "{error:?}");
    }
}

#[test]
fn a_cluster_and_one_server_are_not_mixed_up() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let error = failure_at(&server.url().replace("redis://", "redis-cluster://"));
        assert!(matches!(error, ConnectError::NotACluster { .. }), "{error:?}");
        let cluster = Cluster::builder().binary(binary).start();
        let error = failure_at(&format!("redis://{}", cluster.nodes().first().expect("a node").addr()));
        assert!(matches!(error, ConnectError::IsACluster { .. }), "{error:?}");
    });
}

/// The error of a failed connect, long before the connect deadline.
pub(super) fn failure_at_once(url: &str) -> ConnectError {
    let settings = LinkSettings { connect_deadline: HUNG * 20, ..settings() };
    error_of(ServerTarget::parse(url).expect("a target"), settings)
}

#[test]
fn what_cannot_change_by_waiting_is_told_at_once() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let error = failure_at_once(&format!("{}/99", server.url()));
        assert!(matches!(error, ConnectError::Address(_)), "{error:?}");
        let sentinel = server.url().replace("redis://", "redis-sentinel://");
        let error = failure_at_once(&format!("{sentinel}?sentinelServiceName=main"));
        assert!(matches!(error, ConnectError::Address(_)), "{error:?}");
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let error = failure_at_once(&server.url());
        assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error:?}");
        server.command(&["CONFIG", "SET", "replica-read-only", "no"]);
        works(ServerTarget::parse(&server.url()).expect("a target"));
    });
}

#[test]
fn an_address_where_nothing_listens_is_told_at_once() {
    let stale = socket_of_the_dead();
    let urls = [
        "redis://127.0.0.1:1".to_owned(),
        "redis://localhost:1".to_owned(),
        "redis-cluster://127.0.0.1:1?node=127.0.0.1:2".to_owned(),
        "redis-sentinel://127.0.0.1:1?sentinelServiceName=main&node=127.0.0.1:2".to_owned(),
        "redis+unix:///no/such/socket".to_owned(),
        format!("redis+unix://{}", stale.display()),
    ];
    for url in urls {
        let error = failure_at_once(&url);
        let ConnectError::NothingListens { source, .. } = &error else { panic!("{url}: {error:?}") };
        let kind = source.downcast_ref::<io::Error>().map(io::Error::kind);
        let expected =
            if url.ends_with("/no/such/socket") { io::ErrorKind::NotFound } else { io::ErrorKind::ConnectionRefused };
        assert_eq!(kind, Some(expected), "{url}: {error:?}");
        assert!(error.to_string().contains("connect_lazy"), "{error}");
    }
    std::fs::remove_file(&stale).expect("a socket");
}

/// A socket whose server is gone.
fn socket_of_the_dead() -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("leasehold-{}.sock", uuid::Uuid::new_v4()));
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    path
}

/// A call that waits for the background has an unknown outcome after its timeout.
#[test]
fn a_call_to_a_server_never_met_ends_at_once() {
    let target = ServerTarget::parse("redis://127.0.0.1:1").expect("a target");
    let home = runtime();
    let _context = home.enter();
    let link = ServerLink::new(target, settings(), None);
    let decided = link.settlings(false);
    let known = link.start(decided, CallId::new(1), inspect("a"));
    assert!(matches!(known, Ok(Some(Err(LinkError::NotSent(_))))), "{known:?}");
}

#[test]
fn one_address_that_does_not_refuse_is_tried_until_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("an address");
    let some = [
        format!("redis-cluster://127.0.0.1:1?node={silent}"),
        "redis-cluster://127.0.0.1:1?node=no-such-host.invalid:1".to_owned(),
        format!("redis-sentinel://127.0.0.1:1?sentinelServiceName=main&node={silent}"),
    ];
    for url in some {
        let began = Instant::now();
        let error = failure_at(&url);
        assert!(!matches!(error, ConnectError::NothingListens { .. }), "{url}: {error:?}");
        assert!(began.elapsed() >= Duration::from_millis(700), "{url}: {:?}", began.elapsed());
    }
}

#[test]
fn an_address_that_refuses_does_not_hide_another() {
    on_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        let node = cluster.nodes().first().expect("a node").addr();
        works(ServerTarget::parse(&format!("redis-cluster://127.0.0.1:1?node={node}")).expect("a target"));
        let world = Sentinel::start_with(binary);
        let sentinel = world.sentinel().addr();
        let url = world.url().replace(&sentinel.to_string(), "127.0.0.1:1") + &format!("&node={sentinel}");
        works(ServerTarget::parse(&url).expect("a target"));
        // The Sentinel is up, and its primary is about to be replaced.
        world.primary().kill();
        let error = failure_at(&world.url());
        assert!(!matches!(error, ConnectError::NothingListens { .. }), "{error:?}");
    });
}

#[test]
fn resp2_is_chosen_by_the_url() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let world = works(ServerTarget::parse(&format!("{}?protocol=resp2", server.url())).expect("a target"));
        assert!(
            server.client_list().iter().filter(|client| client.get("resp").is_some_and(|resp| resp == "2")).count()
                >= 3
        );
        world.block_on(world.link.subscribe(key("c"))).expect("a subscription");
        // A subscribed RESP3 connection answers a PING in another form.
        let before = server.commandstats("ping");
        until("both connections were pinged", || server.commandstats("ping") >= before + 6);
        assert_eq!(server.command(&["PUBLISH", "c", "0"]).as_int(), Some(1), "it is still subscribed");
        assert_eq!(world.next_event(), Some(LinkEvent::Notice { channel: key("c") }));
        drop(world);
        assert!(ServerTarget::parse("redis://host?protocol=4").is_err());
    });
}

#[test]
fn a_unix_socket_works() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).unix_socket().start();
        let path = server.unix_socket().expect("a socket").display().to_string();
        works(ServerTarget::parse(&format!("redis+unix://{path}")).expect("a target"));
    });
}

#[test]
fn malformed_urls_are_refused_without_their_password() {
    let urls = [
        "stock:1001",
        "http://:hunter2@host",
        "redis://:hunter2@",
        "redis://:hunter2@host:99999",
        "redis://:hunter2@host:6379/x",
        "redis://:hunter2@host:6379/1/2",
        "redis://:hunter2@host:0",
        "redis://:hun/ter2@host:6379",
        "redis://hunter2@host",
        "redis-nonsense://:hunter2@host",
        "redis-sentinel://:hunter2@host",
        "redis-cluster://:hunter2@host?node=other",
        "redis-cluster://:hunter2@host?node=::1:7000",
        "redis-sentinel://:hunter2@host?sentinelServiceName=main&node=[other]:1",
        "rediss+unix:///tmp/x",
        "redis+unix:///tmp/x?hunter2",
    ];
    for url in urls {
        let error = ServerTarget::parse(url).expect_err(url);
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("hunter2") && !text.contains("ter2"), "{url}: {text}");
        }
        assert!(matches!(error, ConnectError::Address(_)), "{url}: {error:?}");
    }
}

#[test]
fn urls_of_every_kind_are_read() {
    let shown = [
        ("redis://user:hunter2@host", "host:6379"),
        ("valkey://:hunter2@host:1/7", "host:1"),
        ("redis://:hunter2@[::1]:7000", "[::1]:7000"),
        ("redis+unix:///run/redis.sock?db=2", "/run/redis.sock"),
        ("redis-cluster://:hunter2@a:1?node=b:2&node=c:3", "the cluster at a:1, b:2, c:3"),
        ("redis-cluster://[::1]:1?node=[::1]:2&node=%5Bfe80::2%5D:3", "the cluster at [::1]:1, [::1]:2, [fe80::2]:3"),
        (
            "redis-sentinel://[::1]:1?sentinelServiceName=main&node=[::1]:2",
            "main, by the Sentinels at [::1]:1, [::1]:2",
        ),
        (
            "redis-sentinel://:hunter2@a:1?sentinelServiceName=main&sentinelPassword=hunter2",
            "main, by the Sentinels at a:1",
        ),
    ];
    for (url, label) in shown {
        let target = ServerTarget::parse(url).expect(url);
        assert_eq!(target.to_string(), label);
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    }
}

#[test]
fn what_was_not_finished_is_closed() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let before = server.client_list().len();
        let target = ServerTarget::parse(&server.url()).expect("a target");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let link = runtime.block_on(open(target, settings(), None)).expect("a link");
        assert_eq!(server.client_list().len(), before + 1);
        drop(link);
        until("the connections are gone", || server.client_list().len() == before);
    });
}

#[test]
fn words_of_the_server_are_a_server_error() {
    let refused = ConnectError::of_refusal("db:6379", &ServerError::new("NOAUTH Authentication required."));
    let error = crate::ConnectError::from(refused);
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ServerError>());
    assert_eq!(source.map(ServerError::code), Some("NOAUTH"));
}
