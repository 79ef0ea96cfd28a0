//! Clients that are made without waiting for a server: during an outage, and of servers that cannot be used yet.

use crate::support::{NEVER, TIMEOUT, connect, counts, on_each, on_one_of_each, runtime, settings, soon, until};
use leasehold::blocking::wait;
use leasehold::{Client, ConnectError, Error, Fallback, QuorumLock, Tuning};
use leasehold_test_support::{Cluster, Server};
use std::time::{Duration, Instant};

fn lazy(url: &str) -> Client {
    settings().connect_lazy(url).expect("a client")
}

#[test]
fn a_client_made_in_an_outage_works_once_its_server_is_there() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        server.kill();
        // No client waits for the server, which comes later.
        let threads = settings().connect_lazy(&server.url()).expect("a client");
        runtime().block_on(async {
            let clients = [lazy(&server.url()), lazy(&server.url())];
            assert!(clients.iter().all(|client| client.server().version.is_empty()));
            let lock = clients[0].lock("stock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            let thread = std::thread::spawn(move || {
                let guard = wait(threads.lock("of a thread").acquire()).expect("the lock");
                wait(guard.release()).expect("a release");
                wait(threads.shutdown(TIMEOUT)).expect("a shutdown");
            });
            until("it waits", || clients[0].stats().requests == 1).await;
            server.restart();
            let guard = soon("the lock", waiting).await.expect("a task").expect("the lock");
            until("the thread is done", || thread.is_finished()).await;
            thread.join().expect("a lock for a thread");
            assert_eq!(clients[0].server().version, server.binary().version.to_string());
            assert_eq!(counts(&server, "stock"), [1]);
            // A waiter is woken by the message, as that of any other client.
            let lock = clients[1].lock("stock");
            let waiting = tokio::spawn(async move { lock.acquire().await });
            until("it waits", || clients[1].stats().subscriptions == 1).await;
            guard.release().await.expect("a release");
            let guard = soon("the lock", waiting).await.expect("a task").expect("the lock");
            guard.release().await.expect("a release");
            for client in &clients {
                drop(client.fair_lock("fair").try_acquire().await.expect("an answer").expect("a fair lock"));
                drop(client.read_write_lock("rw").read().try_acquire().await.expect("an answer").expect("a read lock"));
                client.shutdown(TIMEOUT * 10).await.expect("a shutdown");
            }
        });
    });
}

#[test]
fn client_made_in_a_cluster_outage_works_after_it() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        cluster.nodes().iter().for_each(Server::kill);
        runtime().block_on(async {
            let clients = [lazy(&cluster.url()), lazy(&cluster.url())];
            assert!(clients[0].server().cluster, "the URL says so");
            let error = clients[0].lock("{stock").try_acquire().await.expect_err("a name for no cluster");
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            let locks: Vec<_> = (0..20).map(|number| clients[0].lock(format!("stock:{number}"))).collect();
            let waiting = tokio::spawn(async move {
                let acquires = locks.iter().map(|lock| lock.acquire().wait(Duration::from_secs(20)).into_future());
                futures_util::future::try_join_all(acquires).await
            });
            until("they wait", || clients[0].stats().requests == 20).await;
            cluster.nodes().iter().for_each(Server::restart);
            cluster.wait_until_agreed();
            let guards = waiting.await.expect("a task").expect("all locks");
            assert!(clients[0].server().sharded_notices);
            let other = clients[1].lock("stock:7");
            let waiting = tokio::spawn(async move { other.acquire().await });
            until("it waits", || clients[1].stats().subscriptions == 1).await;
            drop(guards);
            drop(soon("the lock", waiting).await.expect("a task").expect("the lock"));
        });
    });
}

#[test]
fn what_can_be_seen_without_a_server_fails_at_once() {
    for url in ["", "redis://", "http://localhost", "redis://localhost/stock", "redis-sentinel://localhost:1"] {
        let error = Client::connect_lazy(url).expect_err(url);
        assert!(matches!(error, ConnectError::Invalid { .. }), "{error:?}");
    }
    let wrong = [settings().lease(Duration::ZERO), settings().tuning(Tuning::new().recheck(Duration::ZERO))];
    for builder in wrong {
        builder.connect_lazy("redis://localhost").expect_err("a setting that cannot be used");
    }
}

