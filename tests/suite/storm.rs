//! Everything at once: never two holders, and nothing left at the end.

use crate::support::world::idle;
use crate::support::{Engine, World, ms, secs, until};
use leasehold::{Client, Guard, Lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const CLIENTS: usize = 4;
const NAMES: usize = 8;
const TASKS: usize = 64;

/// What goes on inside a name's critical section.
#[derive(Default)]
struct Section {
    inside: AtomicU32,
    entered: AtomicU64,
}

impl Section {
    fn enter(&self) -> Inside<'_> {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        self.entered.fetch_add(1, Ordering::Relaxed);
        Inside(self)
    }
}

struct Inside<'a>(&'a Section);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One task's steps. What it does when is made up of its number, so that a failure can be looked at again.
async fn steps(task: usize, steps: usize, locks: Arc<Vec<Vec<Lock>>>, sections: Arc<Vec<Section>>) {
    let mut rng = fastrand_like(task as u64);
    for _ in 0..steps {
        let name = (rng() % NAMES as u64) as usize;
        let lock = &locks[task % CLIENTS][name];
        let section = &sections[name];
        let within = Duration::from_micros(rng() % 2_000);
        match rng() % 8 {
            // A try.
            0 | 1 => leave(lock.try_acquire().await.expect("an answer"), section, rng()).await,
            // An acquire that is cancelled if it takes too long.
            2 | 3 => {
                let acquired = tokio::time::timeout(within, lock.acquire().into_future()).await;
                leave(acquired.ok().map(|acquired| acquired.expect("the lock")), section, rng()).await;
            }
            // An acquire that is polled once, and dropped.
            4 => drop(futures_util::FutureExt::now_or_never(lock.acquire().into_future())),
            // A wait that may run out.
            5 => match lock.acquire().wait(within).await {
                Ok(guard) => leave(Some(guard), section, rng()).await,
                Err(leasehold::Error::WaitElapsed { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            // An acquire that waits as long as it takes.
            6 => leave(Some(lock.acquire().await.expect("the lock")), section, rng()).await,
            // Work under the lock, with a re-entry.
            _ => {
                let guard = lock.acquire().await.expect("the lock");
                let inside = section.enter();
                let again = guard.reenter().await.expect("a re-entry");
                assert_eq!(again.hold_count(), 2);
                drop(inside);
                let (one, other) = tokio::join!(again.release(), guard.release());
                one.and(other).expect("two releases");
            }
        }
    }
}

/// Leaves a critical section in one of many ways.
async fn leave(guard: Option<Guard>, section: &Section, way: u64) {
    let Some(guard) = guard else { return };
    assert!(guard.is_held());
    let inside = section.enter();
    if way.is_multiple_of(3) {
        tokio::task::yield_now().await;
    }
    drop(inside);
    match way % 4 {
        0 => drop(guard),
        // The release is dropped before it has been polled, or half-way.
        1 => drop(guard.release()),
        2 => drop(tokio::time::timeout(Duration::ZERO, guard.release()).await),
        _ => guard.release().await.expect("a release"),
    }
}

/// Numbers as good as random, by xorshift.
fn fastrand_like(seed: u64) -> impl FnMut() -> u64 + Send {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    }
}

pub(crate) async fn many_tasks_on_few_names(world: World) {
    let world = world.own();
    let total = if world.engine == Engine::Embedded { 100_000 } else { 20_000 };
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(world.client_with(|builder| builder.lease(secs(10))).await);
    }
    let names: Vec<String> = (0..NAMES).map(|_| world.name("storm")).collect();
    let locks: Vec<Vec<Lock>> =
        clients.iter().map(|client| names.iter().map(|name| client.lock(name)).collect()).collect();
    let (locks, sections) = (Arc::new(locks), Arc::new(Vec::from_iter((0..NAMES).map(|_| Section::default()))));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(steps(task, total / TASKS, locks.clone(), sections.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a task");
    }
    let entered: u64 = sections.iter().map(|section| section.entered.load(Ordering::Relaxed)).sum();
    assert!(entered > total as u64 / 10, "the sections were entered {entered} times in {total} steps");
    for client in &clients {
        idle(client).await;
    }
    until("no key is left", || world.keys().is_empty()).await;
    until("no subscription is left", || world.subscriptions() == 0).await;
    for client in clients {
        client.shutdown(secs(5)).await.expect("nothing is left");
    }
    tokio::time::sleep(ms(20)).await;
    assert!(world.keys().is_empty() && world.subscriptions() == 0, "nothing comes late");
}
