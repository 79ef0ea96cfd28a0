//! Everything at once: never two holders, and nothing left at the end.

use crate::support::kinds::{AnyGuard, AnyLock, for_every_kind};
use crate::support::world::idle;
use crate::support::{Engine, Kind, NEVER, World, ms, secs, until};
use leasehold::{Client, ClientBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const CLIENTS: usize = 4;
const NAMES: usize = 8;
const TASKS: usize = 64;

/// The events inside a name's critical section.
#[derive(Default)]
struct Section {
    readers: AtomicU32,
    writers: AtomicU32,
    entered: AtomicU64,
    token: AtomicU64,
}

impl Section {
    /// Holders that share it exclude only those that do not.
    fn enter(&self, guard: &AnyGuard, shared: bool) -> Inside<'_> {
        let inside = if shared { &self.readers } else { &self.writers };
        let others = inside.fetch_add(1, Ordering::SeqCst);
        if shared {
            assert_eq!(self.writers.load(Ordering::SeqCst), 0, "a writer beside readers");
        } else {
            assert_eq!(others, 0, "two holders");
            assert_eq!(self.readers.load(Ordering::SeqCst), 0, "readers beside a writer");
        }
        if let Some(token) = guard.fencing_token() {
            assert!(self.token.swap(token, Ordering::SeqCst) < token, "the token {token} does not grow");
        }
        self.entered.fetch_add(1, Ordering::Relaxed);
        Inside(inside)
    }
}

struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The ways to ask for each name, as one of the processes has them.
type Names = Vec<Vec<AnyLock>>;

/// One task's steps. Its number decides what it does when, so that a failure can be looked at again.
async fn steps(task: usize, steps: usize, names: Arc<Vec<Names>>, sections: Arc<Vec<Section>>) {
    let mut rng = fastrand_like(task as u64);
    for _ in 0..steps {
        let name = (rng() % sections.len() as u64) as usize;
        let ways = &names[task % CLIENTS][name];
        let lock = &ways[(rng() % ways.len() as u64) as usize];
        let section = &sections[name];
        let within = Duration::from_micros(rng() % 2_000);
        match rng() % 8 {
            // A try.
            0 | 1 => leave(lock, lock.try_acquire().await.expect("an answer"), section, rng()).await,
            // An acquire that is cancelled if it takes too long.
            2 | 3 => {
                let acquired = tokio::time::timeout(within, lock.acquire()).await;
                leave(lock, acquired.ok().map(|acquired| acquired.expect("the lock")), section, rng()).await;
            }
            // An acquire that is polled once, and dropped.
            4 => drop(futures_util::FutureExt::now_or_never(lock.acquire())),
            // A wait that may run out.
            5 => match lock.acquire_within(within).await {
                Ok(guard) => leave(lock, Some(guard), section, rng()).await,
                Err(leasehold::Error::WaitElapsed { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            // An acquire that waits as long as it takes.
            6 => leave(lock, Some(lock.acquire().await.expect("the lock")), section, rng()).await,
            // Work under the lock, with a re-entry where the kind has one.
            _ => {
                let guard = lock.acquire().await.expect("the lock");
                let inside = section.enter(&guard, lock.shared);
                let again = match guard.reenter() {
                    Some(entering) => Some(entering.await.expect("a re-entry")),
                    None => None,
                };
                drop(inside);
                let Some(again) = again else {
                    guard.release().await.expect("a release");
                    continue;
                };
                assert_eq!(again.fencing_token(), guard.fencing_token(), "a re-entry has the token of its hold");
                let (one, other) = tokio::join!(again.release(), guard.release());
                one.and(other).expect("two releases");
            }
        }
    }
}

/// Leaves a critical section in one of many ways.
async fn leave(lock: &AnyLock, guard: Option<AnyGuard>, section: &Section, way: u64) {
    let Some(guard) = guard else { return };
    assert!(guard.is_held());
    let inside = section.enter(&guard, lock.shared);
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

/// How many steps are enough for a kind on an engine: those that poll, or ask several servers, take longer for each.
const fn steps_of(kind: Kind, engine: Engine) -> usize {
    let embedded = matches!(engine, Engine::Embedded);
    match kind {
        // Each step takes two round trips of 5 ms, and most of them stand in line.
        _ if matches!(engine, Engine::Slow) => 320,
        Kind::Lock if embedded => 100_000,
        Kind::Lock => 20_000,
        // Each grant waits for one task alone to be polled, which takes its time on a busy machine.
        Kind::Fair | Kind::FencedFair => 640,
        Kind::Spin | Kind::Simple | Kind::Multi | Kind::Striped | Kind::Quorum if embedded => 6_000,
        Kind::Spin | Kind::Simple | Kind::Multi | Kind::Striped | Kind::Quorum => 2_000,
        _ if embedded => 20_000,
        _ => 4_000,
    }
}

async fn many_tasks_on_few_names(world: World, kind: Kind) {
    let worlds: Vec<World> = (0..kind.servers()).map(|_| World::on(world.engine).own()).collect();
    let total = steps_of(kind, world.engine);
    let mut processes: Vec<Vec<Client>> = Vec::new();
    for process in 0..CLIENTS {
        let mut clients = Vec::new();
        for world in &worlds {
            // Some hand on among their tasks what they may, and others never do.
            let hand_over = process.is_multiple_of(2);
            // A machine that is held up loses no hold and no reply.
            let patient =
                |builder: ClientBuilder| builder.lease(NEVER).command_timeout(secs(30)).unreachable_after(NEVER);
            clients.push(world.client_with(|builder| patient(builder).hand_over(hand_over)).await);
        }
        processes.push(clients);
    }
    let names: Vec<String> = (0..NAMES).map(|_| world.name("storm")).collect();
    let of_name = |clients: &Vec<Client>, name: &String| {
        let lingering = kind.lingering(clients, name);
        kind.locks(clients, name).into_iter().chain(lingering).collect()
    };
    let ways = |clients: &Vec<Client>| names.iter().map(|name| of_name(clients, name)).collect();
    let locks: Arc<Vec<Names>> = Arc::new(processes.iter().map(ways).collect());
    let sections = Arc::new(Vec::from_iter((0..NAMES).map(|_| Section::default())));
    let mut tasks = JoinSet::new();
    let crowd = if kind.is_fair() { TASKS / 4 } else { TASKS };
    for task in 0..crowd {
        tasks.spawn(steps(task, total / crowd, locks.clone(), sections.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a task");
    }
    drop(locks);
    let entered: u64 = sections.iter().map(|section| section.entered.load(Ordering::Relaxed)).sum();
    assert!(entered > total as u64 / 10, "the sections were entered {entered} times in {total} steps");
    for client in processes.iter().flatten() {
        idle(client).await;
    }
    for world in &worlds {
        until("no key is left", || kind.leftovers(world).is_empty()).await;
        until("no subscription is left", || world.subscriptions() == 0).await;
    }
    for client in processes.into_iter().flatten() {
        client.shutdown(NEVER).await.expect("nothing is left");
    }
    tokio::time::sleep(ms(20)).await;
    for world in &worlds {
        let left = kind.leftovers(world);
        assert!(left.is_empty() && world.subscriptions() == 0, "nothing comes late: {left:?}");
    }
}

for_every_kind!(many_tasks_on_few_names);