#[test]
fn what_keeps_a_lazy_client_back_is_said_and_can_be_mended() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).password("sesame").start();
        let quick = || settings().unreachable_after(Duration::from_millis(1_500));
        runtime().block_on(async {
            server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
            let evicted = quick().require_noeviction(true).connect_lazy(&server.url()).expect("a client");
            let wrong = quick().connect_lazy(&format!("redis://:simsim@{}", server.addr())).expect("a client");
            for (client, words) in [(&evicted, "allkeys-lru"), (&wrong, "password")] {
                let error = soon("an error", client.lock("stock").acquire()).await.expect_err("no lock");
                assert!(matches!(error, Error::Unreachable { .. }), "{error}");
                assert!(error.to_string().contains(words), "{error}");
                assert_eq!(server.command(&["DBSIZE"]).as_int(), Some(0), "nothing was sent");
            }
            // The time between two attempts is 2.5 s at most.
            server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
            let gets_in = async |client: Client, name: &str| {
                let end = Instant::now() + Duration::from_secs(20);
                while let Err(error) = client.lock(name).acquire().await {
                    assert!(Instant::now() < end, "{error}");
                }
            };
            gets_in(evicted, "policy").await;
            server.command(&["CONFIG", "SET", "requirepass", "simsim"]);
            gets_in(wrong, "password").await;
        });
    });
}

#[test]
fn a_process_that_starts_in_an_outage_falls_back() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        server.kill();
        runtime().block_on(async {
            let local = settings().fallback(Fallback::Local).unreachable_after(Duration::from_millis(300));
            let client = local.connect_lazy(&server.url()).expect("a client");
            let lock = client.lock("stock");
            let guard = soon("a lock within the process", lock.acquire()).await.expect("the lock");
            assert!(guard.is_degraded() && guard.is_held());
            let second = lock.clone();
            let waiting = tokio::spawn(async move { second.acquire().await });
            until("the other task waits", || client.stats().requests == 1).await;
            server.restart();
            // It is asked for on the server as soon as there is one.
            until("it is there", || !guard.is_degraded()).await;
            assert_eq!(counts(&server, "stock"), [1]);
            assert!(guard.is_held() && !waiting.is_finished());
            guard.release().await.expect("a release");
            let guard = soon("the lock", waiting).await.expect("a task").expect("the lock");
            assert!(!guard.is_degraded());
            guard.release().await.expect("a release");
        });
    });
}

#[test]
fn a_lazy_client_that_never_met_its_server_ends_at_once() {
    runtime().block_on(async {
        let client = settings().announce("nobody").connect_lazy("redis://127.0.0.1:1").expect("a client");
        soon("a shutdown", client.shutdown(NEVER)).await.expect("nothing to release");
    });
    let url = "redis://127.0.0.1:1?connect_deadline=600s";
    let thread = std::thread::spawn(|| drop(Client::connect_lazy(url).expect("a client")));
    leasehold_test_support::until("the client has ended", || thread.is_finished());
}

#[test]
fn two_processes_never_both_hold_a_majority() {
    on_one_of_each(|binary| {
        let servers: Vec<Server> = (0..5).map(|_| Server::builder().binary(binary).start()).collect();
        runtime().block_on(async {
            let mut all = Vec::new();
            for server in &servers {
                all.push(connect(&server.url()).await);
            }
            let all = QuorumLock::new(all, "leader");
            // The other process starts while two servers are down. Either it has clients of the others alone, or of all five.
            servers[3..].iter().for_each(Server::kill);
            let mut three = Vec::new();
            for server in &servers[..3] {
                three.push(connect(&server.url()).await);
            }
            let three = QuorumLock::of(5, three, "leader");
            let five = QuorumLock::new(servers.iter().map(|server| lazy(&server.url())), "leader");
            // The first one is in by the servers that the other does not know, and one more.
            servers[3..].iter().for_each(Server::restart);
            for rival in [three, five] {
                servers[..2].iter().for_each(Server::kill);
                let guard = soon("the lock", all.acquire()).await.expect("the lock");
                assert_eq!(guard.servers(), 3);
                servers[..2].iter().for_each(Server::restart);
                let until = Instant::now() + Duration::from_secs(1);
                while Instant::now() < until {
                    // Out of reach of a server or busy: never granted.
                    assert!(!matches!(rival.try_acquire().await, Ok(Some(_))), "two holders at once");
                    assert!(guard.is_held());
                }
                guard.release().await.expect("a release");
                let guard = soon("the lock", rival.acquire()).await.expect("the lock");
                assert!(guard.servers() >= 3);
                assert!(all.try_acquire().await.expect("an answer").is_none());
                guard.release().await.expect("a release");
            }
        });
    });
}
