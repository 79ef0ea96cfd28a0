//! Durable locks that must be on disk, on servers that are killed, and on servers that do not synchronize their files.

use crate::durability::fell_short;
use crate::support::{TIMEOUT, on_each, runtime, settings, soon};
use leasehold::{Client, ConnectError, LossReason, Replicas};
use leasehold_test_support::{Binary, Server, Version};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(4);

/// How long the disks are given.
const WITHIN: Duration = Duration::from_millis(400);

const fn disks_of_replicas(at_least: u32) -> Replicas {
    Replicas { at_least, within: WITHIN }
}

fn has_waitaof(binary: &Binary) -> bool {
    binary.version >= Version { major: 7, minor: 2, patch: 0 }
}

/// Runs a test on each server that has the command.
fn on_each_with_waitaof(test: impl Fn(&Binary)) {
    let ran = std::cell::Cell::new(0);
    on_each(|binary| {
        if has_waitaof(binary) {
            ran.set(ran.get() + 1);
            test(binary);
        }
    });
    assert!(ran.get() > 0, "no server has WAITAOF; run `cargo xtask servers`");
}

fn server(binary: &Binary, appendfsync: &str) -> Server {
    Server::builder().binary(binary).arg("appendonly", "yes").arg("appendfsync", appendfsync).start()
}

async fn client(server: &Server) -> Client {
    settings().lease(LEASE).fsync(true).connect(&server.url()).await.expect("a client")
}

#[test]
fn granted_lock_outlives_a_crash_of_its_server() {
    on_each_with_waitaof(|binary| {
        let server = server(binary, "always");
        runtime().block_on(async {
            let client = client(&server).await;
            let plain = client.lock("plain").acquire().await.expect("the lock");
            assert_eq!((plain.acknowledged(), server.commandstats("wait")), (None, 0));
            let before = server.commandstats("waitaof");
            let guard = client.lock("stock").acquire().durable(disks_of_replicas(0)).await.expect("the lock");
            assert_eq!(guard.acknowledged(), Some(1), "the disk of the primary");
            // Once for the connection, and once for the grant.
            assert_eq!((server.commandstats("waitaof") - before, server.commandstats("wait")), (2, 0));
            server.kill();
            server.restart();
            leasehold_test_support::until("the data is loaded", || server.info("loading").as_deref() == Some("0"));
            assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(1));
            soon("a release", guard.release()).await.expect("it was held to the end");
        });
    });
}

#[test]
fn grant_that_no_disk_confirms_is_taken_back() {
    on_each_with_waitaof(|binary| {
        // Such a server leaves it to the operating system when it writes.
        let server = server(binary, "no");
        runtime().block_on(async {
            let client = client(&server).await;
            let began = Instant::now();
            let result = soon("an acquire", client.lock("stock").acquire().durable(disks_of_replicas(0))).await;
            assert_eq!(fell_short(result), (0, 1));
            assert!(began.elapsed() >= WITHIN, "{:?}", began.elapsed());
            assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0), "it is free when it is said");
            // The file is switched off while the client is connected.
            server.command(&["CONFIG", "SET", "appendonly", "no"]);
            let result = soon("an acquire", client.lock("stock").acquire().durable(disks_of_replicas(0))).await;
            assert_eq!(fell_short(result), (0, 1));
            assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(0));
        });
    });
}

#[test]
fn replica_counts_only_with_its_disk() {
    on_each_with_waitaof(|binary| {
        let primary = server(binary, "always");
        let of = format!("127.0.0.1 {}", primary.port());
        let replica = |file: &str| {
            let builder = Server::builder().binary(binary).arg("replicaof", &of).arg("appendonly", file);
            builder.arg("appendfsync", "always").start()
        };
        let (without_file, with_file) = (replica("no"), replica("yes"));
        for replica in [&without_file, &with_file] {
            leasehold_test_support::until("the replica is connected", || {
                replica.info("master_link_status").as_deref() == Some("up")
            });
        }
        leasehold_test_support::until("the replica is in step", || {
            primary.command(&["SET", "probe", "1"]);
            let reply = primary.command(&["WAITAOF", "1", "1", "100"]);
            reply.elements().get(1).and_then(leasehold_test_support::Resp::as_int) == Some(1)
        });
        runtime().block_on(async {
            let client = settings().fsync(true).connect(&primary.url()).await.expect("a client");
            // A replica reports its disk once a second.
            let disks_of_replicas = |at_least| Replicas { at_least, within: Duration::from_secs(3) };
            let guard = client.lock("stock").acquire().durable(disks_of_replicas(1)).await.expect("the lock");
            assert_eq!(guard.acknowledged(), Some(2), "the primary, and the replica with a file");
            let result = soon("an acquire", client.lock("both").acquire().durable(disks_of_replicas(2))).await;
            assert_eq!(fell_short(result), (2, 3), "the other replica has the grant in memory alone");
            with_file.stop();
            let result = soon("an acquire", client.lock("one").acquire().durable(disks_of_replicas(1))).await;
            assert_eq!(fell_short(result), (1, 2));
            with_file.resume();
        });
    });
}

#[test]
fn only_a_renewal_on_disk_moves_the_deadline() {
    on_each_with_waitaof(|binary| {
        let server = server(binary, "always");
        runtime().block_on(async {
            let client = client(&server).await;
            let guard = client.lock("stock").acquire().durable(disks_of_replicas(0)).await.expect("the lock");
            server.command(&["CONFIG", "SET", "appendfsync", "no"]);
            let lost = soon("a loss", guard.lost()).await;
            assert_eq!(lost.reason(), LossReason::NotRenewed);
            assert_eq!(server.command(&["EXISTS", "stock"]).as_int(), Some(1), "the server has renewed it");
        });
    });
}

#[test]
fn server_that_cannot_confirm_is_refused_with_the_remedy() {
    on_each(|binary| {
        let server = Server::builder().binary(binary).start();
        runtime().block_on(async {
            let settings = || Client::builder().command_timeout(TIMEOUT).fsync(true);
            let error = settings().connect(&server.url()).await.expect_err("no file");
            let remedy = if has_waitaof(binary) { "set appendonly yes" } else { "use Redis 7.2" };
            assert!(matches!(error, ConnectError::Unsuitable { .. }), "{error:?}");
            assert!(error.to_string().contains(remedy) && error.to_string().contains("fsync"), "{error}");
            // A client that connects in the background gets the same words.
            let lazy = settings().unreachable_after(WITHIN).connect_lazy(&server.url()).expect("a client");
            let error = lazy.lock("stock").acquire().await.expect_err("no file");
            assert!(error.to_string().contains(remedy), "{error}");
        });
    });
}
