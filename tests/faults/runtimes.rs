//! The callers' runtime: it is saturated, it goes away while a guard lives elsewhere, or while an acquire is in flight.

use crate::support::{HUNG, RENEWED, connect, counts, held, lease_left, on_each, runtime, settings, soon, until};
use leasehold::blocking::wait;
use leasehold::{Client, Error, Lock};
use leasehold_test_support::{Proxy, Server, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;

const LEASE: Duration = RENEWED;

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
        let end = Instant::now() + LEASE * 5 / 4;
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
            soon("a release", guard.release()).await.expect("a release");
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
            crate::support::pass(LEASE * 5 / 4).await;
            assert!(guard.is_held() && lease_left(&server, "stock") > Duration::ZERO);
            let inner = soon("a re-entry", guard.reenter()).await.expect("a re-entry");
            assert_eq!(counts(&server, "stock"), [2]);
            soon("a release", inner.release()).await.expect("a release");
            soon("a release", guard.release()).await.expect("a release");
            let next = soon("an acquire", client.lock("stock").acquire()).await.expect("the lock");
            // One who waits is woken by the background too.
            let lock = client.lock("stock");
            let waiter = tokio::spawn(async move { lock.acquire().await });
            until("somebody waits", || client.stats().requests == 1 && client.stats().subscriptions == 1).await;
            next.release().await.expect("a release");
            let woken = soon("a wake-up", waiter).await.expect("a task").expect("the lock");
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
                soon("a try", async { client.lock("tried").try_acquire().await }),
                soon("an acquire", client.lock("waited").acquire()),
                soon("a release", guard.release()),
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

/// A client that gives no call up while the test goes on: whatever waits for that hangs.
async fn patient(server: &Server) -> Client {
    settings().command_timeout(Duration::from_secs(60)).connect(&server.url()).await.expect("a client")
}

/// Such a client, whose runtime lives and is not driven.
fn idle(server: &Server) -> (tokio::runtime::Runtime, Client) {
    let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = home.block_on(patient(server));
    (home, client)
}

/// Takes a lock on this thread and releases it.
fn take(client: &Client, name: &str) {
    let guard = wait(client.lock(name).acquire()).expect("a lock");
    wait(guard.release()).expect("a release");
}

/// Does so on a thread of its own, and waits until that has ended.
fn taken_on_a_thread(client: &Client) {
    let client = client.clone();
    let thread = std::thread::spawn(move || take(&client, "stock"));
    leasehold_test_support::until("the thread has had the lock", || thread.is_finished());
    thread.join().expect("a thread");
}

#[test]
fn thread_acquires_while_the_clients_runtime_stands_still() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let (_home, client) = idle(&server);
        taken_on_a_thread(&client);
    });
}

#[test]
fn a_thread_acquires_while_async_main_computes() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
        home.block_on(async {
            let client = patient(&server).await;
            // Main does not get back to its executor before both threads are done.
            taken_on_a_thread(&client);
            let (done, result) = std::sync::mpsc::channel();
            tokio::task::spawn_blocking(move || {
                take(&client, "stock");
                done.send(()).expect("a test that waits");
            });
            result.recv_timeout(HUNG).expect("a thread that the runtime keeps for blocking");
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
            let guard = soon("an acquire", client.lock("stock").acquire()).await.expect("a lock");
            soon("a release", guard.release()).await.expect("a release");
        });
    });
}
