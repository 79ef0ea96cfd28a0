//! Clusters whose slots move, and whose nodes freeze.

use crate::support::{
    NEVER, RENEWED, TIMEOUT, counts, held, lease_left, on_one_of_each, runtime, settings, soon, until,
};
use leasehold::{Client, Error, LossReason, PublishCommand, Tuning};
use leasehold_test_support::{Cluster, Server};
use std::time::Duration;

const LEASE: Duration = RENEWED;

/// A node of the cluster other than this one.
fn another<'a>(cluster: &'a Cluster, node: &Server) -> &'a Server {
    cluster.nodes().iter().find(|other| other.port() != node.port()).expect("another node")
}

/// The name of a lock that lives on a node.
fn name_on(cluster: &Cluster, node: &Server, family: &str) -> String {
    let names = (0..).map(|number| format!("{family}:{number}"));
    names.into_iter().find(|name| cluster.node_of(name).port() == node.port()).expect("a name for every node")
}

async fn client(cluster: &Cluster, publish: PublishCommand) -> Client {
    settings().lease(LEASE).tuning(Tuning::new().publish(publish)).connect(&cluster.url()).await.expect("a client")
}

#[test]
fn a_lock_moves_with_its_slot_while_it_is_held() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        runtime().block_on(async {
            let client = client(&cluster, PublishCommand::Auto).await;
            let slot = cluster.slot_of("{stock}");
            let from = cluster.owner_of(slot).expect("its node");
            let to = another(&cluster, from);
            let guard = held(&client, "{stock}:1").await;
            let inner = guard.reenter().await.expect("a re-entry");
            cluster.begin_migration(slot, to);
            // One key: it is asked for where it is, or is to be.
            let early = soon("an acquire", client.lock("{stock}:2").acquire()).await.expect("the lock");
            assert_eq!(counts_asking(to, "{stock}:2"), 1, "a key that is not there is made at the new node");
            cluster.move_keys(slot, to);
            crate::support::pass(LEASE).await;
            assert!(guard.is_held() && early.is_held(), "renewed on the way");
            cluster.finish_migration(slot, to);
            soon("a release", inner.release()).await.expect("a release");
            assert_eq!(counts(to, "{stock}:1"), [1]);
            crate::support::pass(LEASE).await;
            assert!(guard.is_held() && lease_left(to, "{stock}:1") > Duration::ZERO);
            soon("a re-entry", guard.reenter()).await.expect("a re-entry").release().await.expect("one less");
            soon("a release", guard.release()).await.expect("a release");
            soon("a release", early.release()).await.expect("a release");
            assert_eq!(to.command(&["EXISTS", "{stock}:1", "{stock}:2"]).as_int(), Some(0));
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}

/// How many fields a hash has on a node that imports its slot.
fn counts_asking(node: &Server, key: &str) -> i64 {
    let mut connection = node.connect().expect("a connection");
    connection.command(&["ASKING"]).expect("an answer");
    connection.command(&["HLEN", key]).expect("an answer").as_int().expect("a number")
}

#[test]
fn a_lock_is_released_and_taken_again_while_its_slot_moves() {
    on_one_of_each(|binary| {
        for batches in [false, true] {
            let cluster = Cluster::builder().binary(binary).start();
            runtime().block_on(async {
                let settings = settings().lease(NEVER).tuning(Tuning::new().batch_calls(batches));
                let client = settings.connect(&cluster.url()).await.expect("a client");
                let slot = cluster.slot_of("{stock}");
                let from = cluster.owner_of(slot).expect("its node");
                let to = another(&cluster, from);
                let lock = client.lock("{stock}:lock");
                let guard = lock.acquire().await.expect("the lock");
                let kept = client.lock("{stock}:kept").acquire().keep_busy_for(Duration::from_millis(1));
                let kept = kept.await.expect("the lock");
                let forced = client.lock("{stock}:forced");
                let taken = forced.acquire().await.expect("the lock");
                let spinning = client.spin_lock("{stock}:spin").acquire().await.expect("the lock");
                let fenced = client.fenced_lock("{stock}:fenced").acquire().await.expect("the lock");
                let seats = client.bare_semaphore("{stock}:seats");
                assert!(seats.try_set_permits(2).await.expect("an answer"));
                let seat = seats.acquire().await.expect("a permit");
                let desks = client.semaphore("{stock}:desks");
                assert!(desks.try_set_permits(2).await.expect("an answer"));
                let desk = desks.acquire().await.expect("a permit");
                let simple = client.simple_lock("{stock}:simple", NEVER).acquire().await.expect("the lock");

                cluster.begin_migration(slot, to);
                soon("a release", guard.release()).await.expect("a release");
                soon("a release with a rest", kept.release()).await.expect("a release");
                soon("a forced release", forced.force_release()).await.expect("an answer").expect("it was held");
                soon("a spinning release", spinning.release()).await.expect("a release");
                soon("a fenced release", fenced.release()).await.expect("a release");
                soon("a permit back", seat.release()).await.expect("a release");
                soon("a leased permit back", desk.release()).await.expect("a release");
                soon("a simple release", simple.release()).await.expect("a release");
                let gone = ["{stock}:lock", "{stock}:forced", "{stock}:spin", "{stock}:fenced"];
                for name in gone {
                    let answer = from.command(&["HLEN", name]);
                    assert!(answer.as_str().is_some_and(|text| text.starts_with("ASK ")), "{name}: {answer:?}");
                }
                // Where the slot is to be, a lock comes and goes as well.
                let again = soon("an acquire", lock.acquire()).await.expect("the lock");
                assert_eq!(counts_asking(to, "{stock}:lock"), 1);
                soon("a release there", again.release()).await.expect("a release");
                assert_eq!(counts_asking(to, "{stock}:lock"), 0);

                cluster.move_keys(slot, to);
                cluster.finish_migration(slot, to);
                drop(taken);
                until("the client is at rest", || client.stats().cleaning_up == 0).await;
            });
        }
    });
}

#[test]
fn release_of_a_lock_with_several_keys_is_done_after_the_migration() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        runtime().block_on(async {
            let client = client(&cluster, PublishCommand::Auto).await;
            let slot = cluster.slot_of("{stock}");
            let from = cluster.owner_of(slot).expect("its node");
            let to = another(&cluster, from);
            // The queue of a fair lock is not there, and the lock is: neither node answers for both.
            let guard = client.fair_lock("{stock}:1").acquire().await.expect("the lock");
            let halves = client.read_write_lock("{stock}:2");
            let reader = halves.read().acquire().await.expect("the lock");
            let writer = client.read_write_lock("{stock}:3").write().acquire().await.expect("the lock");
            let both = leasehold::MultiLock::new([
                leasehold::AnyLock::from(client.fenced_lock("{stock}:4")),
                client.read_write_lock("{stock}:5").write().into(),
            ]);
            let both = both.acquire().await.expect("the locks");
            cluster.begin_migration(slot, to);
            let release = tokio::spawn(async move {
                let released = tokio::join!(guard.release(), reader.release(), writer.release(), both.release());
                released.0.and(released.1).and(released.2).and(released.3)
            });
            crate::support::pass(TIMEOUT).await;
            cluster.move_keys(slot, to);
            cluster.finish_migration(slot, to);
            let released = soon("a release", release).await.expect("a task");
            released.expect("a release");
            for name in ["{stock}:1", "{stock}:2", "{stock}:3", "{stock}:4", "{stock}:5"] {
                assert_eq!(to.command(&["EXISTS", name]).as_int(), Some(0), "{name}");
            }
        });
    });
}

