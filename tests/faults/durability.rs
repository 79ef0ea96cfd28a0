//! Locks that replicas must acknowledge, on primaries with replicas that are frozen, killed and promoted.

use crate::support::{
    TIMEOUT, connect, counts, lease_left, on_each, on_one_of_each, pass, runtime, settings, soon, until,
};
use leasehold::{Client, Error, Guard, LossReason, Replicas};
use leasehold_test_support::{Binary, Cluster, Rounds, Sentinel, Server};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(4);

/// How long the replicas are given.
const WITHIN: Duration = Duration::from_millis(400);

/// The longest pause between two attempts to reconnect.
const BACK_OFF: Duration = Duration::from_millis(2500);

const fn replicas(at_least: u32) -> Replicas {
    Replicas { at_least, within: WITHIN }
}

/// A primary and its replicas, in step.
fn replicated(binary: &Binary, count: usize) -> (Server, Vec<Server>) {
    let builder = || Server::builder().binary(binary).arg("repl-diskless-sync-delay", "0");
    let primary = builder().start();
    let of = format!("127.0.0.1 {}", primary.port());
    let replicas: Vec<_> = (0..count).map(|_| builder().arg("replicaof", &of).start()).collect();
    in_step(&primary, &replicas);
    (primary, replicas)
}

/// Waits until all replicas acknowledge what is written. A primary counts a replica that is still loading its first copy, as
/// long as nothing has been written since; so the replicas are asked as well.
fn in_step(primary: &Server, replicas: &[Server]) {
    let up = |replica: &Server| replica.info("master_link_status").as_deref() == Some("up");
    leasehold_test_support::until("the replicas are connected", || replicas.iter().all(up));
    acknowledge(primary, "probe", replicas.len());
}

/// Waits until so many replicas acknowledge a write to an unused key.
fn acknowledge(primary: &Server, probe: &str, count: usize) {
    leasehold_test_support::until("the replicas are in step", || {
        primary.command(&["SET", probe, "1"]);
        primary.command(&["WAIT", &count.to_string(), "100"]).as_int() == i64::try_from(count).ok()
    });
    primary.command(&["DEL", probe]);
}

async fn client(url: &str) -> Client {
    settings().lease(LEASE).connect(url).await.expect("a client")
}

async fn durable(client: &Client, name: &str, replicas: Replicas) -> Result<Guard, Error> {
    client.lock(name).acquire().durable(replicas).await
}

/// The numbers of a grant that too few replicas or disks have.
#[track_caller]
pub(crate) fn fell_short(result: Result<Guard, Error>) -> (u32, u32) {
    match result {
        Err(Error::NotReplicated { acknowledged, wanted, .. }) => (acknowledged, wanted),
        other => panic!("no replica and no disk is missing: {other:?}"),
    }
}

#[test]
fn an_acquire_that_falls_short_is_taken_back_and_says_so() {
    on_each(|binary| {
        let (primary, frozen) = replicated(binary, 1);
        runtime().block_on(async {
            let (client, other) = (client(&primary.url()).await, connect(&primary.url()).await);
            let guard = durable(&client, "warm", replicas(1)).await.expect("the lock");
            guard.release().await.expect("a release");
            frozen[0].stop();
            let mut rounds = Rounds::default();
            loop {
                let waits = primary.commandstats("wait");
                let began = Instant::now();
                let result = soon("an acquire", durable(&client, "stock", replicas(1))).await;
                // It is free when it is said.
                assert_eq!(primary.command(&["EXISTS", "stock"]).as_int(), Some(0));
                assert_eq!(fell_short(result), (0, 1));
                assert!(began.elapsed() >= WITHIN, "{:?}", began.elapsed());
                // It is not asked twice, unless its task is held up beside the reply.
                let asked = primary.commandstats("wait") - waits;
                if rounds.end_with(asked == 1, asked) {
                    break;
                }
            }
            let guard = other.lock("stock").try_acquire().await.expect("an answer").expect("a lock that is free");
            assert_eq!(guard.acknowledged(), None);
            guard.release().await.expect("a release");
            frozen[0].resume();
            in_step(&primary, &frozen);
            let guard = durable(&client, "stock", replicas(1)).await.expect("the lock");
            assert_eq!(guard.acknowledged(), Some(1));
        });
    });
}

