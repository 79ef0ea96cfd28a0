//! The callers' runtime: it is saturated, it goes away while a guard lives elsewhere, or while an acquire is in flight.

use crate::support::{TIMEOUT, connect, counts, held, lease_left, on_each, runtime, settings, until, within};
use leasehold::{Client, Error, Lock};
use leasehold_test_support::{Proxy, Server, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const LEASE: Duration = Duration::from_millis(900);

#[test]
fn a_job_that_blocks_every_worker_keeps_its_lock() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let runtime = runtime();
        let client = runtime.block_on(settings().lease(LEASE).connect(&server.url()).into_future()).expect("a client");
        let guard = runtime.block_on(held(&client, "stock"));
        // Dropped before the runtime, which waits for its workers, even if this test fails.
        let free = SetOnDrop(Arc::default());
        let block = || {
            let over = free.0.clone();
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let blocked = [block(), block()];
        let end = Instant::now() + LEASE * 2;
        while Instant::now() < end {
            assert!(guard.is_held());
            assert_eq!(counts(&server, "stock"), [1]);
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(free);
        runtime.block_on(async {
            for worker in blocked {
                worker.await.expect("a worker that is free again");
            }
            within("a release", TIMEOUT * 2, guard.release()).await.expect("a release");
        });
        assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
    });
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_guard_outlives_the_runtime_of_its_client() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = runtime();
        let client = home.block_on(settings().lease(LEASE).connect(&server.url()).into_future()).expect("a client");
        let guard = home.block_on(held(&client, "stock"));
        drop(home);
        let other = Builder::new_current_thread().enable_all().build().expect("a runtime");
        other.block_on(async {
            crate::support::pass(LEASE * 2).await;
            assert!(guard.is_held() && lease_left(&server, "stock") > Duration::ZERO);
            let inner = within("a re-entry", TIMEOUT * 2, guard.reenter()).await.expect("a re-entry");
            assert_eq!(counts(&server, "stock"), [2]);
            within("a release", TIMEOUT * 2, inner.release()).await.expect("a release");
            within("a release", TIMEOUT * 2, guard.release()).await.expect("a release");
            let next = within("an acquire", TIMEOUT * 2, client.lock("stock").acquire()).await.expect("the lock");
            // One who waits is woken by the background too.
            let lock = client.lock("stock");
            let waiter = tokio::spawn(async move { lock.acquire().await });
            until("somebody waits", || client.stats().requests == 1 && client.stats().subscriptions == 1).await;
            next.release().await.expect("a release");
            let woken = within("a wake-up", TIMEOUT, waiter).await.expect("a task").expect("the lock");
            woken.release().await.expect("a release");
        });
        assert_eq!(server.command(&["DBSIZE"]).as_int(), Some(0));
    });
}

#[test]
fn acquire_in_flight_on_a_dropped_runtime_leaves_nothing() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = runtime();
        let proxy = Proxy::to(&server);
        let client = home.block_on(connect(&proxy.url()));
        home.block_on(async { held(&client, "warm").await.release().await.expect("a release") });
        for round in 0..5 {
            let home = runtime();
            let client = home.block_on(connect(&proxy.url()));
            // The server grants it, and the reply is lost.
            proxy.freeze(Way::ToClient);
            let lock: Lock = client.lock(format!("stock:{round}"));
            let name = lock.name().to_owned();
            drop(home.spawn(async move { lock.acquire().await }));
            leasehold_test_support::until("the server has granted it", || counts(&server, &name) == [1]);
            drop(home);
            proxy.thaw(Way::ToClient);
            leasehold_test_support::until("it is taken back", || {
                server.command(&["EXISTS", &name]).as_int() == Some(0) && client.stats().cleaning_up == 0
            });
            assert_eq!(client.stats().requests, 0);
        }
    });
}

#[test]
fn request_stuck_in_the_network_takes_no_lock_later() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let proxy = Proxy::to(&server);
        let home = runtime();
        let client = home.block_on(connect(&proxy.url()));
        home.block_on(async { held(&client, "stock").await.release().await.expect("a release") });
        let trap = proxy.hold_request("stock");
        let lock = client.lock("stock");
        drop(home.spawn(async move { lock.acquire().await }));
        trap.wait();
        drop(home);
        leasehold_test_support::until("it is settled", || client.stats().cleaning_up == 0);
        let answers = proxy.deliver_held();
        assert!(answers.iter().all(Option::is_none), "the server has closed its connection: {answers:?}");
        assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
    });
}

