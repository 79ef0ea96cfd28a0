//! Locks that a client hands on among its tasks: what the server sees of that, and that others get in.

use crate::support::world::idle;
use crate::support::{Engine, World, ms, secs, until};
use futures_util::FutureExt as _;
use leasehold::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

/// A client that hands on.
async fn handing(world: &World) -> Client {
    world.client_with(|builder| builder.hand_over(true)).await
}

pub(crate) async fn release_hands_the_field_on_to_the_next_task(world: World) {
    let client = handing(&world).await;
    let name = world.name("hot");
    // A hold is handed on for 10 ms, and a task that is held up for longer releases it to the server. So it is tried until it is handed on once.
    let begun = Instant::now();
    loop {
        let first = client.lock(&name).acquire().await.expect("the lock");
        let holder = first.holder_id();
        let mut next = Box::pin(client.lock(&name).acquire().into_future());
        assert!((&mut next).now_or_never().is_none(), "it is held");
        first.release().await.expect("a release");
        let next = next.await.expect("the lock");
        let is_same = next.holder_id() == holder;
        assert_eq!(world.holds(&name), [(next.holder_id().to_string(), 1)], "one hold, with one count");
        assert!(next.is_held() && next.hold_count() == 1);
        next.release().await.expect("a release");
        world.gone(&name).await;
        if is_same {
            break;
        }
        assert!(begun.elapsed() < secs(60), "it is never handed on");
    }
    idle(&client).await;
}

/// Ten thousand tasks on the embedded engine, fewer where every step is a round trip.
pub(crate) async fn a_crowd_costs_less_than_one_command_each(world: World) {
    let world = world.own();
    world.warm();
    let tasks: u64 = match world.engine {
        Engine::Embedded => 10_000,
        _ => 300,
    };
    let (holder, client) = (world.client().await, handing(&world).await);
    let name = world.name("crowd");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let inside = Arc::new(AtomicU32::new(0));
    let mut crowd = JoinSet::new();
    for task in 0..tasks {
        let (lock, inside) = (client.lock(&name), inside.clone());
        crowd.spawn(async move {
            let guard = lock.acquire().await.expect("the lock");
            assert_eq!(inside.swap(1, Ordering::SeqCst), 0, "two holders");
            if task.is_multiple_of(5) {
                tokio::task::yield_now().await;
            }
            assert!(guard.is_held());
            inside.store(0, Ordering::SeqCst);
            if task.is_multiple_of(3) { drop(guard) } else { guard.release().await.expect("a release") }
        });
    }
    let waiting = usize::try_from(tasks).expect("a number of tasks");
    until("all wait", || client.stats().requests == waiting).await;
    until("the waiters listen", || world.subscribers(&name) == 1).await;
    let before = world.calls();
    guard.release().await.expect("a release");
    while let Some(done) = crowd.join_next().await {
        done.expect("a task");
    }
    let calls = world.calls() - before;
    assert!(calls < tasks, "{calls} calls for {tasks} tasks");
    world.gone(&name).await;
    idle(&client).await;
}

pub(crate) async fn another_client_gets_in_between_hand_overs(world: World) {
    let (busy, other) = (handing(&world).await, handing(&world).await);
    let name = world.name("hot");
    let (inside, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (lock, inside, over) = (busy.lock(&name), inside.clone(), over.clone());
        tasks.spawn(async move {
            let mut grants = 0_u32;
            while !over.load(Ordering::SeqCst) {
                let guard = lock.acquire().await.expect("the lock");
                assert_eq!(inside.swap(1, Ordering::SeqCst), 0, "two holders");
                tokio::task::yield_now().await;
                inside.store(0, Ordering::SeqCst);
                guard.release().await.expect("a release");
                grants += 1;
            }
            grants
        });
    }
    until("the tasks hold and wait", || busy.stats().requests >= 4).await;
    let begun = Instant::now();
    for _ in 0..5 {
        let guard = other.lock(&name).acquire().wait(secs(20)).await.expect("the lock, between two hand-overs");
        assert_eq!(inside.swap(1, Ordering::SeqCst), 0, "two holders");
        tokio::time::sleep(ms(1)).await;
        inside.store(0, Ordering::SeqCst);
        guard.release().await.expect("a release");
    }
    assert!(begun.elapsed() < secs(30), "in after {:?}", begun.elapsed());
    over.store(true, Ordering::SeqCst);
    while let Some(grants) = tasks.join_next().await {
        assert!(grants.expect("a task") > 0, "each task has its turn");
    }
    world.gone(&name).await;
    idle(&busy).await;
}