#[test]
fn the_guard_knows_how_many_acknowledged() {
    on_one_of_each(|binary| {
        let (primary, replica) = replicated(binary, 2);
        runtime().block_on(async {
            let client = client(&primary.url()).await;
            let guard = durable(&client, "both", replicas(2)).await.expect("the lock");
            assert_eq!(guard.acknowledged(), Some(2));
            replica[1].stop();
            assert_eq!(fell_short(durable(&client, "one", replicas(2)).await), (1, 2));
            let one = durable(&client, "one", replicas(1)).await.expect("the lock");
            assert_eq!(one.acknowledged(), Some(1));
            // A re-entry stands under the condition of its hold.
            let inner = one.reenter().await.expect("a re-entry");
            assert_eq!(fell_short(guard.reenter().await), (1, 2));
            assert_eq!((counts(&primary, "one"), counts(&primary, "both")), (vec![2], vec![1]));
            assert!(guard.is_held(), "the re-entry failed, and the hold did not");
            drop(inner);
            replica[1].resume();
        });
    });
}

/// Waits until a time that is left has become longer.
async fn rises(what: &str, mut left: impl FnMut() -> Duration) {
    let mut before = left();
    until(what, || {
        let now = left();
        now > std::mem::replace(&mut before, now)
    })
    .await;
}

#[test]
fn only_an_acknowledged_renewal_moves_the_deadline() {
    on_one_of_each(|binary| {
        let (primary, frozen) = replicated(binary, 1);
        runtime().block_on(async {
            let client = client(&primary.url()).await;
            let guard = durable(&client, "stock", replicas(1)).await.expect("the lock");
            let plain = client.lock("plain").acquire().await.expect("the lock");
            let acknowledged = || rises("a renewal is acknowledged", || guard.remaining());
            acknowledged().await;
            frozen[0].stop();
            // Longer than a renewal takes to come, and shorter than what the last one has left.
            pass(LEASE * 3 / 8).await;
            assert!(guard.is_held(), "an acknowledged renewal came before");
            frozen[0].resume();
            // Thawed in time: it goes on.
            acknowledged().await;
            frozen[0].stop();
            rises("the primary renews it, and that does not count", || lease_left(&primary, "stock")).await;
            rises("nobody else's renewal waits for that replica", || plain.remaining()).await;
            let lost = soon("the loss", guard.lost()).await;
            assert_eq!(lost.reason(), LossReason::NotRenewed);
            assert!(plain.is_held());
            drop(guard);
            until("it is released", || primary.command(&["EXISTS", "stock"]).as_int() == Some(0)).await;
            frozen[0].resume();
        });
    });
}

#[test]
fn replicas_of_the_slots_primary_count_on_a_cluster() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).replicas().start();
        let name_on = |node: &Server| {
            let names = (0..).map(|number| format!("stock:{number}"));
            names.into_iter().find(|name| cluster.node_of(name).port() == node.port()).expect("a name")
        };
        let (healthy, lonely) = (&cluster.nodes()[0], &cluster.nodes()[1]);
        let names = [name_on(healthy), name_on(lonely)];
        for primary in [healthy, lonely] {
            // The probe's slot must be the node's own.
            let probe = name_on(primary);
            let replica = cluster.replica_of(primary).expect("a replica");
            leasehold_test_support::until("the replica is connected", || {
                replica.info("master_link_status").as_deref() == Some("up")
            });
            acknowledge(primary, &probe, 1);
        }
        runtime().block_on(async {
            let client = client(&cluster.url()).await;
            for name in &names {
                let guard = durable(&client, name, replicas(1)).await.expect("the lock");
                assert_eq!(guard.acknowledged(), Some(1));
                guard.release().await.expect("a release");
            }
            let replica = cluster.replica_of(lonely).expect("a replica");
            replica.stop();
            let (one, other) =
                tokio::join!(durable(&client, &names[0], replicas(1)), durable(&client, &names[1], replicas(1)));
            assert_eq!(one.expect("the lock").acknowledged(), Some(1));
            assert_eq!(fell_short(other), (0, 1));
            assert_eq!(lonely.command(&["EXISTS", &names[1]]).as_int(), Some(0));
            replica.resume();
        });
    });
}