#[test]
fn operators_and_tries_are_answered_though_the_slot_moves() {
    on_one_of_each(|binary| {
        let cluster = Cluster::builder().binary(binary).start();
        runtime().block_on(async {
            let patient = Duration::from_secs(5);
            let client = settings().command_timeout(patient).connect(&cluster.url()).await.expect("a client");
            let lock = client.fair_lock("{stock}:1");
            let _held = lock.try_acquire().await.expect("an answer").expect("a lock that is free");
            let other = client.fair_lock("{stock}:2");
            let _other = other.try_acquire().await.expect("an answer").expect("a lock that is free");
            let slot = cluster.slot_of("{stock}");
            let from = cluster.owner_of(slot).expect("its node");
            let to = another(&cluster, from);
            cluster.begin_migration(slot, to);
            // The lock is still here, and the queue that it does not have would be there: neither node answers for both.
            let asked = tokio::spawn(async move { (lock.inspect().await, lock.force_release().await) });
            let tried = tokio::spawn(async move { other.try_acquire().await });
            crate::support::pass(TIMEOUT / 2).await;
            cluster.move_keys(slot, to);
            cluster.finish_migration(slot, to);
            let (inspected, released) = soon("the answers", asked).await.expect("a task");
            let tried = soon("a try", tried).await.expect("a task");
            assert!(tried.expect("an answer").is_none(), "it is held");
            assert!(inspected.expect("an answer").holder.is_some());
            assert!(released.expect("an answer").is_some(), "it was held");
        });
    });
}

