//! How long a waiter of one side sleeps on after a release of the other.

use crate::kind::{Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{NEVER, World, clock, settings};
use leasehold::{PublishCommand, Tuning};
use std::time::Duration;

/// The time below which half of the wake-ups must stay, from before the release is sent until the waiter holds the lock.
const USUAL: Duration = Duration::from_millis(100);

/// The time below which every wake-up must stay, on a machine that is busy with something else. A waiter that misses the notice sleeps for
/// as long as the lease, which is far more.
const WORST: Duration = Duration::from_secs(1);

/// How many wake-ups are measured of each sort.
pub(super) const ROUNDS: usize = 10;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        for kind in Kind::NOTICED {
            cases.add_alone(place, format!("{kind}: Rust wakes up when a JVM unlocks"), kind, rust_wakes);
            cases.add_alone(place, format!("{kind}: a JVM wakes up when Rust releases"), kind, jvm_wakes);
        }
    }
    let name = "lock: both wake up with sharded notices off";
    cases.add_alone(PlaceName::Cluster, name, Kind::Lock, without_sharding);
}

async fn rust_wakes(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        jvm.tell("lock", &[&object, &NEVER.as_millis().to_string()]).await;
        let acquire = lock.acquire(Wish::default());
        let waiting = tokio::spawn(async { (acquire.await, clock()) });
        world.until_waiting(kind, 1).await;
        let unlocked = jvm.tell("unlock", &[&object]).await;
        let (guard, woken) = waiting.await.expect("a task");
        waits.push(woken.saturating_sub(unlocked.began));
        guard.expect("the lock").release().await.expect("a release");
        world.until_waiting(kind, 0).await;
    }
    judge(&world, waits);
}

async fn jvm_wakes(world: World, kind: Kind) {
    let (jvm, lock, object) = (world.actor("jvm"), world.lock(kind), world.object(kind));
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS {
        let guard = lock.acquire(Wish { lease: Some(NEVER), ..Wish::default() }).await.expect("the lock");
        let waiting = jvm.begin("lock", &[&object]).await;
        world.until_waiting(kind, 1).await;
        let released = clock();
        guard.release().await.expect("a release");
        let woken = waiting.await.expect("an answer").expect("no exception").ended;
        waits.push(woken.saturating_sub(released));
        jvm.tell("unlock", &[&object]).await;
        world.until_waiting(kind, 0).await;
    }
    judge(&world, waits);
}

/// A fleet whose JVMs were told not to use sharded notices.
async fn without_sharding(world: World, kind: Kind) {
    let jvm = world.instance(&["sharded=OFF"]).await;
    let client = world.client(settings().tuning(Tuning::new().publish(PublishCommand::Classic))).await;
    let (lock, object) = (kind.of(&client, &world.name), world.object(kind));
    let listening = || {
        let channel = kind.channel(&world.name);
        let nodes = world.shared.place.nodes();
        let numbers = nodes.iter().map(|node| node.command(&["PUBSUB", "NUMSUB", &channel]).elements()[1].as_int());
        numbers.map(|number| number.expect("a number")).sum::<i64>() == 1
    };
    let mut waits = Vec::new();
    for _ in 0..=ROUNDS / 3 {
        jvm.tell("lock", &[&object, &NEVER.as_millis().to_string()]).await;
        let acquire = lock.acquire(Wish { lease: Some(NEVER), ..Wish::default() });
        let waiting = tokio::spawn(async { (acquire.await, clock()) });
        crate::world::until("our client listens", listening).await;
        let unlocked = jvm.tell("unlock", &[&object]).await;
        let (guard, woken) = waiting.await.expect("a task");
        waits.push(woken.saturating_sub(unlocked.began));
        let waiting = jvm.begin("lock", &[&object]).await;
        crate::world::until("the JVM listens", listening).await;
        let released = clock();
        guard.expect("the lock").release().await.expect("a release");
        waits.push(waiting.await.expect("an answer").expect("no exception").ended.saturating_sub(released));
        jvm.tell("unlock", &[&object]).await;
    }
    judge(&world, waits);
}

/// Judges how long a side slept on, in microseconds. Leaves the first out, which finds scripts and connections that are not there yet.
pub(super) fn judge(world: &World, mut waits: Vec<u64>) {
    waits.remove(0);
    waits.sort_unstable();
    let milliseconds = |micros: u64| Duration::from_micros(micros).as_secs_f64() * 1000.0;
    let (least, median, most) = (waits[0], waits[waits.len() / 2], waits[waits.len() - 1]);
    world.note(format!(
        "woken after {:.1} ms (median; {:.1} to {:.1})",
        milliseconds(median),
        milliseconds(least),
        milliseconds(most)
    ));
    assert!(Duration::from_micros(median) <= USUAL, "the median of {waits:?} us");
    assert!(Duration::from_micros(most) <= WORST, "the slowest of {waits:?} us");
}
