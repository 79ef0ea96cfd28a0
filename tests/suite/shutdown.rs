//! Clients that are shut down, and guards, tasks and runtimes that just go away.

use crate::support::world::idle;
use crate::support::{NEVER, RENEWED, World, ms, secs, until};
use leasehold::{ClientBuilder, Error, LossReason};

pub(crate) async fn a_shutdown_releases_everything_and_tells_everybody(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let names: Vec<String> = (0..20).map(|_| world.name("closing")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(name).acquire().await.expect("the lock"));
    }
    let busy = world.name("busy");
    let held_elsewhere = other.lock(&busy).acquire().await.expect("the lock");
    let waiting = tokio::spawn({
        let lock = client.lock(&busy);
        async move { lock.acquire().await.map(drop) }
    });
    until("the waiter listens", || world.subscribers(&busy) == 1).await;
    client.shutdown(secs(10)).await.expect("everything is released");
    let told = waiting.await.expect("a task").expect_err("a client that is shut down");
    assert_eq!(told, Error::ShutDown { lock: busy.clone() });
    for (name, guard) in names.iter().zip(guards) {
        assert!(!world.exists(name), "{name} is released");
        assert_eq!(guard.lost().await.reason(), LossReason::ShutDown);
    }
    assert_eq!(world.subscribers(&busy), 0);
    let late = client.lock(&names[0]).acquire().await.expect_err("a client that is shut down");
    assert_eq!(late, Error::ShutDown { lock: names[0].clone() });
    assert!(matches!(client.lock(&names[0]).try_acquire().await, Err(Error::ShutDown { .. })));
    client.shutdown(secs(1)).await.expect("a second shutdown does nothing");
    held_elsewhere.release().await.expect("other clients are not touched");
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