#[test]
fn a_server_out_of_reach_is_reported_as_such() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let patience = Duration::from_secs(2);
            let client = settings().unreachable_after(patience).connect(&server.url()).await.expect("a client");
            let guard = held(&client, "held").await;
            server.kill();
            let (tried, waited, released) = tokio::join!(
                within("a try", TIMEOUT * 2, async { client.lock("tried").try_acquire().await }),
                within("an acquire", patience + TIMEOUT, client.lock("waited").acquire()),
                within("a release", patience + TIMEOUT, guard.release()),
            );
            for error in [tried.expect_err("no lock"), waited.expect_err("no lock"), released.expect_err("no release")]
            {
                // The first command after the end of the server may have been sent.
                assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error:?}");
                let text = error.to_string();
                let says = ["the connection was refused", "was lost", "no reply came"];
                assert!(says.iter().any(|words| text.contains(words)), "{text}");
            }
        });
    });
}

#[test]
fn the_futures_of_callers_are_small() {
    let server = Server::start();
    runtime().block_on(async {
        let client = connect(&server.url()).await;
        let lock = client.lock("stock");
        let sizes = [
            ("connect", size_of_val(&settings().connect(&server.url())), 32 * 1024),
            ("try_acquire", size_of_val(&lock.try_acquire()), 16 * 1024),
            ("inspect", size_of_val(&lock.inspect()), 16 * 1024),
            ("force_release", size_of_val(&lock.force_release()), 16 * 1024),
            ("release", size_of_val(&held(&client, "stock").await.release()), 16 * 1024),
        ];
        for (what, size, most) in sizes {
            assert!(size <= most, "the future of {what} has {size} bytes");
        }
    });
}

/// How long an acquire of a free lock may take, on a client with the default settings. Such a client gives a call up after 3 s.
const AT_ONCE: Duration = Duration::from_millis(1500);

/// A client whose runtime lives and is not driven.
fn idle(server: &Server) -> (tokio::runtime::Runtime, Client) {
    let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = home.block_on(Client::connect(&server.url())).expect("a client");
    (home, client)
}

/// Takes a lock on this thread and releases it.
fn take(client: &Client, name: &str) -> Duration {
    let began = Instant::now();
    let guard = leasehold::blocking::Client::from(client.clone()).lock(name).acquire().expect("a lock");
    let took = began.elapsed();
    guard.release().expect("a release");
    took
}

#[test]
fn thread_acquires_while_the_clients_runtime_stands_still() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let (_home, client) = idle(&server);
        let took = std::thread::spawn(move || take(&client, "stock")).join().expect("a thread");
        assert!(took < AT_ONCE, "{took:?}");
    });
}

#[test]
fn a_thread_acquires_while_async_main_computes() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
        home.block_on(async {
            let client = Client::connect(&server.url()).await.expect("a client");
            let other = client.clone();
            // Main does not get back to its executor before both threads are done.
            let took = std::thread::spawn(move || take(&other, "stock")).join().expect("a thread");
            assert!(took < AT_ONCE, "{took:?}");
            let (done, result) = std::sync::mpsc::channel();
            tokio::task::spawn_blocking(move || done.send(take(&client, "stock")).expect("a test that waits"));
            let took =
                result.recv_timeout(Duration::from_secs(20)).expect("a thread that the runtime keeps for blocking");
            assert!(took < AT_ONCE, "{took:?}");
        });
    });
}

#[test]
fn second_runtime_acquires_while_the_clients_stands_still() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let (_home, client) = idle(&server);
        let other = Builder::new_current_thread().enable_all().build().expect("a runtime");
        other.block_on(async {
            let guard = within("an acquire", AT_ONCE, client.lock("stock").acquire()).await.expect("a lock");
            within("a release", AT_ONCE, guard.release()).await.expect("a release");
        });
    });
}