/// The connection that waits for replicas.
fn waiting_connection(primary: &Server) -> Option<String> {
    let all = primary.client_list();
    let waits = |client: &&std::collections::BTreeMap<String, String>| {
        client.get("cmd").is_some_and(|cmd| cmd == "wait")
            && client.get("flags").is_some_and(|flags| flags.contains('b'))
    };
    all.iter().find(waits)?.get("id").cloned()
}

/// Kills the connection while the server waits for replicas, once it does.
async fn kill_waiting(primary: &Server) {
    let mut id = None;
    until("the server waits for replicas", || {
        id = waiting_connection(primary);
        id.is_some()
    })
    .await;
    primary.command(&["CLIENT", "KILL", "ID", &id.expect("a connection")]);
}

#[test]
fn durable_wait_on_a_dead_connection_is_taken_back() {
    on_one_of_each(|binary| {
        let (primary, frozen) = replicated(binary, 1);
        let patient = Replicas { at_least: 1, within: LEASE / 4 };
        runtime().block_on(async {
            let client = client(&primary.url()).await;
            durable(&client, "warm", patient).await.expect("the lock").release().await.expect("a release");
            frozen[0].stop();
            // Dropped: nothing is left of it.
            let acquiring = tokio::spawn({
                let acquire = client.lock("dropped").acquire().durable(patient);
                async move { acquire.await }
            });
            kill_waiting(&primary).await;
            acquiring.abort();
            until("it is taken back", || primary.command(&["EXISTS", "dropped"]).as_int() == Some(0)).await;
            // Settled, and then asked once more: the second answer is about the first copy's write as well.
            let acquiring = tokio::spawn({
                let acquire = client.lock("stock").acquire().durable(patient);
                async move { acquire.await }
            });
            kill_waiting(&primary).await;
            let result = soon("an acquire", acquiring).await.expect("a task");
            assert_eq!(fell_short(result), (0, 1));
            assert_eq!(primary.command(&["EXISTS", "stock"]).as_int(), Some(0));
            until("the client is at rest", || client.stats() == leasehold::ClientStats::default()).await;
            frozen[0].resume();
            in_step(&primary, &frozen);
            let guard = durable(&client, "stock", patient).await.expect("the lock");
            assert_eq!(guard.acknowledged(), Some(1));
        });
    });
}

#[test]
fn a_replica_that_acknowledged_has_the_lock_when_it_is_promoted() {
    on_one_of_each(|binary| {
        let world = Sentinel::start_with(binary);
        acknowledge(world.primary(), "probe", 1);
        runtime().block_on(async {
            let client = settings().connect(&world.url()).await.expect("a client");
            let other = connect(&world.url()).await;
            let (old, new) = (world.primary(), world.replica());
            let guard = durable(&client, "stock", replicas(1)).await.expect("the lock");
            old.kill();
            world.wait_for_primary(new);
            assert_eq!(counts(new, "stock"), [1]);
            assert!(guard.is_held());
            // Long enough for a client that is still on its way to the new primary.
            let waited = other.lock("stock").acquire().wait(BACK_OFF + TIMEOUT).await;
            assert!(matches!(waited, Err(Error::WaitElapsed { .. })), "the lock is held: {waited:?}");
            drop(guard);
        });
    });
}

#[test]
fn a_user_who_may_not_wait_is_told_before_anything_is_acquired() {
    on_one_of_each(|binary| {
        let rule = "app on >secret ~* &* +@all -wait";
        let primary = Server::builder().binary(binary).user(rule).start();
        runtime().block_on(async {
            let client = client(&format!("redis://app:secret@{}", primary.addr())).await;
            let error = durable(&client, "stock", replicas(1)).await.expect_err("a user who may not wait");
            assert!(matches!(&error, Error::Refused { refusal, .. } if refusal.text().contains("NOPERM")), "{error}");
            assert_eq!(primary.command(&["EXISTS", "stock"]).as_int(), Some(0));
        });
    });
}
