//! Clients that are shut down, and guards, tasks and runtimes that just go away.

use crate::support::world::idle;
use crate::support::{NEVER, RENEWED, World, ms, secs, until};
use leasehold::blocking::wait;
use leasehold::leader::Term;
use leasehold::{ClientBuilder, Error, LossReason};
use leasehold_test_support::Rounds;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Barrier, watch};

pub(crate) async fn a_shutdown_lets_guards_end_and_tells_everybody_else(world: World) {
    let (client, other) = (world.client_with(|builder| builder.lease(RENEWED)).await, world.client().await);
    let names: Vec<String> = (0..20).map(|_| world.name("closing")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).acquire().await.expect("the lock"));
    }
    let lingering = world.name("lingering");
    drop(client.lock(&lingering).linger(ms(500)).acquire().await.expect("the lock"));
    let busy = world.name("busy");
    let held_elsewhere = other.lock(&busy).acquire().await.expect("the lock");
    let waiting = tokio::spawn({
        let lock = client.lock(&busy);
        async move { lock.acquire().await.map(drop) }
    });
    until("the waiter listens", || world.subscribers(&busy) == 1).await;
    let mut shutdown = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(NEVER).await }
    });
    let told = waiting.await.expect("a task").expect_err("a client that is shut down");
    assert_eq!(told, Error::ShutDown { lock: busy.clone() });
    until("the waiter listens no more", || world.subscribers(&busy) == 0).await;
    let late = client.lock(&names[0]).acquire().await.expect_err("a client that is shut down");
    assert_eq!(late, Error::ShutDown { lock: names[0].clone() });
    assert!(matches!(client.lock(&names[0]).try_acquire().await, Err(Error::ShutDown { .. })));
    assert!(matches!(guards[0].reenter().await, Err(Error::ShutDown { .. })));
    world.gone(&lingering).await;
    // The guards that exist are renewed, for longer than a lease.
    let over = tokio::time::timeout(RENEWED * 3 / 2, &mut shutdown).await;
    assert!(over.is_err(), "there are guards");
    for (name, guard) in names.iter().zip(guards) {
        assert!(other.lock(name).try_acquire().await.expect("an answer").is_none());
        guard.release().await.expect("it was held up to now");
    }
    shutdown.await.expect("a task").expect("everything is released");
    for name in &names {
        assert!(!world.exists(name), "{name} is released");
    }
    client.shutdown(secs(1)).await.expect("a second shutdown does nothing");
    held_elsewhere.release().await.expect("other clients are not touched");
}

pub(crate) async fn lock_of_a_guard_that_outlives_a_shutdown_stays_taken_while_the_guard_exists(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.lock(world.name("outlives"));
    let guard = lock.acquire().await.expect("the lock");
    let left = client.shutdown(ms(50)).await.expect_err("there is a guard");
    assert_eq!(left.locks(), [lock.name()]);
    assert_eq!(guard.lost().await.reason(), LossReason::ShutDown);
    let taken = other.lock(lock.name()).try_acquire().await.expect("an answer");
    assert!(taken.is_none(), "its work may not have stopped yet");
    let released = guard.release().await;
    assert!(matches!(released, Err(Error::Lost { reason: LossReason::ShutDown, .. })), "{released:?}");
    // Long before its lease is over.
    world.gone(lock.name()).await;
}

pub(crate) async fn lock_of_a_guard_that_is_never_dropped_is_free_a_lease_after_a_shutdown(world: World) {
    let (client, other) = (world.client_with(|builder| builder.lease(RENEWED)).await, world.client().await);
    let lock = client.lock(world.name("leaked"));
    let guard = lock.acquire().await.expect("the lock");
    client.shutdown(ms(1)).await.expect_err("there is a guard");
    let next = other.lock(lock.name()).acquire().await.expect("the lock");
    assert!(!guard.is_held());
    drop(guard);
    next.release().await.expect("the lost guard does not touch it");
}