#[test]
fn a_waiter_gets_in_though_the_slot_moves_under_it() {
    on_one_of_each(|binary| {
        for publish in [PublishCommand::Classic, PublishCommand::Sharded] {
            let cluster = Cluster::builder().binary(binary).start();
            runtime().block_on(async {
                let slot = cluster.slot_of("stock");
                let from = cluster.owner_of(slot).expect("its node");
                let (holder, waiting) = (client(&cluster, publish).await, client(&cluster, publish).await);
                // The lease is long, so that only a notice, or the client's own care, wakes the waiter in time.
                let guard = holder.lock("stock").acquire().lease(NEVER).await.expect("the lock");
                let lock = waiting.lock("stock");
                let waiter = tokio::spawn(async move { lock.acquire().await });
                until("somebody listens", || listeners(&cluster, publish) == 1).await;
                cluster.migrate_slot(slot, another(&cluster, from));
                soon("a release", guard.release()).await.expect("a release");
                let woken = soon("a wake-up", waiter).await.expect("a task").expect("the lock");
                assert_eq!(counts(cluster.node_of("stock"), "stock"), [1], "{publish:?}");
                woken.release().await.expect("a release");
            });
        }
    });
}

fn listeners(cluster: &Cluster, publish: PublishCommand) -> usize {
    let what = if publish == PublishCommand::Sharded { "SHARDCHANNELS" } else { "CHANNELS" };
    cluster.nodes().iter().map(|node| node.command(&["PUBSUB", what]).elements().len()).sum()
}

#[test]
fn one_frozen_node_costs_its_own_locks_and_no_others() {
    on_one_of_each(|binary| {
        // The others go on serving their slots, however long the node is silent.
        let cluster = Cluster::builder().binary(binary).arg("cluster-require-full-coverage", "no");
        let cluster = cluster.arg("cluster-node-timeout", "60000").start();
        runtime().block_on(async {
            let client = client(&cluster, PublishCommand::Auto).await;
            // The node with the lowest slots, and many locks on it: their renewals stand in front of all others.
            let [frozen, well, _] = cluster.nodes() else { panic!("three nodes") };
            let names: Vec<_> = (0..240).map(|number| format!("many:{number}")).collect();
            let (mut doomed, mut sound) = (Vec::new(), Vec::new());
            for name in names.iter().take(240) {
                let guard = held(&client, name).await;
                if cluster.node_of(name).port() == frozen.port() { doomed.push(guard) } else { sound.push(guard) }
            }
            assert!(doomed.len() > 50 && sound.len() > 100, "{} and {}", doomed.len(), sound.len());
            let name = name_on(&cluster, well, "other");
            let patient = settings().command_timeout(Duration::from_secs(60));
            let patient = patient.connect(&cluster.url()).await.expect("a client");
            frozen.stop();
            // Nobody waits behind a call that is not answered.
            let stuck = patient.lock(name_on(&cluster, frozen, "stuck"));
            let stuck = tokio::spawn(async move { stuck.acquire().await });
            until("it is asked for", || patient.stats().requests == 1).await;
            for _ in 0..50 {
                held(&patient, &name).await.release().await.expect("a release");
            }
            assert!(!stuck.is_finished(), "the pairs on a healthy node waited for the frozen one");
            stuck.abort();
            let stopped = std::time::Instant::now();
            while stopped.elapsed() < LEASE * 2 {
                held(&client, &name).await.release().await.expect("a release");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for guard in &sound {
                assert!(guard.is_held(), "{guard:?}");
            }
            for guard in &doomed {
                let lost = soon("the news of the loss", guard.lost()).await;
                assert_eq!(lost.reason(), LossReason::NotRenewed);
            }
            // A caller that wants a lock of that node is told, in time.
            let there = client.lock(doomed.first().expect("a lock").lock().name());
            drop(doomed);
            let error = soon("a try", there.try_acquire()).await.expect_err("no answer");
            assert!(matches!(error, Error::Unreachable { .. } | Error::OutcomeUnknown { .. }), "{error:?}");
            frozen.resume();
            let back = soon("an acquire", there.acquire()).await;
            back.expect("the lock").release().await.expect("a release");
            for guard in sound {
                guard.release().await.expect("a release");
            }
            until("the client is at rest", || client.stats().cleaning_up == 0).await;
        });
    });
}