pub(crate) async fn work_and_threads_and_leaders_end_in_order_through_a_shutdown(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let names = ["with", "thread", "permits", "leader"].map(|what| world.name(what));
    client.semaphore(&names[2]).try_set_permits(1).await.expect("an answer");
    let begun = Arc::new(Barrier::new(4));
    let (finish, finished) = watch::channel(false);
    let ended = || {
        let (mut finished, begun) = (finished.clone(), begun.clone());
        async move {
            begun.wait().await;
            drop(finished.wait_for(|finished| *finished).await.expect("a sender"));
        }
    };
    let with = tokio::spawn({
        let (lock, work) = (client.lock(&names[0]), ended());
        async move { lock.with(async |_| work.await).await }
    });
    let thread = tokio::task::spawn_blocking({
        let lock = client.lock(&names[1]);
        let (work, home) = (ended(), tokio::runtime::Handle::current());
        move || wait(lock.with(async |guard| (home.block_on(work), guard.is_held()).1))
    });
    let permits = tokio::spawn({
        let (permits, work) = (client.semaphore(&names[2]), ended());
        async move {
            let guard = permits.acquire().await.expect("a permit");
            work.await;
            guard.release().await
        }
    });
    // Its work has no end of its own: it resigns.
    let leader = client.leader(&names[3]);
    let handle = leader.handle();
    let work = async |term: &Term| {
        term.resigned().await;
        term.is_leading()
    };
    let leader = tokio::spawn(leader.run(work));
    until("it leads", || handle.is_leader()).await;
    begun.wait().await;
    let shutdown = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(NEVER).await }
    });
    assert_eq!(leader.await.expect("a task").expect("a term in order"), Some(true));
    until("the client is closed", || {
        let lock = client.lock(&names[0]);
        let late = lock.try_acquire();
        futures_util::FutureExt::now_or_never(late).is_some_and(|late| matches!(late, Err(Error::ShutDown { .. })))
    })
    .await;
    assert!(other.lock(&names[0]).try_acquire().await.expect("an answer").is_none());
    assert!(other.lock(&names[1]).try_acquire().await.expect("an answer").is_none());
    assert!(other.semaphore(&names[2]).try_acquire().await.expect("an answer").is_none());
    finish.send(true).expect("work that waits");
    with.await.expect("a task").expect("work in order");
    assert!(thread.await.expect("a thread").expect("work in order"));
    permits.await.expect("a task").expect("a release");
    shutdown.await.expect("a task").expect("everything is released");
    for name in [&names[0], &names[1]] {
        assert!(!world.exists(name), "{name} is released");
    }
}

pub(crate) async fn a_dropped_guard_is_released_in_the_background(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("dropped"));
    drop(lock.acquire().await.expect("the lock"));
    world.gone(lock.name()).await;
    // A panic drops the guard too.
    let panicking = tokio::spawn({
        let lock = lock.clone();
        async move {
            let _guard = lock.acquire().await.expect("the lock");
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    });
    assert!(panicking.await.expect_err("a panic").is_panic());
    world.gone(lock.name()).await;
    // A runtime that goes away drops its tasks.
    let (held, holds) = tokio::sync::oneshot::channel();
    let gone = std::thread::spawn({
        let lock = lock.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            drop(runtime.spawn(async move {
                let guard = lock.acquire().await.expect("the lock");
                let _ = held.send(());
                std::future::pending::<()>().await;
                drop(guard);
            }));
            runtime.block_on(async { drop(holds.await) });
        }
    });
    tokio::task::spawn_blocking(|| gone.join()).await.expect("a thread").expect("a runtime that went away");
    world.gone(lock.name()).await;
    idle(&client).await;
}

pub(crate) async fn a_shutdown_names_what_it_could_not_release(world: World) {
    let world = world.proxied();
    // Only the limit of the shutdown ends it.
    let patient = |builder: ClientBuilder| builder.unreachable_after(NEVER).command_timeout(secs(1));
    let client = world.client_with(|builder| patient(builder).lease(RENEWED)).await;
    let names = [world.name("first"), world.name("second")];
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).acquire().await.expect("the lock"));
    }
    world.set_down(true);
    let left = client.shutdown(ms(300)).await.expect_err("a server that is down");
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(left.locks(), expected);
    assert!(left.to_string().contains(&names[0]), "{left}");
    for guard in guards {
        assert_eq!(guard.lost().await.reason(), LossReason::ShutDown);
    }
    for name in &names {
        until("the lease has run out", || !world.exists(name)).await;
    }
}

pub(crate) async fn last_handle_that_is_dropped_in_a_runtime_waits_for_its_releases(world: World) {
    let mut rounds = Rounds::default();
    loop {
        let client = world.client().await;
        let name = world.name("last");
        let guard = client.lock(&name).acquire().await.expect("the lock");
        let begun = Instant::now();
        drop(guard);
        drop(client);
        let is_free = !world.exists(&name);
        // A drop that has waited for as long as it may says nothing.
        if rounds.end_with(is_free || begun.elapsed() < ms(250), begun.elapsed()) {
            assert!(is_free, "the process could end now");
            break;
        }
    }
}

pub(crate) async fn thread_that_drops_a_guard_of_a_client_that_lives_waits_for_the_release(world: World) {
    let client = world.client().await;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rounds = Rounds::default();
            loop {
                let names = ["lock", "one of many"].map(|what| world.name(what));
                let guard = wait(client.lock(&names[0]).acquire()).expect("the lock");
                let many = wait(client.multi_lock([client.lock(&names[1])]).acquire()).expect("the locks");
                let begun = Instant::now();
                drop((guard, many));
                let is_free = names.iter().all(|name| !world.exists(name));
                if rounds.end_with(is_free || begun.elapsed() < ms(250), begun.elapsed()) {
                    assert!(is_free, "the process could end now");
                    break;
                }
            }
        });
    });
}
